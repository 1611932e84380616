// A worker without a model: it pushes nothing to fake ps servers, step by step.
#ifndef MILLRACE_COORDINATOR_TESTING_FAKE_WORKER_H_
#define MILLRACE_COORDINATOR_TESTING_FAKE_WORKER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "coordinator/testing/fake_ps.h"
#include "coordinator/testing/gate.h"
#include "coordinator/testing/member_connection.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// What a fake worker does; unset functions do the plain thing. They run on the worker's threads and
// may block.
struct FakeWorkerScript {
  uint32_t lease_slots = 2;
  // Plain: three variables of 6, 1 and 40 elements, 100 training and 10 evaluation examples.
  std::function<absl::StatusOr<JobPlan>(const JobSpec&)> plan;
  // When a route arrives; the answer is what the worker says of being prepared. Plain: OK.
  std::function<absl::Status(const SetRoute&)> prepare;
  // When a lease arrives.
  std::function<void(const Lease&, const SetRoute&)> on_lease;
  // Before a step is pushed. Errors give the lease back.
  std::function<absl::Status(const std::string& job_id, uint64_t step)> on_step;
  // Whether it reports a step without having pushed it. Plain: never.
  std::function<bool(const std::string& job_id, uint64_t step)> lies;
  // The loss of a step's one example. Plain: 1 / (step + 1).
  std::function<double(uint64_t step)> loss;
  // What it says that it spent on a step, in seconds. Plain: nothing.
  std::function<double(uint64_t step)> compute_seconds;
  // How many examples it says that a step had. Plain: 1.
  std::function<uint64_t(uint64_t step)> step_examples;
  // How many examples it says that it has evaluated. Plain: 10.
  std::function<uint64_t(const Evaluate&)> evaluated_examples;
  // Before an evaluation is answered. Errors are its answer.
  std::function<absl::Status(const Evaluate&)> on_evaluate;
  // The loss of an evaluation. Plain: 0.25.
  std::function<double(const Evaluate&)> evaluation_loss;
  // Of an evaluation, besides "loss" and "auc", 0.75.
  std::map<std::string, double> more_metrics;
};

// A worker that stands before `gate` (not owned) when it comes to `step`, of any job.
FakeWorkerScript WaitingAt(uint64_t step, Gate* gate);
// One that stands there before it answers an evaluation, with `status`.
FakeWorkerScript WaitingAtEvaluation(Gate* gate, const absl::Status& status = absl::OkStatus());

// The plan that a FakeWorker makes unless told otherwise.
JobPlan PlainPlan();

// The ps servers that workers know by address. Not owned; they outlive the workers.
using FakePsList = std::vector<FakePs*>;

class FakeWorker {
 public:
  FakeWorker(const std::string& name, FakePsList servers, FakeWorkerScript script = {});
  // Dies if it has not.
  ~FakeWorker();

  // Returns when the coordinator has taken it in.
  void Join(const std::string& coordinator);
  // Breaks the stream and stops computing.
  void Kill();
  // Leaves in good order: gives back what it has not begun.
  void Leave();

  // Sends a heartbeat that tells of an activity.
  void Tell(const Activity& activity);

  // Steps that every shard acknowledged to it, in order.
  std::vector<uint64_t> Computed(const std::string& job_id) const;
  // Generations of the routes it was sent, in order.
  std::vector<uint64_t> Generations(const std::string& job_id) const;
  bool WasForgotten(const std::string& job_id) const;
  void AwaitForgotten(const std::string& job_id);

 private:
  void OnMessage(const CoordinatorMessage& message);
  void Prepare(const SetRoute& route);
  // Plans, while Work() may be at a step, as a worker does.
  void Plan();
  void Work();
  void Compute(const Lease& lease, const SetRoute& route);
  absl::Status PushAll(const SetRoute& route, uint64_t step);
  void Send(const MemberMessage& message);
  FakePs* Find(const std::string& address) const;
  bool Stopped() const;

  const std::string name_;
  const FakePsList servers_;
  const FakeWorkerScript script_;
  uint64_t incarnation_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, SetRoute> routes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<uint64_t>> generations_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<uint64_t>> computed_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, bool> forgotten_ ABSL_GUARDED_BY(mutex_);
  std::deque<PlanJob> plans_ ABSL_GUARDED_BY(mutex_);
  std::deque<CoordinatorMessage> work_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = true;
  std::shared_ptr<MemberConnection> connection_ ABSL_GUARDED_BY(mutex_);
  std::thread planner_;
  std::thread thread_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_TESTING_FAKE_WORKER_H_
