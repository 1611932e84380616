#include "client/commands/checkpoint_choice.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/commands/exit_code.h"
#include "common/checkpoint/checkpoint_lineage.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/status_macros.h"
#include "common/storage/durable_file.h"

namespace millrace::client {
namespace {

// Whatever its own name is: a checkpoint's folder holds none of these.
bool IsDirectoryOfCheckpoints(const std::filesystem::path& path) {
  std::error_code error;
  bool is_one = false;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name == kManifestFile) return false;
    is_one |= name == kOwnerFile || name == kHolderFile || name == kLatestFile ||
              (ParseCheckpointFolder(name).has_value() && entry.is_directory(error));
  }
  return is_one;
}

// ParseCheckpointName, which looks at nothing but the text: "." may be a checkpoint's folder, and
// "20260101" or "latest" a directory of checkpoints.
absl::StatusOr<CheckpointName> ParseName(const std::string& path) {
  const std::filesystem::path last = std::filesystem::path(path).filename();
  if (last == "." || last == "..") {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    if (std::filesystem::exists(real / kManifestFile, error)) {
      return ParseCheckpointName(real.string());
    }
  }
  if (IsDirectoryOfCheckpoints(path)) {
    absl::string_view directory = path;
    while (directory.size() > 1 && absl::ConsumeSuffix(&directory, "/")) {
    }
    return CheckpointName{std::string(directory), 0};
  }
  return ParseCheckpointName(path);
}

}  // namespace

absl::StatusOr<std::string> MakeAbsolute(const std::string& flag, const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return UsageError(absl::StrCat(flag, "=", path, ": ", error.message()));
  std::string text = absolute.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

absl::StatusOr<CheckpointName> ParsePath(const std::string& path) {
  auto name = ParseName(path);
  if (!name.ok()) return UsageError(absl::StrCat("PATH: ", std::string(name.status().message())));
  return name;
}

absl::StatusOr<CheckpointName> ParseAbsolutePath(const std::string& flag, const std::string& path) {
  auto name = ParseName(path);
  if (!name.ok()) {
    return UsageError(absl::StrCat(flag, ": ", std::string(name.status().message())));
  }
  MILLRACE_ASSIGN_OR_RETURN(name->directory, MakeAbsolute(flag, name->directory));
  return name;
}

uint64_t BytesOf(const CheckpointManifest& manifest) {
  uint64_t bytes = 0;
  for (const CheckpointShard& shard : manifest.shards()) bytes += shard.bytes();
  return bytes;
}

absl::Status NoSuchCheckpoint(const std::string& directory, uint64_t number) {
  return absl::NotFoundError(
      absl::StrCat("there is no checkpoint ", CheckpointPath(directory, number),
                   "; `millrace checkpoints ls ", directory, "` lists them"));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(const CheckpointName& name) {
  auto opened = Checkpoint::Open(RealFileSystem(), name.directory, name.number);
  if (name.number > 0 && absl::IsNotFound(opened.status())) {
    return NoSuchCheckpoint(name.directory, name.number);
  }
  return opened;
}

absl::Status OfferOneBefore(const CheckpointName& name, const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return status;
  uint64_t number = name.number;
  if (number == 0) {
    number = CheckpointDirectory(RealFileSystem(), name.directory).Newest().value_or(0);
  }
  const auto before = FindOneBefore(RealFileSystem(), name.directory, number, status.message());
  const std::string offer = before.has_value()
                                ? absl::StrCat("the one before it that is not damaged by that is ",
                                               CheckpointPath(name.directory, before->number()),
                                               ", at step ", before->step())
                                : "there is no other one before it";
  return absl::DataLossError(absl::StrCat(std::string(status.message()), "; ", offer));
}

absl::Status CheckOpens(const std::string& directory, const CheckpointDirectory::Listed& listed) {
  MILLRACE_RETURN_IF_ERROR(listed.manifest.status());
  return OpenCheckpoint({directory, listed.number}).status();
}

std::vector<CheckpointDirectory::Listed> InOrderOfUse(
    const std::vector<CheckpointDirectory::Listed>& listed) {
  std::vector<CheckpointDirectory::Listed> order = FurthestFirst(LeadingUpTo(0, listed));
  std::set<uint64_t> led;
  for (const CheckpointDirectory::Listed& each : order) led.insert(each.number);
  std::vector<CheckpointDirectory::Listed> left_behind;
  std::copy_if(listed.begin(), listed.end(), std::back_inserter(left_behind),
               [&led](const auto& each) { return !led.contains(each.number); });
  for (CheckpointDirectory::Listed& each : FurthestFirst(std::move(left_behind))) {
    order.push_back(std::move(each));
  }
  return order;
}

std::string ArrayName(const Checkpoint& checkpoint, size_t variable, int array) {
  const std::string& name = checkpoint.variables()[variable].name;
  return array == 0 ? name : absl::StrCat(name, "@", checkpoint.manifest().slots(array - 1));
}

absl::Status ForEachPart(const Interrupt& interrupt, Checkpoint* checkpoint, size_t variable,
                         int array,
                         const std::function<absl::Status(absl::Span<const float>)>& on_part) {
  constexpr uint64_t kElementsAtOnce = 1 << 18;
  const uint64_t elements = checkpoint->variables()[variable].elements;
  std::vector<float> values(std::min(elements, kElementsAtOnce));
  for (uint64_t begin = 0; begin < elements; begin += kElementsAtOnce) {
    if (interrupt.triggered()) return absl::CancelledError("interrupted");
    const auto part =
        absl::MakeSpan(values).subspan(0, std::min(elements - begin, kElementsAtOnce));
    MILLRACE_RETURN_IF_ERROR(checkpoint->Read(variable, array, begin, part));
    MILLRACE_RETURN_IF_ERROR(on_part(part));
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const Interrupt& interrupt, const std::string& directory, uint64_t number) {
  std::string first;
  const auto on_problem = [&first](const CheckpointProblem& problem) {
    if (first.empty()) first = problem.what;
  };
  const auto on_read = [&interrupt](uint64_t) {
    return interrupt.triggered() ? absl::CancelledError("interrupted") : absl::OkStatus();
  };
  MILLRACE_ASSIGN_OR_RETURN(
      const VerifyResult result,
      VerifyCheckpoint(RealFileSystem(), directory, number, on_problem, on_read));
  return result.problems == 0 ? absl::OkStatus() : absl::DataLossError(first);
}

}  // namespace millrace::client
