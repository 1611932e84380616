// A job as everybody in the coordinator sees it: its record, what it waits for, its events.
#ifndef MILLRACE_COORDINATOR_JOB_JOB_H_
#define MILLRACE_COORDINATOR_JOB_JOB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/job/event_log.h"
#include "coordinator/job/step_times.h"
#include "coordinator/job/time_account.h"
#include "coordinator/journal/job_record.pb.h"
#include "coordinator/journal/journal.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// "mnist-cnn-1-k3f9", of which the last part is drawn anew each time: ps servers may still have
// shards of jobs of another coordinator, or of some that are not in this one's journal any more,
// which was restored from a copy. Shards of an earlier job must never be taken for a new one's.
std::string MakeJobId(const std::string& name, uint64_t number);

// A shard as it said last of itself.
struct ShardNews {
  absl::optional<ShardStatus> status;  // Nothing: it has said nothing in this generation.
  std::string error;                   // What its server answered last; empty: OK.
  absl::Time silent_since = absl::InfiniteFuture();  // Since when nothing came of it.
};

// What is placed on a data directory of a ps server.
struct PlacedShards {
  std::string server;  // That had the directory last, and where.
  std::string address;
  uint64_t shards = 0;
  uint64_t elements = 0;
};
// By the directory's id.
using PlacedByDirectory = absl::flat_hash_map<std::string, PlacedShards>;

// Thread-safe to read. Changes come from one thread at a time: the job's runner, and when that is
// gone, whoever drops the shards of a job that has ended.
class Job {
 public:
  // `journal` is not owned.
  Job(JobRecord record, uint64_t last_event, Journal* journal, Clock* clock);

  const std::string& id() const { return id_; }
  const JobSpec& spec() const { return spec_; }
  uint64_t number() const { return number_; }
  const std::string& request_id() const { return request_id_; }
  EventLog& events() { return events_; }

