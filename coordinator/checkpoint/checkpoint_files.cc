#include "coordinator/checkpoint/checkpoint_files.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_lineage.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/job_spec.h"
#include "common/plain_name.h"
#include "common/printable.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "rocksdb/file_system.h"

namespace millrace::coordinator {
namespace {

using Listing = std::vector<CheckpointDirectory::Listed>;

// The payload that marks a directory which is another run's: whose it is, in words.
constexpr char kAnotherRunsMark[] = "millrace/another-runs";

// `whose` and what to do.
absl::Status AnotherRunsError(const std::string& whose, const std::string& advice) {
  absl::Status status =
      absl::FailedPreconditionError(absl::StrCat("checkpoints.directory: ", whose, "; ", advice));
  status.SetPayload(kAnotherRunsMark, absl::Cord(whose));
  return status;
}

// Empty where there is no directory yet.
absl::StatusOr<Listing> ListIn(const CheckpointDirectory& directory) {
  auto listing = directory.List();
  if (absl::IsNotFound(listing.status())) return Listing();
  return listing;
}

const CheckpointManifest* NewestReadable(const Listing& listing) {
  for (auto listed = listing.rbegin(); listed != listing.rend(); ++listed) {
    if (listed->manifest.ok()) return &*listed->manifest;
  }
  return nullptr;
}

// Numbers of those that led up to the job's newest one: behind others it went back.
std::set<uint64_t> LeadingUpToJob(const Listing& listing, const std::string& job_id) {
  uint64_t newest = 0;
  for (const CheckpointDirectory::Listed& listed : listing) {
    if (listed.manifest.ok() && listed.manifest->job_id() == job_id) newest = listed.number;
  }
  std::set<uint64_t> led;
  if (newest == 0) return led;
  for (const CheckpointDirectory::Listed& listed : LeadingUpTo(newest, listing)) {
    led.insert(listed.number);
  }
  return led;
}

bool IsThere(const FileSystemPtr& file_system, const std::string& path) {
  return file_system->FileExists(path, rocksdb::IOOptions(), nullptr).ok();
}

// Whether a job's files are beside the folders there, and not others of such names: `latest` may be
// somebody's link to the newest of several runs.
bool IsOfAJob(const FileSystemPtr& file_system, const std::string& directory) {
  if (IsThere(file_system, JoinPath(directory, kHolderFile))) return true;
  const auto owner = CheckpointDirectory(file_system, directory).Owner();
  if (owner.ok() && !owner->empty() && IsPlainName(*owner)) return true;
  const auto latest = ReadWholeFile(file_system, JoinPath(directory, kLatestFile));
  if (!latest.ok()) return false;
  const auto number = ParseCheckpointFolder(absl::StripAsciiWhitespace(*latest));
  return number && IsThere(file_system, JoinPath(directory, ManifestPath(*number)));
}

// A checkpoint's folder is no place for others: who looks there for checkpoints finds the one that
// it is. A number alone makes none: a directory may be named after a day.
absl::Status CheckIsNoCheckpoint(const FileSystemPtr& file_system, const std::string& path) {
  const std::string folder = NormalDirectory(path);
  const bool has_manifest = IsThere(file_system, JoinPath(folder, kManifestFile));
  const auto name = ParseCheckpointName(folder);
  const bool is_numbered = name.ok() && name->number > 0;
  if (is_numbered && (has_manifest || IsOfAJob(file_system, name->directory))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoints.directory: '", path, "' is the folder of one checkpoint in '", name->directory,
        "'; must be a directory for checkpoints, such as '", name->directory,
        "'. To go on from that checkpoint, name it in restore (millrace --restore=", folder, ")"));
  }
  if (!has_manifest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoints.directory: '", path, "' has a ", kManifestFile,
                   ", so it is a checkpoint itself; must be a directory for checkpoints, such as "
                   "the one above"));
}

// Whether `other` has nothing that the checkpoint of the job's end has not: all steps are in both.
bool IsRepeatedBy(const CheckpointManifest& end, const CheckpointManifest& other) {
  return end.ended() && other.job_id() == end.job_id() && other.number() < end.number() &&
         other.step() == end.step();
}

absl::Status WasGivenUp() {
  return absl::CancelledError("the checkpoint was given up before it was there");
}

std::string OfAnother(const std::string& directory, const CheckpointManifest& manifest) {
  return absl::StrCat("'", directory, "' has checkpoints of job '", manifest.job_id(),
                      "' (the newest is ", CheckpointFolder(manifest.number()), " at step ",
                      manifest.step(), "), and belongs to that run");
}

}  // namespace

