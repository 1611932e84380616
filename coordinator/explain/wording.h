// What the coordinator knows of a job's members and shards, in words for people.
#ifndef MILLRACE_COORDINATOR_EXPLAIN_WORDING_H_
#define MILLRACE_COORDINATOR_EXPLAIN_WORDING_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/job_spec.h"
#include "coordinator/dispatch/job_view.h"
#include "coordinator/explain/explain_facts.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// "0.4 s", "34 s", "12 min", "3 h".
std::string DescribeDuration(absl::Duration duration);

// " for 34 s"; "" for 0, which is not known.
std::string For(absl::Duration since);

// Thread-safe.
class Wording {
 public:
  // Not owned; must not change.
  explicit Wording(const ExplainFacts& facts)
      : facts_(facts), replicas_(Replicas(facts.status.spec())) {}

  // "step 17 (version 4)".
  std::string DescribeStep(uint64_t step) const;
  // "worker-0 is gone for 34 s (it leaves)".
  static std::string Describe(const DepartureFacts& departure);
  // "has been pushing step 17 to shard 0 on ps-0 for 34 s", to be put after the worker's name.
  std::string Describe(const Activity& activity) const;
  // To be put after what is pulled or pushed; empty: not known.
  std::string PlaceOf(const Activity& activity) const;
  // What its server has to do with it, to be put after the above; empty: nothing is known.
  std::string ServerRemark(const Activity& activity) const;

  // Why it takes no steps, to be put after its name; empty: it does.
  std::string TroubleOf(const WorkerView& worker) const;
  std::string TroubleOf(const ShardFacts& shard) const;

  // A push of it that takes long, or a pull of an asynchronous job, with the server's remark, to be
  // put after its name; empty: there is none.
  std::string LongCallOf(const WorkerView& worker) const;

  // Null: it is gone.
  const MemberFacts* Member(uint64_t worker) const;
  // What it says of this step; or what else keeps it from it: not a step that it has done since it
  // was last heard of. Null: nothing. `member` may be null.
  static const Activity* ActivityFor(const MemberFacts* member, uint64_t step,
                                     const WorkerView& worker);
  // Of a ps server, by name; 0: it answers.
  absl::Duration SilenceOf(const std::string& server) const;

 private:
  const ShardFacts* ShardOf(const Activity& activity) const;

  const ExplainFacts& facts_;
  const uint32_t replicas_;  // 0: asynchronous.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_EXPLAIN_WORDING_H_
