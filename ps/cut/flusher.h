// Writes to the database: cuts when they are due, and what is asked for.
#ifndef MILLRACE_PS_CUT_FLUSHER_H_
#define MILLRACE_PS_CUT_FLUSHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "ps/cut/cut_pace.h"
#include "ps/cut/cut_store.h"
#include "ps/cut/lane.h"
#include "ps/shard/shard.h"

namespace millrace::ps {

// Writes a cut of each watched shard when it is due. Of an asynchronous shard the newest state, by
// the clock (CutPace); of a synchronous one the states that it captured, while fewer than two cuts
// are newer than the common one. The shard that waits longest is served first, so that a disk too
// slow for all of them serves them in turn. A cut that cannot be written is tried again after a
// pause, the shard's status and the log say why, and training goes on.
//
// There are two lanes: files of cuts are written on one, one at a time; everything else, which is
// short, on the other, so that no record waits for a cut. Thread-safe.
class Flusher {
 public:
  // `store` and `clock` must outlive it.
  Flusher(CutStore* store, Clock* clock);

  // Stops its threads, after the calls under way.
  ~Flusher();

  // From now on; until the shard is destroyed or Forget is called.
  void Watch(const std::shared_ptr<Shard>& shard) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const Shard* shard) ABSL_LOCKS_EXCLUDED(mutex_);

  // Synchronous: cuts older than `common` may go. Does not wait for that.
  void SetCommon(const std::shared_ptr<Shard>& shard, const CutName& common)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls on the lane of short work, see Lane.
  absl::Status Call(std::string what, absl::Time deadline, std::function<absl::Status()> call);
  void Post(std::string what, std::function<absl::Status()> call);

  // Writes the shard's newest state, unless that is in the database already; at once, whatever its
  // pace. Returns the status of what was written. `may_go_on` as for Lane::Call.
  absl::StatusOr<ShardStatus> Flush(const std::shared_ptr<Shard>& shard, absl::Time deadline,
                                    const std::function<absl::Status()>& may_go_on = nullptr);

  // The same for all of them, and with it all else that a clean stop must keep: in synchronous mode
  // the version before, and the contributions that are held. The first error.
  absl::Status FlushForStop(const std::vector<std::shared_ptr<Shard>>& shards, absl::Time deadline);

  // Tells the shard, for its status, what the database has; after a change that was made elsewhere.
  void Report(Shard* shard) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Watched {
    std::weak_ptr<Shard> shard;
    const Shard* key = nullptr;
    CutPace pace;
    absl::optional<CutName> common = {};  // Synchronous; until it is told, nobody knows it.
    bool wants_room = false;   // Synchronous: nothing is captured until the shard is allowed to.
    std::string trouble = {};  // See ShardStatus.trouble.
    absl::Time next_log = absl::InfinitePast();
    absl::Duration took = absl::ZeroDuration();  // The newest cut.
  };

  static bool IsSynchronous(const Shard& shard) { return shard.plan().spec.replicas() != 0; }

  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the shard whose cut is due for the longest time; nullptr: the thread ends.
  std::shared_ptr<Shard> WaitForDue() ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<Shard> FindDue(absl::Time* until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Watched* Find(const Shard* key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The shard has something new to write.
  void Changed(const Shard* key) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::optional<CutContents> Take(const std::shared_ptr<Shard>& shard) ABSL_LOCKS_EXCLUDED(mutex_);
  void WriteDue(const std::shared_ptr<Shard>& shard) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status TakeAndWrite(const std::shared_ptr<Shard>& shard) ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets a synchronous shard capture again, if there is room for a cut.
  void MakeRoom(const std::shared_ptr<Shard>& shard) ABSL_LOCKS_EXCLUDED(mutex_);
  // On the lane of cuts. CANCELLED: it is of no more use.
  absl::Status WriteCut(const std::shared_ptr<Shard>& shard, const CutContents& contents)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status StageAndCommit(const std::shared_ptr<Shard>& shard, const CutContents& contents);
  absl::Status WriteForStop(const std::shared_ptr<Shard>& shard);
  void Prune(const std::shared_ptr<Shard>& shard, uint64_t stops_before = 0)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Wrote(const std::shared_ptr<Shard>& shard, absl::Time begin, absl::Time end)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Failed(const std::shared_ptr<Shard>& shard, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mutex_);

  CutStore* const store_;
  Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;  // watched_ or stopping_
  std::vector<Watched> watched_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // After what their calls use, also those that nobody waits for any more: a lane that is destroyed
  // makes them first. The lane of cuts calls the other one.
  Lane records_;
  Lane cuts_;
  std::thread thread_;  // The last member: it uses the others.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_FLUSHER_H_