CheckpointInfo InfoOf(const std::string& directory, const CheckpointManifest& manifest) {
  CheckpointInfo info;
  info.set_directory(directory);
  info.set_number(manifest.number());
  info.set_step(manifest.step());
  *info.mutable_written() = manifest.written();
  uint64_t bytes = 0;
  for (const CheckpointShard& shard : manifest.shards()) bytes += shard.bytes();
  info.set_bytes(bytes);
  return info;
}

absl::Status CheckNewOwner(const FileSystemPtr& file_system, const JobSpec& spec,
                           CheckpointHold* hold) {
  const std::string& path = spec.checkpoints().directory();
  if (path.empty()) return absl::OkStatus();
  const auto take = [&](bool makes_directory) {
    if (hold == nullptr) return absl::OkStatus();
    const std::string who =
        spec.name().empty() ? std::string("a job") : absl::StrCat("job '", spec.name(), "'");
    return hold->Take(absl::StrCat(who, ", which has not begun,"), makes_directory);
  };
  const bool goes_on =
      spec.has_restore() && NormalDirectory(spec.restore().directory()) == NormalDirectory(path);
  if (goes_on) return take(/*makes_directory=*/false);
  MILLRACE_RETURN_IF_ERROR(CheckIsNoCheckpoint(file_system, path));
  const CheckpointDirectory directory(file_system, path);
  if (const absl::Status place = directory.CheckPlace(); !place.ok()) {
    return absl::Status(place.code(), absl::StrCat("checkpoints.directory: ", place.message()));
  }
  MILLRACE_RETURN_IF_ERROR(take(/*makes_directory=*/true));
  MILLRACE_ASSIGN_OR_RETURN(const Listing listing, ListIn(directory));
  if (listing.empty()) return absl::OkStatus();
  const CheckpointManifest* newest = NewestReadable(listing);
  if (newest == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoints.directory: '", path,
                     "' has checkpoints that cannot be read; name another directory, or remove "
                     "them: ",
                     std::string(listing.back().manifest.status().message())));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoints.directory: ", OfAnother(path, *newest),
                   "; name another directory, or go on from there with restore.directory: '", path,
                   "' (millrace --restore=", path, ")"));
}

bool IsAnotherRuns(const absl::Status& status) {
  return status.GetPayload(kAnotherRunsMark).has_value();
}

std::string WhoseItIs(const absl::Status& status) {
  const auto whose = status.GetPayload(kAnotherRunsMark);
  if (whose) return std::string(*whose);
  const Holder holder = HolderOf(status);
  return holder.is_command ? "" : holder.held;
}

CheckpointFiles::CheckpointFiles(FileSystemPtr file_system, CheckpointSpec spec,
                                 CheckpointOwner owner, std::shared_ptr<CheckpointHold> hold)
    : file_system_(std::move(file_system)),
      spec_(std::move(spec)),
      owner_(std::move(owner)),
      hold_(std::move(hold)) {}

absl::Status CheckpointFiles::Hold(bool makes_directory) const {
  if (hold_ == nullptr) return absl::OkStatus();
  return hold_->Take(NameOfJob(owner_.job_id, owner_.restored), makes_directory);
}

absl::Status CheckpointFiles::CheckLineage(const CheckpointManifest& newest) const {
  const auto& earlier = owner_.earlier_job_ids;
  if (newest.job_id() == owner_.job_id ||
      std::count(earlier.begin(), earlier.end(), newest.job_id()) > 0) {
    return absl::OkStatus();
  }
  return AnotherRunsError(
      OfAnother(spec_.directory(), newest),
      "two runs must not share one: cancel one of them, or remove its checkpoints");
}

absl::Status CheckpointFiles::CheckOwner() const {
  MILLRACE_ASSIGN_OR_RETURN(const std::string owner, directory_.Owner());
  if (owner.empty() || owner == owner_.job_id) return absl::OkStatus();
  return AnotherRunsError(
      absl::StrCat("'", spec_.directory(), "' was taken by job '", PrintableName(owner), "' (",
                   JoinPath(directory_.path(), kOwnerFile), " says so)"),
      "two runs must not share one: cancel one of them. Where that job is no more, remove this "
      "file");
}

