// The checkpoints of one job: when they are due, and the one that is under way.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINTER_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/storage/durable_file.h"
#include "coordinator/checkpoint/background_call.h"
#include "coordinator/checkpoint/best_tries.h"
#include "coordinator/checkpoint/checkpoint_answers.h"
#include "coordinator/checkpoint/checkpoint_files.h"
#include "coordinator/checkpoint/checkpoint_hold.h"
#include "coordinator/checkpoint/checkpoint_policy.h"
#include "coordinator/checkpoint/checkpoint_requests.h"
#include "coordinator/checkpoint/checkpoint_shards.h"
#include "coordinator/checkpoint/last_tries.h"
#include "coordinator/checkpoint/write_patience.h"
#include "protos/checkpoint.pb.h"
#include "protos/events.pb.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// Which state is saved depends on the job's mode:
// - Synchronous: a cut that all shards have. They are asked in time to take one at the version that
//   is due (wanted_version), and to keep it until it is read (held_cut).
// - Asynchronous: of each shard the newest state.
// - Asynchronous and exact: the job stops at a barrier until all shards have pinned their states
//   (Pinned); it does not wait for them to be written.
// - Of an evaluation that is the best: what is pinned for it (SaveBest), in every mode.
// Then the folder is made, all shards write at once, and the manifest is written. Used by one
// thread, the runner's, which it does not block: files are another thread's, and a directory that
// does not answer holds up nobody.
class Checkpointer {
 public:
  struct Options {
    JobSpec spec;  // With a directory.
    CheckpointOwner owner;
    uint64_t total_steps = 0;
    // As the journal has it. Unset: none.
    CheckpointInfo newest;
    // The highest number that is known of one, be it gone: numbers are not used again.
    uint64_t last_number = 0;
    // What the job goes on from, and whether that is in its own directory. Unset: nothing.
    CheckpointInfo restored;
    bool restored_is_here = false;
    // Of the job's variables and slots; 0: nobody knows.
    uint64_t bytes = 0;
    // Fills in what a manifest says of the job; its step is there already. The checkpoint of the
    // best evaluation that it names stays.
    std::function<void(CheckpointManifest*)> describe_job;
    // Called on some thread when there is something to do; must not block.
    std::function<void()> wake;
    FileSystemPtr file_system = RealFileSystem();
    // On the directory; nullptr: nobody is held off.
    std::shared_ptr<CheckpointHold> hold = nullptr;
    Clock* clock = Clock::Real();
    ThreadStarter start_thread = StartThread;  // For work on files; without one it fails for now.
  };
  // `requests` is not owned.
  Checkpointer(Options options, CheckpointRequests* requests);

  struct Attached {
    CheckpointShards* shards = nullptr;  // Not owned; used until Detach.
    int count = 0;                       // Of them.
    uint64_t generation = 0;
    uint64_t epoch = 0;
    uint64_t watermark = 0;           // All steps before it are done.
    bool is_remade = false;           // Shards were made again of a checkpoint.
    std::set<uint64_t> damaged = {};  // JobRecord.damaged_checkpoints.
  };
  // Steps are handed out in this generation and epoch.
  void Attach(const Attached& attached);
  // The generation ends, and the pins with it: what is being written is given up.
  void Detach(const std::string& cause);

  // How far the job is.
  struct Situation {
    uint64_t applied = 0;    // Steps that all shards have.
    uint64_t watermark = 0;  // All steps before it.
    // Of a synchronous job: the versions of its shards go up to `newest_version`; a cut can be had
    // at `version_ahead`. What the shards said last; empty: they have not yet.
    uint64_t newest_version = 0;
    uint64_t version_ahead = 0;
    absl::Span<const ShardStatus> shards = {};
    // Nobody is there who could do a step; what the shards have is all there is to save.
    bool is_deserted = false;
  };
  // Does what there is to do. Call it often, and after each poll of the shards.
  void Advance(const Situation& situation);

