// How memory is told from memory that only looks like it.
//
// The directory has a lock file, held with flock by the process that uses it, and a header that
// says what the rest is: the layout's version, the boot (after another one it is not memory any
// more, but files that somebody copied), the data directory's id and path, and a random token. The
// data directory has the token too, in a small file. A life of the server that does without the
// arena (it was told to, there was no room, another process had it) deletes that file. So memory is
// used only if every life since it was written has kept it up to date; whatever happened in between
// makes the tokens differ, and what was there is deleted. The data directory's path tells whether
// it is gone; it means something in the same mount namespace only.
//
// The header is put in place by renaming, and after the rest was deleted; the token's file after
// the header. A kill in between leaves tokens that differ.
//
// Anybody may make directories beside ours in /dev/shm: one that is not this user's own, or is open
// to others, is left alone.
#include "ps/block/arena_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/random_token.h"
#include "common/start_thread.h"
#include "common/status_macros.h"
#include "common/system_error.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

namespace fs = std::filesystem;

constexpr char kDirectoryPrefix[] = "millrace-";
constexpr char kLockFile[] = "lock";
constexpr char kHeaderFile[] = "arena";
constexpr char kNewSuffix[] = ".new";
constexpr int kMakingAgain = 2;
constexpr absl::Duration kLongestMaking = absl::Minutes(1);
constexpr absl::Duration kSweepPatience = absl::Seconds(1);
constexpr char kTokenFile[] = "ARENA";               // In the data directory.
constexpr char kDirectoryIdFile[] = "DIRECTORY_ID";  // So too.
// Changes with whatever changes in segments and roots.
constexpr char kFormat[] = "millrace ps arena, layout 1";
// What an arena's files are called; others are not touched.
constexpr const char* kOurPrefixes[] = {"segment.", "root.", "arena"};

std::string PathIn(const std::string& directory, absl::string_view name) {
  return absl::StrCat(directory, "/", name);
}

absl::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// In one step, for others and for a kill.
absl::Status ReplaceFile(const std::string& path, const std::string& text) {
  const std::string fresh = absl::StrCat(path, kNewSuffix);
  {
    std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) return SystemError("write", fresh, errno);
  }
  if (chmod(fresh.c_str(), S_IRUSR | S_IWUSR) != 0) return SystemError("protect", fresh, errno);
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return SystemError("rename", fresh, errno);
  return absl::OkStatus();
}

bool IsOurs(const std::string& name) {
  for (const char* const prefix : kOurPrefixes) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

std::vector<std::string> ListNames(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  return names;
}

void DeleteContents(const std::string& directory) {
  for (const std::string& name : ListNames(directory)) {
    if (IsOurs(name)) unlink(PathIn(directory, name).c_str());
  }
}

// REQUIRES: its lock is held.
void DeleteDirectory(const std::string& directory) {
  DeleteContents(directory);
  unlink(PathIn(directory, kLockFile).c_str());
  rmdir(directory.c_str());
}

// A directory of this user's, closed to others.
absl::Status CheckPrivate(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return SystemError("examine", path, errno);
  if (S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 077) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is there, and is no directory of mode 0700 of this user's; remove it"));
}

// Opens and locks the lock file; its descriptor. UNAVAILABLE: another process has it. `flags`:
// O_CREAT or 0.
absl::StatusOr<int> Lock(const std::string& path, int flags) {
  while (true) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, S_IRUSR | S_IWUSR);
    if (fd < 0) return SystemError("open", path, errno);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(fd);
      if (error != EWOULDBLOCK) return SystemError("lock", path, error);
      return absl::UnavailableError(absl::StrCat(path, " is locked by another process"));
    }
    // Whoever had it before may have deleted it.
    struct stat locked;
    struct stat there;
    if (fstat(fd, &locked) == 0 && stat(path.c_str(), &there) == 0 &&
        locked.st_ino == there.st_ino) {
      return fd;
    }
    close(fd);
    if ((flags & O_CREAT) == 0) return absl::NotFoundError(absl::StrCat(path, " was deleted"));
  }
}

// Makes the directory where it is missing. Statuses as for Lock; NOT_FOUND: somebody else removed
// it meanwhile, or it has no parent.
absl::StatusOr<int> MakeAndLock(const std::string& path) {
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return SystemError("make the directory", path, errno);
  }
  MILLRACE_RETURN_IF_ERROR(CheckPrivate(path));
  return Lock(PathIn(path, kLockFile), O_CREAT);
}

