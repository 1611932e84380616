// A checkpoint is one from the moment when its manifest has its name, and none from the moment when
// it has not: everything else is written before, and removed after. So a crash leaves whole
// checkpoints, and files that no manifest leads to.
//
// A file goes only if every manifest that could lead to it has been read and does not. A manifest
// leads to files of its own folder and of those with lower numbers. While one cannot be read,
// nobody knows what it needs, and all files of these folders stay.
//
// Whoever empties a folder that has no manifest leaves a mark there, and looks for the manifest
// again; whoever writes one looks for the mark afterwards. So one of them hears of the other, and a
// checkpoint that was committed keeps its files.
//
// The folder with the highest number stays although nothing is in it: it remembers the number.
#include "common/checkpoint/checkpoint_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/status_macros.h"
#include "common/storage/rocks_database.h"
#include "glog/logging.h"
#include "rocksdb/file_system.h"

namespace millrace {
namespace {

using rocksdb::IOOptions;
using rocksdb::IOStatus;

// What DurableFile writes before it renames.
constexpr char kTemporary[] = ".tmp-";

// The system's paths have at most 4095 bytes.
constexpr size_t kLongestDirectory = 4000;

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool IsMissing(const IOStatus& status) { return status.IsNotFound() || status.IsPathNotFound(); }

absl::StatusOr<bool> Exists(const FileSystemPtr& file_system, const std::string& path) {
  const IOStatus status = file_system->FileExists(path, IOOptions(), nullptr);
  if (IsMissing(status)) return false;
  MILLRACE_RETURN_IF_ERROR(FromRocks(status, absl::StrCat("cannot look at ", path)));
  return true;
}

// FAILED_PRECONDITION: it leads somewhere else.
absl::Status CheckIsDirectory(const std::string& path) {
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0 || S_ISDIR(found.st_mode)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is no directory, but perhaps a link to one: remove it"));
}

// Sorted.
absl::StatusOr<std::vector<std::string>> NamesIn(const FileSystemPtr& file_system,
                                                 const std::string& path) {
  std::vector<std::string> names;
  const IOStatus status = file_system->GetChildren(path, IOOptions(), &names, nullptr);
  if (IsMissing(status) || (!status.ok() && !WhyNothingCanBeAt(path).empty())) {
    return absl::NotFoundError(absl::StrCat("there is no directory ", path));
  }
  MILLRACE_RETURN_IF_ERROR(FromRocks(status, absl::StrCat("cannot list ", path)));
  std::sort(names.begin(), names.end());
  return names;
}

// Numbers of the folders, growing.
absl::StatusOr<std::vector<uint64_t>> FoldersIn(const FileSystemPtr& file_system,
                                                const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(file_system, path));
  std::vector<uint64_t> numbers;
  for (const std::string& name : names) {
    if (const auto number = ParseCheckpointFolder(name)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::Status DeleteFile(const FileSystemPtr& file_system, const std::string& path) {
  const IOStatus status = file_system->DeleteFile(path, IOOptions(), nullptr);
  if (IsMissing(status)) return absl::OkStatus();
  return FromRocks(status, absl::StrCat("cannot remove ", path));
}

// A file of ours that was never finished.
bool IsTemporary(const std::string& name) {
  const size_t at = name.find(kTemporary);
  if (at == std::string::npos) return false;
  const absl::string_view target = absl::string_view(name).substr(0, at);
  return target == kManifestFile || target == kLatestFile || target == kOwnerFile;
}

// What the manifests that are there lead to.
struct Needed {
  absl::flat_hash_set<uint64_t> manifests;  // Numbers of those.
  absl::flat_hash_set<std::string> files;   // Below the directory.
  // The highest number whose manifest cannot be read, and why; 0: none.
  uint64_t unreadable = 0;
  absl::Status why;
};

Needed NeededBy(const std::vector<CheckpointDirectory::Listed>& listed) {
  Needed needed;
  for (const CheckpointDirectory::Listed& one : listed) {
    needed.manifests.insert(one.number);
    if (!one.manifest.ok()) {
      needed.unreadable = one.number;
      needed.why = one.manifest.status();
      continue;
    }
    for (const CheckpointShard& shard : one.manifest->shards()) {
      needed.files.insert(shard.record());
      needed.files.insert(shard.files().begin(), shard.files().end());
    }
  }
  return needed;
}

// Removes from one folder what nobody needs; and itself, if nothing is left and it has not the
// highest number.
class FolderCleaner {
 public:
  FolderCleaner(const FileSystemPtr& file_system, const std::string& directory,
                const Needed& needed, uint64_t highest, CheckpointDirectory::Garbage* garbage)
      : file_system_(file_system),
        directory_(directory),
        needed_(needed),
        highest_(highest),
        garbage_(garbage) {}

  absl::Status Clean(uint64_t number) {
    const std::string folder = CheckpointFolder(number);
    const std::string path = JoinPath(directory_, folder);
    MILLRACE_RETURN_IF_ERROR(CheckIsDirectory(path));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(file_system_, path));
    const auto has = [&](absl::string_view name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    // It was committed since the manifests were read: nobody knows what it needs.
    if (has(kManifestFile) && !needed_.manifests.contains(number)) return absl::OkStatus();
    std::vector<std::string> removed_names;
    std::copy_if(names.begin(), names.end(), std::back_inserter(removed_names),
                 [&](const std::string& name) { return IsGarbage(number, name); });
    const bool marks = !removed_names.empty() && !has(kManifestFile);
    if (marks) {
      MILLRACE_ASSIGN_OR_RETURN(const bool may_go, MarkUnlessCommitted(path));
      if (!may_go) return absl::OkStatus();
    }
    for (const std::string& name : removed_names) {
      MILLRACE_RETURN_IF_ERROR(Remove(JoinPath(path, name)));
    }
    // The one that stays keeps the mark, for whoever may still commit it.
    if (number >= highest_) return absl::OkStatus();
    if (marks || has(kRemovalMark)) {
      MILLRACE_RETURN_IF_ERROR(DeleteFile(file_system_, JoinPath(path, kRemovalMark)));
    }
    const size_t left = names.size() - removed_names.size() - (has(kRemovalMark) ? 1 : 0);
    if (left > 0) return absl::OkStatus();
    const IOStatus removed = file_system_->DeleteDir(path, IOOptions(), nullptr);
    if (!IsMissing(removed)) {
      MILLRACE_RETURN_IF_ERROR(FromRocks(removed, absl::StrCat("cannot remove ", path)));
    }
    return SyncDirectory(file_system_, directory_);
  }

  // Of a file of ours.
  absl::Status Remove(const std::string& path) {
    uint64_t bytes = 0;
    file_system_->GetFileSize(path, IOOptions(), &bytes, nullptr).PermitUncheckedError();
    MILLRACE_RETURN_IF_ERROR(DeleteFile(file_system_, path));
    ++garbage_->files;
    garbage_->bytes += bytes;
    return absl::OkStatus();
  }

 private:
  // Whether nobody has committed the folder meanwhile; then nobody does any more.
  absl::StatusOr<bool> MarkUnlessCommitted(const std::string& path) {
    const std::string mark = JoinPath(path, kRemovalMark);
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus made =
        file_system_->NewWritableFile(mark, rocksdb::FileOptions(), &file, nullptr);
    if (made.ok()) made = file->Close(IOOptions(), nullptr);
    // A full disk is one more reason to go on. Another job looks at `owner` as well.
    LOG_IF(WARNING, !made.ok()) << "cannot make " << mark << ": " << made.ToString();
    MILLRACE_ASSIGN_OR_RETURN(const bool committed,
                              Exists(file_system_, JoinPath(path, kManifestFile)));
    if (committed) MILLRACE_RETURN_IF_ERROR(DeleteFile(file_system_, mark));
    return !committed;
  }

  bool IsGarbage(uint64_t number, const std::string& name) {
    if (IsTemporary(name)) return true;
    const std::string path = JoinPath(CheckpointFolder(number), name);
    if (!ParseShardFile(path).has_value() || needed_.files.contains(path)) return false;
    if (number > needed_.unreadable) return true;
    garbage_->kept_for.Update(needed_.why);
    return false;
  }

  const FileSystemPtr& file_system_;
  const std::string& directory_;
  const Needed& needed_;
  const uint64_t highest_;
  CheckpointDirectory::Garbage* const garbage_;
};

// All files that the manifest names are there.
absl::Status CheckFiles(const FileSystemPtr& file_system, const std::string& directory,
                        const CheckpointManifest& manifest) {
  const auto bytes_of = [&](const std::string& name) -> absl::StatusOr<uint64_t> {
    const std::string path = JoinPath(directory, name);
    uint64_t bytes = 0;
    const IOStatus status = file_system->GetFileSize(path, IOOptions(), &bytes, nullptr);
    if (IsMissing(status)) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " has gone, which checkpoint ", manifest.number(), " needs"));
    }
    MILLRACE_RETURN_IF_ERROR(FromRocks(status, absl::StrCat("cannot look at ", path)));
    return bytes;
  };
  for (const CheckpointShard& shard : manifest.shards()) {
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t bytes, bytes_of(shard.record()));
    if (bytes != shard.record_bytes()) {
      return absl::FailedPreconditionError(absl::StrCat(JoinPath(directory, shard.record()),
                                                        " has ", bytes, " bytes, not ",
                                                        shard.record_bytes()));
    }
    for (const std::string& file : shard.files()) {
      MILLRACE_RETURN_IF_ERROR(bytes_of(file).status());
    }
  }
  return absl::OkStatus();
}

