// Where the bytes of a checkpoint come from: a cut's file, or a state in memory.
#ifndef MILLRACE_PS_CHECKPOINT_STATE_SOURCE_H_
#define MILLRACE_PS_CHECKPOINT_STATE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "common/checkpoint/shard_writer.h"
#include "protos/parameter_server.pb.h"
#include "ps/cut/cut_file.h"
#include "ps/dense/shard_plan.h"
#include "ps/dense/shard_state.h"

namespace millrace::ps {

// A state that can be read to its end, whatever its shard does meanwhile.
class StateSource : public BlockSource {
 public:
  virtual uint64_t epoch() const = 0;
  virtual uint64_t version() const = 0;
  virtual StepSet applied() const = 0;
  // The most that it has used for itself so far; of a state in memory, what is kept for it alone.
  virtual uint64_t memory_bytes() const = 0;
};

std::unique_ptr<StateSource> SourceOfCut(std::unique_ptr<OpenCut> cut);

// `newest`: what the state's shard is now, whose blocks are not kept for the source alone. nullptr,
// or returns nullptr: there is no such shard.
std::unique_ptr<StateSource> SourceOfState(uint64_t epoch, StatePtr state,
                                           std::function<StatePtr()> newest);

// What is written of a shard in such a state.
ShardImage MakeImage(const ShardPlan& plan, const StateSource& source);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CHECKPOINT_STATE_SOURCE_H_