  // Of a synchronous job: a cut is wanted at this version (0: none); this one must be kept (unset:
  // none); the shards should be asked soon what cuts they have.
  uint64_t wanted_version() const { return wanted_version_; }
  absl::optional<CutName> held_cut() const;
  bool awaits_cut() const { return phase_ == Phase::kAwaitingCut; }
  // The step at which Advance should be called.
  uint64_t next_step() const { return policy_.next_step(); }

  // Of an exact asynchronous job: the first barrier at `step` or later; the job's end where there
  // is none. And whether one is wanted as soon as possible.
  uint64_t BarrierFrom(uint64_t step) const;
  bool WantsBarrier() const;
  // Whether the job should wait at this barrier for it to be known what is in the directory, before
  // IsDueAt is asked: some seconds once, or a checkpoint would be passed by.
  bool MayBeDueAt(uint64_t barrier) const;
  // Whether a checkpoint is to be taken at this barrier, where all steps before it are done and no
  // other was handed out. Then Pinned or NotPinned follows.
  bool IsDueAt(uint64_t barrier) const;
  // The name under which shards pin what is to be written. It never comes again in a generation: a
  // call to unpin what was written earlier, however late, takes nothing else. NameCut is to be
  // called before each pin, once what has the last two names is unpinned: a call to pin the one
  // before the last may have come after the one to unpin it.
  std::string cut_id() const;
  std::vector<std::string> LastCutIds() const;
  void NameCut() { ++cuts_; }
  // All shards have pinned exactly the steps before `step` as cut_id(). `held_up`: how long no step
  // was handed out.
  void Pinned(uint64_t step, absl::Duration held_up);
  void NotPinned(const absl::Status& why);

  // All shards have pinned exactly the steps before best.step() as `cut_id`, until TakeBest has the
  // answer: that state is saved, before any other one, as that of the best evaluation. What waits
  // for a state gives way. Tried again where it fails, as BestTries says; shards that write have a
  // minute too, or as much longer as others have. REQUIRES: none is being saved.
  void SaveBest(const BestEvaluation& best, const std::string& cut_id);
  // Nothing: it is under way, or there is none; Detach ends it. Otherwise the checkpoint, or why
  // there is none.
  absl::optional<absl::StatusOr<CheckpointInfo>> TakeBest();

  // The job has so many steps from now on, all of which are done.
  void SetEnd(uint64_t total_steps) { total_steps_ = total_steps; }

  // The job's last state is in all shards' databases; of a synchronous job in `cut`. Call it often,
  // Advance before it. Returns whether the job may end: that state is saved, or was given up after
  // a minute's tries, or after shards have written for much longer than that may take. What was
  // being written before it has its own time. A directory that is another run's is tried once.
  bool MayEnd(const absl::optional<CutName>& cut);
  // Whether that state is not saved because the directory is another run's, or held by another job
  // at the last try; trouble() names it. REQUIRES: MayEnd has returned true.
  bool has_lost_directory() const { return !last_is_saved_ && !last_.whose_directory().empty(); }

  // Whether a checkpoint is being written, or waited for.
  bool under_way() const { return phase_ != Phase::kIdle; }
  // What people are told that the job waits for at its end.
  std::string WhatTheEndWaitsFor() const;

  // What has ended since the last call.
  std::vector<CheckpointEnded> TakeEnded();
  // Unset: there is none.
  const absl::optional<CheckpointInfo>& newest() const { return newest_; }
  // Answers those who have asked, once what they are told can be seen in the job's status too.
  void TellRequests();
  // What does not work now, for people. Empty: all works.
  const std::string& trouble() const { return trouble_; }

  // The job has ended or goes no further here: all requests have their answers, for TellRequests.
  // File work that is under way is waited for, a few seconds at most. The last call.
  void Close(const absl::Status& status);