// From which one on there are `keep` that count; 0: none before it can go.
size_t OldestNew(const std::vector<WrittenCheckpoint>& checkpoints, size_t keep,
                 const std::function<bool(const WrittenCheckpoint&)>& counts) {
  if (checkpoints.size() <= keep) return 0;
  size_t oldest = checkpoints.size();
  for (; keep > 0 && oldest > 0; --oldest) {
    if (counts(checkpoints[oldest - 1])) --keep;
  }
  return oldest;
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(FileSystemPtr file_system, std::string path,
                                         ManifestCache* manifests)
    : file_system_(std::move(file_system)),
      path_(WithoutSlash(std::move(path))),
      manifests_(manifests) {}

absl::StatusOr<std::vector<CheckpointDirectory::Listed>> CheckpointDirectory::List() const {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, FoldersIn(file_system_, path_));
  std::vector<Listed> listed;
  for (const uint64_t number : numbers) {
    auto manifest = ReadManifest(file_system_, path_, number, manifests_);
    if (absl::IsNotFound(manifest.status())) continue;
    listed.push_back({number, std::move(manifest)});
  }
  if (manifests_ != nullptr) manifests_->KeepOnly(numbers);
  return listed;
}

absl::StatusOr<uint64_t> CheckpointDirectory::Newest() const {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, FoldersIn(file_system_, path_));
  for (size_t i = numbers.size(); i > 0; --i) {
    MILLRACE_ASSIGN_OR_RETURN(const bool exists,
                              Exists(file_system_, JoinPath(path_, ManifestPath(numbers[i - 1]))));
    if (exists) return numbers[i - 1];
  }
  const std::string name = path_.substr(path_.rfind('/') + 1);
  const bool is_one = ParseCheckpointFolder(name).has_value();
  return absl::NotFoundError(absl::StrCat(
      "there is no checkpoint in ", path_,
      is_one ? absl::StrCat("; name its directory, ", DirectoryOf(path_),
                            ", and the checkpoint's number, ", *ParseCheckpointFolder(name))
             : ""));
}