absl::StatusOr<CheckpointFiles::Found> CheckpointFiles::LookAround(
    const std::set<uint64_t>& damaged) const {
  MILLRACE_ASSIGN_OR_RETURN(const Listing listing, ListIn(directory_));
  Found found;
  for (auto listed = listing.rbegin(); listed != listing.rend(); ++listed) {
    if (!listed->manifest.ok()) {
      if (!found.furthest) found.trouble = std::string(listed->manifest.status().message());
    } else if (listed->manifest->job_id() != owner_.job_id) {
      break;
    } else if (!damaged.contains(listed->number) &&
               (!found.furthest || listed->manifest->step() > found.furthest->step())) {
      found.furthest = *listed->manifest;
    }
  }
  const CheckpointManifest* newest = NewestReadable(listing);
  if (newest != nullptr) MILLRACE_RETURN_IF_ERROR(CheckLineage(*newest));
  if (const absl::Status owns = CheckOwner(); !owns.ok()) {
    if (!absl::IsFailedPrecondition(owns) || found.furthest) return owns;
    return found;  // It becomes the job's with its first checkpoint.
  }
  MILLRACE_RETURN_IF_ERROR(Hold(/*makes_directory=*/false));
  const auto garbage = directory_.CollectGarbage(/*in_progress=*/0);
  if (!absl::IsNotFound(garbage.status())) MILLRACE_RETURN_IF_ERROR(garbage.status());
  return found;
}

uint64_t CheckpointFiles::FindBase(const Listing& listing, int shards,
                                   const std::set<uint64_t>& damaged) const {
  for (auto listed = listing.rbegin(); listed != listing.rend(); ++listed) {
    if (!listed->manifest.ok() || damaged.contains(listed->number)) continue;
    const CheckpointManifest& manifest = *listed->manifest;
    if (manifest.job_id() != owner_.job_id || manifest.shards_size() != shards) return 0;
    const auto opened = Checkpoint::Open(file_system_, spec_.directory(), listed->number);
    if (opened.ok()) return listed->number;
    LOG(WARNING) << owner_.job_id << ": the next checkpoint refers to none: " << opened.status();
    return 0;
  }
  return 0;
}

absl::StatusOr<CheckpointFiles::Begun> CheckpointFiles::Begin(
    uint64_t at_least, int shards, bool is_first, const std::set<uint64_t>& damaged) const {
  MILLRACE_ASSIGN_OR_RETURN(const Listing listing, ListIn(directory_));
  Begun begun;
  if (const CheckpointManifest* newest = NewestReadable(listing); newest != nullptr) {
    MILLRACE_RETURN_IF_ERROR(CheckLineage(*newest));
    // Another life of the coordinator has begun it.
    if (newest->job_id() == owner_.job_id) is_first = false;
  }
  begun.base = FindBase(listing, shards, damaged);
  if (!is_first) MILLRACE_RETURN_IF_ERROR(CheckOwner());
  MILLRACE_RETURN_IF_ERROR(Hold(/*makes_directory=*/true));
  auto number = MakeFolder(at_least);
  if (!number.ok()) {
    // The disk may be full of garbage.
    if (!directory_.CollectGarbage(/*in_progress=*/0).ok()) return number.status();
    number = MakeFolder(at_least);
  }
  MILLRACE_RETURN_IF_ERROR(number.status());
  begun.number = *number;
  const auto garbage = directory_.CollectGarbage(/*in_progress=*/begun.number);
  const absl::Status kept_for = garbage.ok() ? garbage->kept_for : garbage.status();
  LOG_IF(WARNING, !kept_for.ok()) << "what no checkpoint needs stays in " << directory_.path()
                                  << ": " << kept_for.message();
  return begun;
}

absl::StatusOr<uint64_t> CheckpointFiles::MakeFolder(uint64_t at_least) const {
  MILLRACE_ASSIGN_OR_RETURN(const std::string owner, directory_.Owner());
  if (owner != owner_.job_id) MILLRACE_RETURN_IF_ERROR(directory_.SetOwner(owner_.job_id));
  return directory_.Begin(at_least);
}

void CheckpointFiles::TakeBack(uint64_t number) const {
  const absl::Status given_up = GiveUp(number);
  LOG_IF(WARNING, !given_up.ok()) << owner_.job_id << ": " << given_up;
}

absl::StatusOr<std::string> CheckpointFiles::Commit(CheckpointManifest* manifest,
                                                    const CommitOptions& options) const {
  CommitDecision* const decision = options.decision;
  MILLRACE_ASSIGN_OR_RETURN(const Listing listing, ListIn(directory_));
  if (const CheckpointManifest* newest = NewestReadable(listing); newest != nullptr) {
    MILLRACE_RETURN_IF_ERROR(CheckLineage(*newest));
  }
  MILLRACE_RETURN_IF_ERROR(CheckOwner());
  if (decision != nullptr && decision->is_given_up()) return WasGivenUp();
  MILLRACE_RETURN_IF_ERROR(directory_.Commit(manifest));
  // One that has taken the directory meanwhile may have removed its files as garbage before that.
  if (const absl::Status owns = CheckOwner(); absl::IsFailedPrecondition(owns)) {
    TakeBack(manifest->number());
    return owns;
  }
  if (decision != nullptr && !decision->Count()) {
    TakeBack(manifest->number());
    return WasGivenUp();
  }
  const std::string no_before = WhyNotBefore(options.before);
  const auto stays = RemoveOld(*manifest, options.damaged, options.kept);
  std::vector<std::string> troubles = {WhyNoBest(manifest->best())};
  const bool is_best = options.before == manifest->best().checkpoint().number();
  if (!is_best || troubles[0].empty()) troubles.push_back(no_before);
  troubles.push_back(stays.ok() ? *stays
                                : absl::StrCat("old checkpoints cannot be removed: ",
                                               std::string(stays.status().message())));
  troubles.erase(std::remove(troubles.begin(), troubles.end(), ""), troubles.end());
  return absl::StrJoin(troubles, "; ");
}

