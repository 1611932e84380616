// What people are told of a job while it runs: for whom it waits, its progress, what does not work.
#ifndef MILLRACE_COORDINATOR_RUN_REPORTER_H_
#define MILLRACE_COORDINATOR_RUN_REPORTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "coordinator/checkpoint/checkpointer.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/job/job.h"
#include "coordinator/job/step_times.h"
#include "coordinator/job/training_stats.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "protos/cluster.pb.h"
#include "protos/events.pb.h"

namespace millrace::coordinator {

// For whom a job waits whose record could not be written, and why: see Job::SetWaiting.
inline constexpr char kTheJournal[] = "the coordinator's journal";
std::string WhyNotJournaled(const absl::Status& error);
// After so long it is tried again.
inline constexpr absl::Duration kJournalRetryPause = absl::Seconds(1);

// Used by the runner's thread, but for Count.
class Reporter {
 public:
  // None is owned.
  Reporter(Job* job, const RunnerEnvironment* environment, RunnerInbox* inbox);

  // A step was done that was not done before. From any thread.
  void Count(const StepResult& result);

  // The job waits for `whom` until something changes, `pause` at most; what it waits for is told
  // until Resumed. `why`: see Job::SetWaiting. Returns what the run must end with.
  absl::Status Wait(const std::string& whom, absl::Duration pause, const std::string& why = "");
  // The same for members that are not there; `missing`: how people call them, by name. Returns
  // DEADLINE_EXCEEDED where a running job has waited for one of them for longer than its
  // coordinator allows: since the first call that named it, with no call since that did not.
  absl::Status WaitForMembers(const std::map<std::string, std::string>& missing,
                              absl::Duration pause);
  absl::Status WaitForMember(const std::string& whom, absl::Duration pause) {
    return WaitForMembers({{whom, whom}}, pause);
  }
  // Those are there, and not waited for any more.
  void NobodyIsMissing();

  // Changes the job's record. Returns when that is in the journal: while it cannot be written the
  // job waits and says so. Otherwise what the run must end with; then the record may be unchanged.
  absl::Status Journal(const std::function<void(JobRecord&)>& change);
  // Says that the job waits for the journal, for a moment.
  absl::Status WaitForJournal(const absl::Status& error);
  // Changes the record at once. The journal has it before long, and before the job's end.
  void JournalSoon(const std::function<void(JobRecord&)>& change);

  // Training goes on from `step` steps, all of those before `watermark` among them.
  void Resumed(uint64_t step, uint64_t watermark);

  using FindStall =
      std::function<absl::optional<Dispatcher::Stall>(const std::vector<WorkerMember>&)>;
  // Tells what there is to tell about a job that trains: call it often. `blocked`: for whom the
  // runner itself waits, told at once. `find_stall` is asked where steps do not get on for a while.
  // Returns what the run must end with.
  absl::Status Tell(const Dispatcher::Progress& progress,
                    const absl::optional<Dispatcher::Stall>& blocked, const FindStall& find_stall);
  // When Tell has something to do by itself.
  absl::Time next() const { return progress_due_; }
  // What is left to tell of a job that ends.
  void TellRest();

  // Something for people to know, not more than one a minute.
  void TellTrouble(const std::string& trouble);
  // What does not work now, by where: "shard 1 on ps-1". Beginnings and ends are notices.
  void SetWarnings(const std::map<std::string, std::string>& warnings);
  void TellRecovered(const Recovered& recovered);
  // What has become of checkpoints since the last call. Call it often.
  void TellCheckpoints(Checkpointer& checkpointer);

 private:
  void SpendOn(const std::string& whom);
  absl::Status Pause(absl::Duration pause);
  void ShowWarnings();
  absl::Status NoteMissing(const std::map<std::string, std::string>& missing);
  void NoteStall(const absl::optional<Dispatcher::Stall>& stall);
  void PublishProgress(bool at_once);
  void TellNotices();
  void SaveIfDue();

  Job* const job_;
  const RunnerEnvironment& environment_;
  RunnerInbox* const inbox_;
  Clock* const clock_;
  TrainingStats stats_;
  StepTimeGatherer step_times_;

  absl::Time progress_due_ = absl::InfinitePast();
  absl::Time trouble_due_ = absl::InfinitePast();  // No notice of trouble before.
  uint64_t watermark_ = 0;
  absl::Time moved_at_;   // When the watermark moved, or somebody was there to move it.
  bool stalled_ = false;  // What the job waits for is set by NoteStall.
  std::map<std::string, absl::Time> missing_since_;  // Members, by name.
  bool save_due_ = false;
  absl::Time saved_at_;
  std::map<std::string, std::string> warnings_;
  std::string journal_trouble_;
  std::string checkpoint_trouble_;
  uint64_t newest_checkpoint_ = 0;  // That the record has.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_REPORTER_H_