absl::Status CheckpointDirectory::CheckAbove() const {
  const std::string above = DirectoryOf(path_);
  MILLRACE_ASSIGN_OR_RETURN(const bool is_there, Exists(file_system_, above));
  if (is_there) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("cannot make the directory ", path_, ": ", above,
                                          " is not there; make it, or mount it"));
}

absl::Status CheckpointDirectory::CheckPlace() const {
  if (path_.size() > kLongestDirectory) {
    return absl::InvalidArgumentError(
        absl::StrCat("a path of ", path_.size(), " bytes; must be at most ", kLongestDirectory,
                     ", so that there is room for the names of files"));
  }
  if (const std::string why = WhyNothingCanBeAt(path_); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", why));
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool exists, Exists(file_system_, path_));
  if (exists) {
    bool is_directory = false;
    MILLRACE_RETURN_IF_ERROR(
        FromRocks(file_system_->IsDirectory(path_, IOOptions(), &is_directory, nullptr),
                  absl::StrCat("cannot look at ", path_)));
    if (is_directory) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path_, " is no directory"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckAbove());
  if (const IOStatus made = file_system_->CreateDir(path_, IOOptions(), nullptr); !made.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the directory ", path_, ": ", made.ToString()));
  }
  // What somebody has put there meanwhile stays.
  file_system_->DeleteDir(path_, IOOptions(), nullptr).PermitUncheckedError();
  return absl::OkStatus();
}

