// A real coordinator with fake members, for tests.
#ifndef MILLRACE_COORDINATOR_TESTING_FAKE_CLUSTER_H_
#define MILLRACE_COORDINATOR_TESTING_FAKE_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/coordinator.h"
#include "coordinator/testing/fake_ps.h"
#include "coordinator/testing/fake_worker.h"
#include "protos/job.grpc.pb.h"

namespace millrace::coordinator {

// A job that CheckJobSpec accepts; asynchronous, `steps` long.
JobSpec PlainJob(uint64_t steps);

// The same, evaluated at `every` steps and at the end.
JobSpec EvaluatedJob(uint64_t steps, uint64_t every);

// Its heartbeats are hours apart: a member is gone when its stream breaks.
class FakeCluster {
 public:
  // Makes `ps` fake servers, named ps-0 and so on, and starts a coordinator on a fresh directory
  // that waits for all of them. Nobody has joined yet.
  explicit FakeCluster(int ps, const CoordinatorOptions& options = {});
  ~FakeCluster();

  void StartPs();                                       // All of them.
  FakeWorker& AddWorker(FakeWorkerScript script = {});  // Named worker-0 and so on; joins.

  // Lets jobs write their checkpoints first.
  void StopCoordinatorInOrder();
  // Starts another life of the coordinator on the same directory; nobody rejoins by itself.
  void StopCoordinator();
  void StartCoordinator();
  // Its journal, which a test may copy and put back while it is stopped.
  const std::string& data_dir() const { return options_.data_dir; }

  FakePs& ps(int i) { return *ps_[i]; }
  FakeWorker& worker(int i) { return *workers_[i]; }
  FakePsList servers() const;
  std::string address() const { return coordinator_->address(); }

  // The service's calls.
  absl::StatusOr<std::string> Submit(const JobSpec& spec, const std::string& request_id = "");
  absl::StatusOr<JobStatus> Get(const std::string& job_id);
  std::vector<JobStatus> List();
  absl::StatusOr<JobStatus> Cancel(const std::string& job_id);
  absl::StatusOr<CheckpointInfo> Checkpoint(const std::string& job_id, bool wait);
  absl::StatusOr<JobExplanation> Explain(const std::string& job_id);
  absl::StatusOr<GetVariablesResponse> Variables(const std::string& job_id);
  absl::StatusOr<EvacuatePsResponse> Evacuate(const std::string& ps_server, bool undo = false);
  absl::StatusOr<RebalanceJobResponse> Rebalance(const std::string& job_id);

  // Reads events after `after_sequence` until `enough` says so, or the stream ends.
  absl::StatusOr<std::vector<JobEvent>> Watch(
      const std::string& job_id, uint64_t after_sequence = 0,
      const std::function<bool(const JobEvent&)>& enough = [](const JobEvent&) { return false; });
  // The job's final status. Fails the test where it is not told.
  JobStatus AwaitEnd(const std::string& job_id);
  // Waits for a notice that contains `text`.
  void AwaitNotice(const std::string& job_id, const std::string& text);
  // Explains the job again and again until the verdict contains `text`.
  JobExplanation AwaitVerdict(const std::string& job_id, const std::string& text);
  void AwaitRunning(const std::string& job_id);
  // Waits for the first checkpoint that has ended after event `after`.
  JobEvent AwaitCheckpoint(const std::string& job_id, uint64_t after = 0);
  // Waits until the coordinator does not know the job any more.
  void AwaitUnknown(const std::string& job_id);

  // Expects that every shard of the job has applied exactly the steps before `steps`.
  void ExpectAllApplied(const std::string& job_id, uint64_t steps) const;

 private:
  CoordinatorOptions options_;
  std::vector<std::unique_ptr<FakePs>> ps_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Jobs::Stub> jobs_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_TESTING_FAKE_CLUSTER_H_
