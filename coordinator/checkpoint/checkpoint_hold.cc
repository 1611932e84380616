// Who releases a hold removes the file while it is locked. So whoever has got the lock looks
// whether the file is still the one at its path: if not, the lock is on a file that nobody else
// finds any more, and is tried for again on the one that is there.
#include "coordinator/checkpoint/checkpoint_hold.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/clock.h"
#include "common/printable.h"
#include "common/system_error.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// A file system whose files are never the same twice must not keep anybody here.
constexpr int kMostTries = 10;
// Of the machine's clock.
constexpr absl::Duration kTakePatience = absl::Seconds(3);
constexpr absl::Duration kTakePause = absl::Milliseconds(100);
constexpr absl::Duration kReleasePatience = absl::Seconds(3);
// The payload that marks a directory which another one holds: whose it is, in words.
constexpr char kHeldMark[] = "millrace/held";
// What the holder says of itself.
constexpr char kHolderMark[] = "millrace/holder";

constexpr char kGoesOnFrom[] = ", which goes on from ";

std::string PayloadOf(const absl::Status& status, absl::string_view mark) {
  return std::string(status.GetPayload(mark).value_or(absl::Cord()));
}

std::string OfThisProcess() {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return absl::StrCat(" of process ", getpid(), " on ", host.data());
}

// Another user's can be locked too, although not written.
int OpenToLock(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | kFlags, 0644);
  if (fd >= 0 || (errno != EACCES && errno != EROFS)) return fd;
  return open(path.c_str(), O_RDONLY | kFlags);
}

// kUnknown: the disk does not say. Whoever has the lock keeps it then.
enum class Place { kAtPath, kElsewhere, kUnknown };

Place PlaceOf(int fd, const std::string& path) {
  struct stat opened = {};
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? Place::kElsewhere : Place::kUnknown;
  }
  if (fstat(fd, &opened) != 0) return errno == ESTALE ? Place::kElsewhere : Place::kUnknown;
  const bool is_same = opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
  return is_same ? Place::kAtPath : Place::kElsewhere;
}

bool IsReadOnly(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY;
}

// "" where the holder has not written it yet.
std::string WhoIsSaid(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return "";
  std::array<char, kMaxPrintableNameBytes> text = {};
  const ssize_t bytes = pread(fd, text.data(), text.size(), 0);
  close(fd);
  if (bytes <= 0) return "";
  const absl::string_view said(text.data(), static_cast<size_t>(bytes));
  return PrintableName(absl::StripAsciiWhitespace(said));
}

}  // namespace

std::string NameOfJob(const std::string& job_id, uint64_t restored) {
  const std::string name = absl::StrCat("job '", job_id, "'");
  return restored == 0 ? name : absl::StrCat(name, kGoesOnFrom, CheckpointFolder(restored), ",");
}

CheckpointHold::CheckpointHold(FileSystemPtr file_system, std::string directory)
    : file_system_(std::move(file_system)),
      directory_(std::move(directory)),
      path_(JoinPath(directory_, kHolderFile)) {}

CheckpointHold::~CheckpointHold() { Release(); }

absl::Status CheckpointHold::Take(const std::string& who, bool makes_directory) {
  MutexLock lock(&mutex_);
  if (released_) return absl::CancelledError("the directory of checkpoints is not held any more");
  if (fd_ >= 0 && PlaceOf(fd_, path_) == Place::kElsewhere) close(std::exchange(fd_, -1));
  for (int i = 0; fd_ < 0 && i < kMostTries; ++i) {
    if (makes_directory) MakeDirectory();
    const Try tried = TryToLock();
    if (tried == Try::kAnothers) return HeldByAnother();
    if (tried == Try::kNotHere) break;
  }
  if (fd_ >= 0) Say(who);
  return absl::OkStatus();
}

// Where it cannot be made the first checkpoint says why.
void CheckpointHold::MakeDirectory() {
  const absl::StatusOr<bool> made = CheckpointDirectory(file_system_, directory_).Make();
  made_directory_ |= made.ok() && *made;
}

CheckpointHold::Try CheckpointHold::TryToLock() {
  const int fd = OpenToLock(path_);
  if (fd < 0) {
    if (errno == ENOENT) return Try::kAgain;  // Unless there is no directory.
    LOG(WARNING) << SystemError("open", path_, errno).message() << "; nobody is held off";
    return Try::kNotHere;
  }
  const int error = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  const bool is_locked = error == 0 && PlaceOf(fd, path_) != Place::kElsewhere;
  // A file that cannot say who holds it would name one that is dead.
  const bool is_replaced = is_locked && IsReadOnly(fd) && unlink(path_.c_str()) == 0;
  if (is_locked && !is_replaced) {
    fd_ = fd;
    said_.clear();
    return Try::kHeld;
  }
  close(fd);
  if (error == 0 || error == EINTR) return Try::kAgain;
  if (error == EWOULDBLOCK) return Try::kAnothers;
  LOG(WARNING) << SystemError("lock", path_, error).message() << "; nobody is held off";
  return Try::kNotHere;
}