absl::StatusOr<bool> CheckpointDirectory::Make() {
  MILLRACE_ASSIGN_OR_RETURN(const bool exists, Exists(file_system_, path_));
  if (exists) return false;
  MILLRACE_RETURN_IF_ERROR(CheckAbove());
  MILLRACE_RETURN_IF_ERROR(FromRocks(file_system_->CreateDirIfMissing(path_, IOOptions(), nullptr),
                                     absl::StrCat("cannot make the directory ", path_)));
  MILLRACE_RETURN_IF_ERROR(SyncDirectory(file_system_, DirectoryOf(path_)));
  return true;
}

absl::StatusOr<std::string> CheckpointDirectory::Owner() const {
  const absl::StatusOr<std::string> text = ReadWholeFile(file_system_, JoinPath(path_, kOwnerFile));
  if (absl::IsNotFound(text.status())) return "";
  MILLRACE_RETURN_IF_ERROR(text.status());
  return std::string(absl::StripAsciiWhitespace(*text));
}

absl::Status CheckpointDirectory::SetOwner(const std::string& job_id) {
  MILLRACE_RETURN_IF_ERROR(Make().status());
  return WriteDurably(file_system_, JoinPath(path_, kOwnerFile), job_id + "\n");
}

absl::StatusOr<uint64_t> CheckpointDirectory::Begin(uint64_t at_least) {
  MILLRACE_RETURN_IF_ERROR(Make().status());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, FoldersIn(file_system_, path_));
  uint64_t number = std::max<uint64_t>(at_least, 1);
  if (!numbers.empty()) number = std::max(number, numbers.back() + 1);
  const std::string folder = CheckpointPath(path_, number);
  // Fails if it is there: somebody else has begun it.
  MILLRACE_RETURN_IF_ERROR(FromRocks(file_system_->CreateDir(folder, IOOptions(), nullptr),
                                     absl::StrCat("cannot make the directory ", folder)));
  if (const absl::Status synced = SyncDirectory(file_system_, path_); !synced.ok()) {
    file_system_->DeleteDir(folder, IOOptions(), nullptr).PermitUncheckedError();
    return synced;
  }
  return number;
}

absl::Status CheckpointDirectory::Commit(CheckpointManifest* manifest) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, EncodeManifest(manifest));
  MILLRACE_RETURN_IF_ERROR(CheckFiles(file_system_, path_, *manifest));
  const std::string path = JoinPath(path_, ManifestPath(manifest->number()));
  MILLRACE_ASSIGN_OR_RETURN(const bool exists, Exists(file_system_, path));
  if (exists) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is there already"));
  }
  if (const absl::Status written = WriteDurably(file_system_, path, text); !written.ok()) {
    // The last thing that may have failed is the sync after the rename.
    DeleteFile(file_system_, path).IgnoreError();
    return written;
  }
  const absl::StatusOr<bool> removed =
      Exists(file_system_, JoinPath(DirectoryOf(path), kRemovalMark));
  if (!removed.ok() || *removed) {
    DeleteFile(file_system_, path).IgnoreError();
    MILLRACE_RETURN_IF_ERROR(removed.status());
    return absl::FailedPreconditionError(
        absl::StrCat(DirectoryOf(path), " is being removed by somebody else"));
  }
  // Nobody needs it to find the newest.
  const absl::Status latest = UpdateLatest();
  LOG_IF(WARNING, !latest.ok()) << "checkpoint " << manifest->number()
                                << " is written, but: " << latest.message();
  return absl::OkStatus();
}

absl::Status CheckpointDirectory::UpdateLatest() {
  const std::string path = JoinPath(path_, kLatestFile);
  const absl::StatusOr<uint64_t> newest = Newest();
  if (absl::IsNotFound(newest.status())) return DeleteFile(file_system_, path);
  MILLRACE_RETURN_IF_ERROR(newest.status());
  return WriteDurably(file_system_, path, CheckpointFolder(*newest) + "\n");
}