  JobRecord record() const ABSL_LOCKS_EXCLUDED(mutex_);
  // As the journal has it.
  uint64_t record_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  JobState state() const ABSL_LOCKS_EXCLUDED(mutex_);
  JobStatus Status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The same with only the name of the spec, which may be large.
  JobStatus Summary() const ABSL_LOCKS_EXCLUDED(mutex_);
  // In the far future for a job that has not.
  absl::Time ended_at() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether some ps server may hold a shard of it.
  bool HasShards() const ABSL_LOCKS_EXCLUDED(mutex_);
  // See IsPlacedOn (shard_placement.h).
  bool HasShardOn(const std::string& directory_id, uint32_t shard) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds what it has on each directory. A server that is named already stays.
  void AddPlaced(PlacedByDirectory* placed) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the shards that are placed on a directory.
  uint64_t ElementsOn(const std::string& directory_id) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Changes the record and writes it to the journal. On an error of the journal nothing is changed.
  // `once_journaled` is called when it is there, before anybody can learn of it here.
  absl::Status Update(const std::function<void(JobRecord&)>& change,
                      const std::function<void()>& once_journaled = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Changes the record, which the next Update writes.
  void Change(const std::function<void(JobRecord&)>& change) ABSL_LOCKS_EXCLUDED(mutex_);

  // Changes the state (with its time), journals it, and appends the event; with an ended state the
  // log is closed and waiters wake. On an error of the journal nothing is changed.
  // `warnings`: those that stay of a job that has ended. `once_journaled`: see Update.
  absl::Status SetState(JobState state, const std::string& message,
                        std::vector<std::string> warnings = {},
                        const std::function<void()>& once_journaled = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Appends the event of the state as it is.
  void AnnounceState() ABSL_LOCKS_EXCLUDED(mutex_);

  // Not journaled by themselves: progress is the shards' own.
  void SetStep(uint64_t step) { step_ = step; }
  // A job has 200 metrics at most, 100 of them of training: those with other names, beyond them,
  // are left out.
  void AddMetrics(const google::protobuf::Map<std::string, double>& metrics)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Of steps that were done.
  void AddStepTimes(const StepTimeSum& times) ABSL_LOCKS_EXCLUDED(mutex_);

  // The job waits from now on, or still: JobStatus.message is "waits for `whom` for 12 s". A new
  // `whom` becomes a Notice. It waits since `since`, or since the first call after ClearWaiting.
  // With a reason it is "waits for `whom` (`why`), for 12 s", and becomes a Notice where more of
  // the reason is new than numbers, such as how much memory there is.
  void SetWaiting(const std::string& whom, absl::optional<absl::Time> since = absl::nullopt,
                  const std::string& why = "") ABSL_LOCKS_EXCLUDED(mutex_);
  // The same since `since`, without a Notice and without an end: somebody is at work. `is_sure`: as
  // of Dispatcher::Stall.
  void SetStalled(const std::string& whom, absl::Time since, bool is_sure = false)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ClearWaiting() ABSL_LOCKS_EXCLUDED(mutex_);
  // The job waits for its turn, behind so many others, until ClearTurn: JobStatus.message says so.
  void SetTurn(size_t jobs_before, size_t max_running) ABSL_LOCKS_EXCLUDED(mutex_);
  void ClearTurn() ABSL_LOCKS_EXCLUDED(mutex_);
  // Appends a Notice where the job waits for its turn.
  void AnnounceTurn() ABSL_LOCKS_EXCLUDED(mutex_);
  void AppendNotice(const std::string& message);

  struct Waiting {
    std::string whom;  // With `is_turn`, the whole message.
    absl::Time since;
    bool is_turn = false;
    bool stalled = false;  // See SetStalled; and it is not sure.
  };
  // What the last of the calls above has said.
  absl::optional<Waiting> waiting() const ABSL_LOCKS_EXCLUDED(mutex_);

  // What a running job's time goes into from now on; and what went into that since the last call,
  // as well. See TimeAccount.
  void Spend(TimeUse use, const std::string& whom = "") ABSL_LOCKS_EXCLUDED(mutex_);
  void CountTime() ABSL_LOCKS_EXCLUDED(mutex_);
  void HasSpent(TimeUse use, const std::string& whom = "") ABSL_LOCKS_EXCLUDED(mutex_);
  void HasWaitedPresumably(const std::string& whom) ABSL_LOCKS_EXCLUDED(mutex_);
  void HasWaitedSince(const std::string& whom, absl::Time since) ABSL_LOCKS_EXCLUDED(mutex_);

  // The shards are being reached again, because of `cause`, until ClearRecovering: the time goes
  // into that.
  void SetRecovering(const std::string& cause) ABSL_LOCKS_EXCLUDED(mutex_);
  void ClearRecovering() ABSL_LOCKS_EXCLUDED(mutex_);
  struct Recovering {
    std::string cause;  // Empty: they are not.
    absl::Time since;
  };
  Recovering recovering() const ABSL_LOCKS_EXCLUDED(mutex_);

  // By shard; for people.
  void SetShardNews(std::vector<ShardNews> news) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<ShardNews> shard_news() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Why shards of it have not left servers that are evacuated, when that was tried last; empty: it
  // was not, or they have. Returns whether that is news.
  bool SetMoveTrouble(const std::string& why) ABSL_LOCKS_EXCLUDED(mutex_);
  std::string move_trouble() const ABSL_LOCKS_EXCLUDED(mutex_);

  // See JobStatus.
  void SetWarnings(std::vector<std::string> warnings) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until the job has ended, at most `timeout` of the machine's clock.
  bool WaitUntilEnded(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void SetTimeSpent(JobRecord& record) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::string MessageLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  JobEvent StateEvent() const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string id_;
  const JobSpec spec_;
  const uint64_t number_;
  const std::string request_id_;
  Journal* const journal_;
  Clock* const clock_;
  EventLog events_;
  std::atomic<uint64_t> step_;

  mutable Mutex mutex_;
  mutable CondVar ended_;
  JobRecord record_ ABSL_GUARDED_BY(mutex_);
  std::string waits_for_ ABSL_GUARDED_BY(mutex_);
  std::string waits_for_in_words_ ABSL_GUARDED_BY(mutex_);  // Without the reason's numbers.
  absl::Time waits_since_ ABSL_GUARDED_BY(mutex_);
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;  // SetStalled was called last, and is not sure.
  TimeAccount time_ ABSL_GUARDED_BY(mutex_);
  Recovering recovering_ ABSL_GUARDED_BY(mutex_);
  std::vector<ShardNews> shard_news_ ABSL_GUARDED_BY(mutex_);
  std::string move_trouble_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
  struct Turn {
    size_t jobs_before = 0;
    size_t max_running = 0;
  };
  absl::optional<Turn> turn_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_JOB_H_
