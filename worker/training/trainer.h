// All that a worker does for its coordinator: planning jobs, computing steps, evaluating.
#ifndef MILLRACE_WORKER_TRAINING_TRAINER_H_
#define MILLRACE_WORKER_TRAINING_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/start_thread.h"
#include "protos/cluster.pb.h"
#include "worker/model/model.h"
#include "worker/training/background.h"
#include "worker/training/prepared_job.h"
#include "worker/training/seams.h"
#include "worker/training/step_loop.h"

namespace millrace::worker {

struct TrainerOptions {
  std::string worker_name;  // For the log.
  Clock* clock = Clock::Real();
  absl::Duration step_timeout = absl::Minutes(10);  // Of one pull or push.
  absl::Duration call_timeout = absl::Seconds(10);  // See ParameterClientOptions.
  ModelFactory make_model;
  DatasetOpener open_dataset;
  ParameterClientFactory make_client;
  ThreadStarter start_thread = StartThread;  // For what a job has threads for.
};

// Answers the coordinator's messages through `send`. Thread-safe.
class Trainer {
 public:
  // `send` must be thread-safe and must not block.
  Trainer(const TrainerOptions& options, std::function<void(MemberMessage)> send);

  // Stops if that was not done.
  ~Trainer();

  // Does what a message of the coordinator asks for, in threads of its own. Does not block.
  void Handle(const CoordinatorMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);

  // What it does now in its jobs, for people.
  std::vector<Activity> Activities() ABSL_LOCKS_EXCLUDED(mutex_);

  // Leases, evaluations and requests for plans are void: a new session begins. A job that is not
  // routed in it within a minute is forgotten. Does not block.
  void DropWork() ABSL_LOCKS_EXCLUDED(mutex_);

  // Finishes the steps under way (pulls are called off at once, pushes when they take long), gives
  // the leases back, reads no further in data that are being opened, and takes no more messages.
  // Blocks until that is done.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Job {
    std::shared_ptr<StepLoop> loop;
    // Routed in the present session. A job that is not may have ended while nobody could tell us.
    bool confirmed = true;
  };
  using Jobs = absl::flat_hash_map<std::string, Job>;

  void Plan(const PlanJob& request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Answers all that asked for this plan meanwhile. Blocks while it reads.
  void PlanNow(const std::string& key, const JobSpec& spec) ABSL_LOCKS_EXCLUDED(mutex_);
  void Route(const SetRoute& route) ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeLease(const Lease& lease) ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeEvaluation(const Evaluate& evaluate) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Where the system has no thread for the job, it says so and tries again later.
  void StartJob(const SetRoute& route) ABSL_LOCKS_EXCLUDED(mutex_);
  // RESOURCE_EXHAUSTED: no thread.
  absl::Status Start(const SetRoute& route) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartUnstarted() ABSL_LOCKS_EXCLUDED(mutex_);
  void StartUnstartedSoon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unless another session has begun since.
  void RetireUnconfirmed(int session) ABSL_LOCKS_EXCLUDED(mutex_);
  void Retire(std::shared_ptr<StepLoop> loop) ABSL_LOCKS_EXCLUDED(mutex_);
  // Soon gives the memory of what was dropped back to the system, which malloc keeps otherwise.
  void TrimSoon() ABSL_LOCKS_EXCLUDED(mutex_);

  // Null: no such job, or stopped.
  std::shared_ptr<StepLoop> Find(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  const TrainerOptions options_;
  const std::function<void(MemberMessage)> send_;
  JobPreparer preparer_;

  Mutex mutex_;                        // Guards what follows.
  Jobs jobs_ ABSL_GUARDED_BY(mutex_);  // By id.
  // The routes of jobs for which there was no thread, by id. None is in jobs_.
  absl::flat_hash_map<std::string, SetRoute> unstarted_ ABSL_GUARDED_BY(mutex_);
  // The requests for plans that are not made yet, by JobPreparer::Key.
  absl::flat_hash_map<std::string, std::vector<uint64_t>> planning_ ABSL_GUARDED_BY(mutex_);
  int session_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool trim_planned_ ABSL_GUARDED_BY(mutex_) = false;
  bool start_planned_ ABSL_GUARDED_BY(mutex_) = false;  // Of the unstarted.

  Background background_;  // Last: its tasks use the rest.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_TRAINER_H_