 private:
  enum class Phase {
    kUnknown,  // What is in the directory.
    kLooking,  // What is in it.
    kIdle,
    kAwaitingCut,  // Synchronous: that all shards have.
    kAwaitingBarrier,
    kBeginning,  // The folder is being made.
    kWriting,    // The shards do.
    kCommitting,
    kRemoving,  // What was given up.
  };
  // What a call to the file system comes to; written by its thread.
  struct FileResult {
    absl::Status status;
    CheckpointFiles::Found found;
    CheckpointFiles::Begun begun;
    CheckpointManifest manifest;
    std::string trouble;
  };
  // A checkpoint that is under way.
  struct Attempt {
    std::string cause;
    std::vector<CheckpointRequest> requests;
    bool is_last = false;  // Of the job.
    bool is_best = false;  // Of best_.
    absl::Time begun;
    uint64_t at_step = 0;       // Watermark when it was begun.
    uint64_t from_version = 0;  // Synchronous: a cut of this version or later.
    absl::optional<CutName> cut;
    absl::optional<uint64_t> exact_step;  // Pinned, as cut_id() or, of the best, by others.
    absl::Duration held_up;
    CheckpointFiles::Begun files;
    absl::Time writing_since;
    CheckpointState state;
    // Of the best, while it is committed: as what it then counts.
    CheckpointInfo as_best;
    std::shared_ptr<CommitDecision> decision;
    bool leaves_later = false;  // A later state than its own was saved before it.
    absl::Time asked;           // For the cut that is wanted.
    absl::optional<absl::Time> urgent_since;
    absl::Status given_up;  // While a call to the file system was under way.
  };

  bool Step(const Situation& situation);
  bool GiveWayToBest();
  bool BeginBest();
  absl::Status WhyNotBest() const;
  void LeaveBest(const absl::Status& why);
  absl::Duration BestPatience() const;
  bool BeginIfDue(const Situation& situation);
  const CheckpointInfo* NewestHere() const;
  bool HasState(const CheckpointInfo& checkpoint, const Situation& situation) const;
  void BeginLast();
  void AwaitCut(const Situation& situation);
  void JoinUrgent();
  bool FindCut(const Situation& situation);
  bool IsTired(const Situation& situation) const;
  bool TakeOlderCut(const Situation& situation);
  void StopWaiting(const Situation& situation);
  void WantNextVersion(const Situation& situation);
  void StartFileCall(Phase phase, std::function<void(FileResult*)> call);
  bool FileCallHasEnded();
  bool LooksAround() const { return phase_ == Phase::kUnknown || phase_ == Phase::kLooking; }
  void AfterLooking();
  void StartPolicy();
  void BeginFiles();
  void AfterBeginning();
  bool TakeAnswers();
  absl::Duration WritingFor() const { return clock_->Now() - attempt_->writing_since; }
  absl::Duration Patience() const;
  std::string WhatIsWritten() const;
  void Commit(const std::vector<WriteCheckpointResponse>& answers);
  void AfterCommitting();
  void Fail(const absl::Status& status);
  void PutBack();
  void End();
  void Unpin();
  CheckpointEnded Describe() const;
  void Answer(std::vector<CheckpointRequest> requests,
              const absl::StatusOr<CheckpointInfo>& result);

  const Options options_;
  CheckpointRequests* const requests_;
  Clock* const clock_;
  const uint64_t replicas_;  // 0: asynchronous.
  const bool exact_;         // Asynchronous, and stops at barriers.
  const std::shared_ptr<const CheckpointFiles> files_;
  CheckpointPolicy policy_;
  uint64_t total_steps_;

  Attached attached_;  // Without shards: detached.

  Phase phase_ = Phase::kUnknown;
  absl::optional<Attempt> attempt_;
  BestTries best_;
  uint64_t wanted_version_ = 0;
  std::vector<CheckpointRequest> waiting_;  // For the next one.
  std::shared_ptr<FileResult> result_;      // Of call_.
  std::unique_ptr<BackgroundCall> call_;
  absl::Time call_since_;

  absl::optional<CheckpointInfo> newest_;
  bool newest_is_exact_ = false;
  uint64_t last_number_ = 0;
  bool looks_again_ = false;  // When there is nothing else to do.
  bool has_begun_ = false;    // One, ever.
  uint64_t cuts_ = 0;         // How often one was named.
  WritePatience write_patience_;
  std::string trouble_;
  std::vector<CheckpointEnded> ended_;
  std::vector<std::pair<CheckpointRequest, absl::StatusOr<CheckpointInfo>>> answers_;

  LastTries last_;  // At the job's end.
  bool last_is_saved_ = false;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINTER_H_