// Who reads it meanwhile finds no less than the beginning of it. What cannot be written is missing
// from a message, no more, and is not that of somebody before.
void CheckpointHold::Say(const std::string& who) {
  const std::string text = absl::StrCat(who, OfThisProcess(), "\n");
  if (text == said_) return;
  const auto bytes = static_cast<ssize_t>(text.size());
  const bool written =
      pwrite(fd_, text.data(), text.size(), 0) == bytes && ftruncate(fd_, bytes) == 0;
  said_ = written ? text : "";
  if (!written && ftruncate(fd_, 0) != 0) PLOG(WARNING) << path_ << " names an earlier holder";
}

absl::Status CheckpointHold::HeldByAnother() const {
  const std::string who = WhoIsSaid(path_);
  const std::string held = absl::StrCat("'", directory_, "' is held by ",
                                        who.empty() ? "another job" : who, " (", path_, ")");
  const bool is_command = absl::StartsWith(who, kRemovingCommand);
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("checkpoints.directory: ", held, "; name another directory, or wait for ",
                   is_command ? "its end" : "that job's end, or cancel it"));
  status.SetPayload(kHeldMark, absl::Cord(held));
  status.SetPayload(kHolderMark, absl::Cord(who));
  return status;
}

void CheckpointHold::Release() {
  MutexLock lock(&mutex_);
  if (!released_ && fd_ >= 0) {
    if (PlaceOf(fd_, path_) == Place::kAtPath) unlink(path_.c_str());
    close(std::exchange(fd_, -1));
    if (made_directory_) rmdir(directory_.c_str());
  }
  released_ = true;
  *is_released_ = true;
}

std::string WhoHolds(const absl::Status& status) { return PayloadOf(status, kHeldMark); }

Holder HolderOf(const absl::Status& status) {
  const std::string said = PayloadOf(status, kHolderMark);
  Holder holder;
  holder.held = WhoHolds(status);
  holder.is_command = absl::StartsWith(said, kRemovingCommand);
  absl::string_view rest = said;
  if (!absl::ConsumePrefix(&rest, "job '")) return holder;
  const absl::string_view id = rest.substr(0, rest.find('\''));
  rest.remove_prefix(std::min(id.size() + 1, rest.size()));
  const bool goes_on = absl::ConsumePrefix(&rest, kGoesOnFrom);
  if (goes_on) holder.restored = ParseCheckpointFolder(rest.substr(0, rest.find(','))).value_or(0);
  if (goes_on || absl::StartsWith(rest, " of process ")) holder.job_id = std::string(id);
  return holder;
}

void TakeHold(const std::shared_ptr<CheckpointHold>& hold, const std::string& who,
              bool makes_directory, const std::function<bool()>& cancelled,
              const ThreadStarter& start_thread) {
  const absl::Time deadline = Clock::Real()->Now() + kTakePatience;
  const BackgroundCall call(
      [hold, who, makes_directory, deadline] {
        for (;;) {
          const absl::Status held = hold->Take(who, makes_directory);
          const bool is_over = WhoHolds(held).empty() || Clock::Real()->Now() >= deadline;
          LOG_IF(WARNING, is_over && !held.ok() && !absl::IsCancelled(held))
              << who << ": " << held.message();
          if (is_over) return;
          absl::SleepFor(kTakePause);
        }
      },
      /*on_end=*/nullptr, start_thread);
  LOG_IF(WARNING, !call.status().ok()) << who << ": " << call.status().message();
  while (!cancelled() && Clock::Real()->Now() < deadline && !call.AwaitFor(kTakePause)) {
  }
}

void ReleaseHolds(std::vector<std::shared_ptr<CheckpointHold>> holds,
                  const ThreadStarter& start_thread) {
  if (holds.empty()) return;
  const auto release = [holds = std::move(holds)] {
    for (const auto& hold : holds) hold->Release();
  };
  const BackgroundCall call(release, /*on_end=*/nullptr, start_thread);
  // Nobody would do it later, and nobody else could have the directories.
  if (!call.status().ok()) return release();
  call.AwaitFor(kReleasePatience);
}

}  // namespace millrace::coordinator
