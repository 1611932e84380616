// Where the bytes of a checkpoint come from: a cut's file, or a state in memory.
#ifndef MILLRACE_PS_CHECKPOINT_STATE_SOURCE_H_
#define MILLRACE_PS_CHECKPOINT_STATE_SOURCE_H_

#include <cstdint>
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
  // That it has used for itself so far.
  virtual uint64_t memory_bytes() const = 0;
};

std::unique_ptr<StateSource> SourceOfCut(std::unique_ptr<OpenCut> cut);

// `is_extra`: nobody but the source needs the state.
std::unique_ptr<StateSource> SourceOfState(uint64_t epoch, StatePtr state, bool is_extra);

// What is written of a shard in such a state.
ShardImage MakeImage(const ShardPlan& plan, const StateSource& source);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CHECKPOINT_STATE_SOURCE_H_