std::string CheckpointFiles::WhyNoBest(const BestEvaluation& best) const {
  const CheckpointInfo& info = best.checkpoint();
  const bool is_here =
      info.number() > 0 && NormalDirectory(info.directory()) == NormalDirectory(spec_.directory());
  if (!is_here) return "";
  if (!IsGone(info.number())) return "";
  return absl::StrCat(CheckpointPath(spec_.directory(), info.number()), ", of the best ",
                      best.metric(), " so far, is not there any more; nothing else has that state");
}

std::string CheckpointFiles::WhyNotBefore(uint64_t before) const {
  if (before == 0 || !IsGone(before)) return "";
  return absl::StrCat(CheckpointPath(spec_.directory(), before),
                      ", the checkpoint before this one, is not there any more: was it removed, or "
                      "is another file system mounted there?");
}

bool CheckpointFiles::IsGone(uint64_t number) const {
  return absl::IsNotFound(ReadManifest(file_system_, spec_.directory(), number).status());
}

absl::StatusOr<std::string> CheckpointFiles::RemoveOld(const CheckpointManifest& newest,
                                                       const std::set<uint64_t>& damaged,
                                                       const std::set<uint64_t>& kept) const {
  MILLRACE_ASSIGN_OR_RETURN(const Listing listing, directory_.List());
  const std::set<uint64_t> led = LeadingUpToJob(listing, owner_.job_id);
  std::vector<WrittenCheckpoint> written;
  std::vector<std::string> unreadable;
  absl::Status status;
  for (const CheckpointDirectory::Listed& listed : listing) {
    const bool is_own = listed.manifest.ok() && listed.manifest->job_id() == owner_.job_id;
    const bool is_repeated = is_own && !kept.contains(listed.number) &&
                             led.contains(listed.number) && IsRepeatedBy(newest, *listed.manifest);
    if (is_repeated || (is_own && damaged.contains(listed.number))) {
      status.Update(directory_.Remove(listed.number));
    } else if (listed.manifest.ok()) {
      written.push_back({listed.number, FromTimestamp(listed.manifest->written()),
                         /*counts=*/led.contains(listed.number)});
    } else {
      unreadable.push_back(std::string(listed.manifest.status().message()));
    }
  }
  JobSpec spec;
  *spec.mutable_checkpoints() = spec_;
  const absl::Duration period = CheckpointKeptPeriod(spec);
  const bool keeps_for_ever = period < absl::InfiniteDuration();
  const auto is_whole = [this](uint64_t number) {
    const auto opened = Checkpoint::Open(file_system_, spec_.directory(), number);
    return !absl::IsDataLoss(opened.status());
  };
  for (const uint64_t number :
       CheckpointsToRemove(written, CheckpointsToKeep(spec),
                           keeps_for_ever ? period : absl::ZeroDuration(), is_whole)) {
    if (!kept.contains(number)) status.Update(directory_.Remove(number));
  }
  MILLRACE_RETURN_IF_ERROR(status);
  if (unreadable.empty()) return "";
  return absl::StrCat(
      "what cannot be read stays, and so do the files of older checkpoints, which it may need: ",
      absl::StrJoin(unreadable, "; "));
}

// Called when the job may have ended, and another one goes on in the directory.
absl::Status CheckpointFiles::GiveUp(uint64_t number) const {
  const auto manifest = ReadManifest(file_system_, directory_.path(), number);
  if (absl::IsNotFound(manifest.status())) return directory_.CleanFolder(number);
  MILLRACE_RETURN_IF_ERROR(manifest.status());
  // Its own: of a Commit that failed after the manifest had its name.
  if (manifest->job_id() == owner_.job_id) return directory_.Remove(number);
  return absl::FailedPreconditionError(
      absl::StrCat(JoinPath(directory_.path(), ManifestPath(number)), " is of job '",
                   manifest->job_id(), "', and stays"));
}

}  // namespace millrace::coordinator