struct Header {
  std::string format;
  std::string boot_id;
  std::string directory_id;
  std::string token;
  std::string mounts;
  std::string data_dir;
};

std::string Format(const Header& header) {
  return absl::StrCat(header.format, "\nboot ", header.boot_id, "\ndirectory ", header.directory_id,
                      "\ntoken ", header.token, "\nmounts ", header.mounts, "\ndata ",
                      header.data_dir, "\n");
}

// nullopt: it is none, or of another layout.
absl::optional<Header> ParseHeader(const std::string& text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, absl::MaxSplits('\n', 5));
  if (lines.size() != 6 || lines[0] != kFormat) return absl::nullopt;
  absl::string_view boot = lines[1];
  absl::string_view directory = lines[2];
  absl::string_view token = lines[3];
  absl::string_view mounts = lines[4];
  absl::string_view data = lines[5];
  if (!absl::ConsumePrefix(&boot, "boot ") || !absl::ConsumePrefix(&directory, "directory ") ||
      !absl::ConsumePrefix(&token, "token ") || !absl::ConsumePrefix(&mounts, "mounts ") ||
      !absl::ConsumePrefix(&data, "data ") || !absl::ConsumeSuffix(&data, "\n")) {
    return absl::nullopt;
  }
  return Header{std::string(lines[0]), std::string(boot),   std::string(directory),
                std::string(token),    std::string(mounts), std::string(data)};
}

// Why what is there cannot be used; empty: it can.
std::string Objection(const absl::optional<std::string>& text, const ArenaOwner& owner,
                      const absl::optional<std::string>& token) {
  if (!text.has_value()) return "it has no header";
  const absl::optional<Header> header = ParseHeader(*text);
  if (!header.has_value()) {
    const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
    return absl::StrCat("it is '", lines[0].substr(0, 100), "', and this program reads '", kFormat,
                        "'");
  }
  if (header->boot_id != owner.boot_id) return "the machine was restarted since";
  if (header->directory_id != owner.directory_id) {
    return absl::StrCat("it belongs to the data directory with id ", header->directory_id);
  }
  if (token != header->token) return "the server has run without it since";
  return "";
}

// In which paths mean what they say. Empty where the kernel does not tell.
std::string MountNamespace() {
  std::error_code error;
  return fs::read_symlink("/proc/self/ns/mnt", error).string();
}

// A directory without a lock file is one whose making or removal a kill has cut short, or that is
// being made now.
void RemoveEmpty(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return;
  const absl::Duration age = absl::Now() - absl::TimeFromTimespec(status.st_mtim);
  if (age > kLongestMaking) rmdir(path.c_str());  // If it is empty.
}

// Whether the data directory is still there of an arena that nobody uses and that has this header.
bool HasDataDirectory(const absl::optional<std::string>& text) {
  if (!text.has_value()) return false;  // Its making or removal was cut short.
  const absl::optional<Header> header = ParseHeader(*text);
  if (!header.has_value()) return true;                 // Another version's.
  if (header->mounts != MountNamespace()) return true;  // A container's: nobody here can tell.
  const std::string id_path = PathIn(header->data_dir, kDirectoryIdFile);
  const absl::optional<std::string> id = ReadFile(id_path);
  if (id.has_value()) return absl::StrContains(*id, header->directory_id);
  std::error_code error;
  return fs::exists(id_path, error) || error;  // Its disk fails, or does not let us.
}

}  // namespace

std::string KernelBootId() {
  const absl::optional<std::string> text = ReadFile("/proc/sys/kernel/random/boot_id");
  return text.has_value() ? std::string(absl::StripAsciiWhitespace(*text)) : std::string();
}

absl::StatusOr<std::unique_ptr<ArenaDirectory>> ArenaDirectory::Open(const std::string& parent,
                                                                     const ArenaOwner& owner) {
  const std::string path = PathIn(parent, absl::StrCat(kDirectoryPrefix, owner.directory_id));
  absl::StatusOr<int> lock = MakeAndLock(path);
  // Another server that starts may have taken it, while it was empty, for one that was left.
  for (int again = 0; again < kMakingAgain && absl::IsNotFound(lock.status()); ++again) {
    lock = MakeAndLock(path);
  }
  MILLRACE_RETURN_IF_ERROR(lock.status());
  std::unique_ptr<ArenaDirectory> directory(new ArenaDirectory(path, owner.data_dir, *lock));
  MILLRACE_RETURN_IF_ERROR(directory->Prepare(owner));
  return directory;
}