absl::Status CheckpointDirectory::Remove(uint64_t number) {
  const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(file_system_, path_, number);
  if (absl::IsNotFound(manifest.status())) return manifest.status();
  MILLRACE_RETURN_IF_ERROR(DeleteFile(file_system_, JoinPath(path_, ManifestPath(number))));
  MILLRACE_RETURN_IF_ERROR(SyncDirectory(file_system_, CheckpointPath(path_, number)));
  absl::Status status = UpdateLatest();  // On a full disk it works when the files are gone.
  // Only what it led to may have become garbage. Other folders without a manifest are not looked
  // at: one may be under way.
  std::vector<uint64_t> folders = {number};
  if (manifest.ok()) {
    for (const CheckpointShard& shard : manifest->shards()) {
      for (const std::string& file : shard.files()) {
        folders.push_back(ParseShardFile(file)->checkpoint);
      }
    }
  }
  std::sort(folders.begin(), folders.end());
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  status.Update(CleanFolders(folders));
  return status;
}

absl::Status CheckpointDirectory::CleanFolder(uint64_t number) { return CleanFolders({number}); }

absl::Status CheckpointDirectory::CleanFolders(const std::vector<uint64_t>& folders) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, FoldersIn(file_system_, path_));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Listed> listed, List());
  const Needed needed = NeededBy(listed);
  Garbage garbage;
  FolderCleaner cleaner(file_system_, path_, needed, numbers.empty() ? 0 : numbers.back(),
                        &garbage);
  absl::Status status;
  for (const uint64_t folder : folders) {
    const absl::Status cleaned = cleaner.Clean(folder);
    if (!absl::IsNotFound(cleaned)) status.Update(cleaned);
  }
  return status;
}

absl::StatusOr<CheckpointDirectory::Garbage> CheckpointDirectory::CollectGarbage(
    uint64_t in_progress) {
  Garbage garbage;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(file_system_, path_));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Listed> listed, List());
  const Needed needed = NeededBy(listed);
  uint64_t highest = 0;
  for (const std::string& name : names) {
    highest = std::max(highest, ParseCheckpointFolder(name).value_or(0));
  }
  FolderCleaner cleaner(file_system_, path_, needed, highest, &garbage);
  for (const std::string& name : names) {
    if (const auto number = ParseCheckpointFolder(name)) {
      if (in_progress != 0 && *number >= in_progress) continue;
      const absl::Status cleaned = cleaner.Clean(*number);
      if (!absl::IsNotFound(cleaned)) garbage.kept_for.Update(cleaned);
    } else if (in_progress == 0 && IsTemporary(name)) {
      garbage.kept_for.Update(cleaner.Remove(JoinPath(path_, name)));
    }
  }
  return garbage;
}

std::vector<uint64_t> CheckpointsToRemove(const std::vector<WrittenCheckpoint>& checkpoints,
                                          uint32_t keep, absl::Duration keep_one_every,
                                          const std::function<bool(uint64_t number)>& is_whole) {
  const auto counts = [&](const WrittenCheckpoint& checkpoint) {
    return checkpoint.counts && (is_whole == nullptr || is_whole(checkpoint.number));
  };
  const size_t oldest_new = OldestNew(checkpoints, std::max<size_t>(keep, 1), counts);
  std::vector<WrittenCheckpoint> for_ever;
  const auto goes = [&](const WrittenCheckpoint& checkpoint) {
    if (!checkpoint.counts || keep_one_every <= absl::ZeroDuration()) return true;
    return !for_ever.empty() && checkpoint.written >= for_ever.back().written &&
           checkpoint.written - for_ever.back().written < keep_one_every;
  };
  std::vector<uint64_t> removed;
  bool is_known = false;  // That the last one of for_ever counts.
  for (size_t i = 0; i < oldest_new; ++i) {
    const WrittenCheckpoint& checkpoint = checkpoints[i];
    // It goes since the last one of for_ever stays, which is looked at only now.
    while (!is_known && !for_ever.empty() && checkpoint.counts && goes(checkpoint)) {
      is_known = counts(for_ever.back());
      if (is_known) break;
      removed.push_back(for_ever.back().number);
      for_ever.pop_back();
    }
    if (goes(checkpoint)) {
      removed.push_back(checkpoint.number);
    } else {
      for_ever.push_back(checkpoint);
      is_known = false;
    }
  }
  std::sort(removed.begin(), removed.end());
  return removed;
}

}  // namespace millrace
