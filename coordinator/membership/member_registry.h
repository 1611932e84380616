// Which workers and ps servers are there.
#ifndef MILLRACE_COORDINATOR_MEMBERSHIP_MEMBER_REGISTRY_H_
#define MILLRACE_COORDINATOR_MEMBERSHIP_MEMBER_REGISTRY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/membership/outbox.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// The coordinator's end of a member's stream. Thread-safe; neither call blocks or calls back.
class MemberLink {
 public:
  virtual ~MemberLink() = default;
  virtual void Send(const CoordinatorMessage& message) = 0;
  // Ends the stream, once; later sends and closes do nothing.
  virtual void Close(const absl::Status& status) = 0;
};

// Members are told apart by numbers from 1 that are never used again in this process: a member that
// comes back is another one.
struct WorkerMember {
  uint64_t id = 0;
  RegisterWorker registration;
};
struct PsMember {
  uint64_t id = 0;
  RegisterPs registration;  // Without `shards`, which the observer is told once.
};

// As a member registered, how long it has not spoken, and what a worker said last of what it does.
struct MemberNews {
  uint64_t id = 0;
  std::string name;
  bool is_worker = false;
  std::string version;
  std::string address;       // Of a ps server.
  std::string directory_id;  // Of a ps server.
  std::string device;        // Of a worker.
  absl::Time joined;
  absl::Time heard;
  bool draining = false;
  std::vector<Activity> activities;
  absl::optional<DeviceUse> device_use;
  absl::Time told;  // When it told them.
};

// A member that is not there any more.
struct Departure {
  std::string name;
  bool is_worker = false;
  absl::Time at;
  std::string reason;
  bool in_good_order = false;  // It said that it leaves.
  std::string address;         // Of a ps server.
  std::string directory_id;    // Of a ps server.
};

// At one moment.
struct MembersView {
  std::vector<MemberNews> there;
  // Those that have not come back under their names, or on their directories, the newest first; the
  // last few.
  std::vector<Departure> gone;
};

// Is told what happens, from several threads and outside the registry's lock, so that it may call
// the registry. Must not block. What one member says arrives in its order.
class MemberObserver {
 public:
  virtual ~MemberObserver() = default;
  // A ps server came, and says what it holds, which nobody keeps.
  virtual void OnPsJoined(const RegisterPs& ps) = 0;
  // Some member came or went: look again.
  virtual void OnMembersChanged() = 0;
  // Anything of a worker's but a registration and Heartbeat. It may have gone since; after Leaving
  // it goes at once, and OnMembersChanged follows.
  virtual void OnWorkerMessage(const WorkerMember& worker, const MemberMessage& message) = 0;
  // A ps server is about to stop, and waits for MayLeave.
  virtual void OnPsDraining(const PsMember& /*ps*/) {}
};

// Thread-safe.
class MemberRegistry final : public Outbox {
 public:
  // Members are told to speak every `heartbeat_period`; one that is silent for three is taken for
  // dead.
  MemberRegistry(absl::Duration heartbeat_period, Clock* clock);

  absl::Duration heartbeat_period() const { return heartbeat_period_; }
  absl::Duration silence_limit() const { return 3 * heartbeat_period_; }
  // When it was made.
  absl::Time began() const { return began_; }
  // Members of this coordinator's last life may not have come back yet.
  bool MayStillCome() const { return clock_->Now() - began_ < silence_limit(); }

  // Not owned; must outlive the registry or be replaced by nullptr. REQUIRES: no member yet.
  void SetObserver(MemberObserver* observer) { observer_ = observer; }