ArenaDirectory::ArenaDirectory(std::string path, std::string data_dir, int lock)
    : path_(std::move(path)), data_dir_(std::move(data_dir)), lock_(lock) {}

ArenaDirectory::~ArenaDirectory() { close(lock_); }

absl::Status ArenaDirectory::Prepare(const ArenaOwner& owner) {
  std::error_code error;
  Header header = {kFormat,      owner.boot_id,    owner.directory_id,
                   /*token=*/"", MountNamespace(), fs::absolute(owner.data_dir, error).string()};
  const std::string header_path = PathIn(path_, kHeaderFile);
  const std::string token_path = PathIn(owner.data_dir, kTokenFile);
  const absl::optional<std::string> text = ReadFile(header_path);
  const absl::optional<std::string> token = ReadFile(token_path);
  const std::string objection = Objection(text, owner, token);
  if (objection.empty()) {
    header.token = *token;
    // The data directory may have moved. That is for others to know, and no reason to do without
    // the memory.
    const absl::Status told =
        *text == Format(header) ? absl::OkStatus() : ReplaceFile(header_path, Format(header));
    LOG_IF(WARNING, !told.ok()) << "the memory in " << path_
                                << " does not say yet where its data directory is: " << told;
    return absl::OkStatus();
  }
  LOG_IF(WARNING, text.has_value())
      << "the memory in " << path_ << " is of no use and is deleted: " << objection;
  DeleteContents(path_);
  header.token = RandomToken();
  MILLRACE_RETURN_IF_ERROR(ReplaceFile(header_path, Format(header)));
  return ReplaceFile(token_path, header.token);
}

std::vector<std::string> ArenaDirectory::List(const std::string& prefix) const {
  std::vector<std::string> names;
  for (std::string& name : ListNames(path_)) {
    if (absl::StartsWith(name, prefix)) names.push_back(std::move(name));
  }
  return names;
}

void ArenaDirectory::Remove() {
  unlink(PathIn(data_dir_, kTokenFile).c_str());
  DeleteDirectory(path_);
}

absl::Status DisownArena(const std::string& data_dir) {
  const std::string path = PathIn(data_dir, kTokenFile);
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return SystemError("remove", path, errno);
}

void RemoveLostArenas(const std::string& parent) {
  for (const std::string& name : ListNames(parent)) {
    const std::string path = PathIn(parent, name);
    if (!absl::StartsWith(name, kDirectoryPrefix) || !CheckPrivate(path).ok()) continue;
    const absl::optional<std::string> header = ReadFile(PathIn(path, kHeaderFile));
    if (HasDataDirectory(header)) continue;  // Before locking: its server may be about to open it.
    const absl::StatusOr<int> lock = Lock(PathIn(path, kLockFile), /*flags=*/0);
    if (!lock.ok()) {
      RemoveEmpty(path);
      continue;
    }
    // Who has used it meanwhile has written its own. The data directory may not answer, and is not
    // asked again under the lock.
    if (ReadFile(PathIn(path, kHeaderFile)) == header) {
      LOG(INFO) << "removes " << path << ", whose data directory is gone";
      DeleteDirectory(path);
    }
    close(*lock);
  }
}

void SweepLostArenas(const std::string& parent) {
  struct Sweep {
    Mutex mutex;
    CondVar changed;
    bool has_ended ABSL_GUARDED_BY(mutex) = false;
  };
  const auto sweep = std::make_shared<Sweep>();
  absl::StatusOr<std::thread> thread = StartThread([parent, sweep] {
    RemoveLostArenas(parent);
    MutexLock lock(&sweep->mutex);
    sweep->has_ended = true;
    sweep->changed.SignalAll();
  });
  if (!thread.ok()) {
    LOG(WARNING) << "no thread looks for arenas whose servers are gone: " << thread.status();
    return;
  }
  thread->detach();
  const absl::Time deadline = Clock::Real()->Now() + kSweepPatience;
  MutexLock lock(&sweep->mutex);
  while (!sweep->has_ended) {
    if (!Clock::Real()->WaitUntil(&sweep->changed, &sweep->mutex, deadline)) continue;
    LOG(WARNING)
        << "another server's data directory does not answer; arenas whose servers are gone "
           "are removed when it does";
    return;
  }
}

}  // namespace millrace::ps