  // Takes a member in and welcomes it; `link` is used until it is removed. Returns its id.
  // INVALID_ARGUMENT: a field of the registration, by its path, and what is expected.
  // ALREADY_EXISTS: a live member has the name. Where the newcomer proves that this one is dead
  // (the same incarnation dials again, or a directory, which one process at a time can serve, is
  // served anew), it takes its place instead. UNAVAILABLE: after Shutdown.
  // Of AddPs also: ALREADY_EXISTS: this process lost its place to the one that has its directory
  // now, and which may be dead. FAILED_PRECONDITION: and which has spoken since: both live, so they
  // run on copies of one directory, and this one must end. Where that was found, nobody takes the
  // place of the one that has it before it is gone: ALREADY_EXISTS.
  absl::StatusOr<uint64_t> AddWorker(const RegisterWorker& registration,
                                     std::shared_ptr<MemberLink> link) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<uint64_t> AddPs(const RegisterPs& registration, std::shared_ptr<MemberLink> link)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Anything but a registration, from a member. INVALID_ARGUMENT: out of place.
  absl::Status Receive(uint64_t member, const MemberMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);

  // The member's stream has ended, or it says that it leaves; `reason` is for the log. No error
  // when it is gone already.
  void Remove(uint64_t member, absl::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);

  // Closes the links of silent members with DEADLINE_EXCEEDED and removes them. `late`: how much
  // later this is called than its caller wanted. More than a period means that this process itself
  // was held up, and that heartbeats may lie unread: a silent member then gets one period more,
  // once.
  void ExpireSilent(absl::Duration late = absl::ZeroDuration()) ABSL_LOCKS_EXCLUDED(mutex_);

  // Closes all links with UNAVAILABLE; nobody is taken in any more.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mutex_);

  void Send(uint64_t member, const CoordinatorMessage& message) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Those that are there, in the order of their arrival.
  std::vector<WorkerMember> Workers() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<PsMember> PsServers() const ABSL_LOCKS_EXCLUDED(mutex_);
  MembersView View() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of those that are there; of those that are gone.
  std::vector<MemberNews> News() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<Departure> Departures() const ABSL_LOCKS_EXCLUDED(mutex_);
  // By the directory that it serves; nothing if it is not there.
  absl::optional<PsMember> FindPs(absl::string_view directory_id) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Member {
    bool is_worker = false;
    RegisterWorker worker;
    RegisterPs ps;
    std::shared_ptr<MemberLink> link;
    absl::Time joined;
    absl::Time heard;
    bool forgiven = false;  // Its silence, since it was heard.
    bool spoke = false;     // Since it registered.
    bool draining = false;
    std::vector<Activity> activities;
    absl::optional<DeviceUse> device_use;
    absl::Time told = absl::InfinitePast();

    const std::string& name() const { return is_worker ? worker.name() : ps.name(); }
  };

  // Which processes have served a directory, by their incarnations.
  struct Directory {
    absl::optional<uint64_t> last;  // That was taken in last.
    std::deque<uint64_t> replaced;  // Those before it, the newest last; some of them.
    bool has_copies = false;        // Two processes lived at a time.
  };

  absl::StatusOr<uint64_t> Add(Member member) ABSL_LOCKS_EXCLUDED(mutex_);
  static bool Replaces(const Member& newcomer, const Member& other);
  // What AddWorker and AddPs say of a name, and of a directory, that another member has.
  absl::Status CheckName(const Member& newcomer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckAddress(const Member& newcomer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckDirectory(const Member& newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes those whose place the newcomer takes; returns their links.
  std::vector<std::shared_ptr<MemberLink>> RemoveReplaced(const Member& newcomer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // This member serves its directory from now on; a process that did so before has lost its place.
  void NoteServed(const RegisterPs& ps) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<MemberNews> NewsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RememberDeparture(const Member& member, absl::string_view reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotifyChanged() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration heartbeat_period_;
  Clock* const clock_;
  const absl::Time began_;
  MemberObserver* observer_ = nullptr;

  mutable Mutex mutex_;  // Before the links' locks.
  std::map<uint64_t, Member> members_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Directory> directories_ ABSL_GUARDED_BY(mutex_);  // By id.
  std::deque<Departure> departures_ ABSL_GUARDED_BY(mutex_);              // The newest first.
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_MEMBERSHIP_MEMBER_REGISTRY_H_
