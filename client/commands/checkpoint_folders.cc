#include "client/commands/checkpoint_folders.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/checkpoint_choice.h"
#include "common/checkpoint/checkpoint_paths.h"

namespace millrace::client {
namespace {

bool RefersTo(const CheckpointManifest& manifest, uint64_t number) {
  for (const CheckpointShard& shard : manifest.shards()) {
    for (const std::string& file : shard.files()) {
      if (const auto name = ParseShardFile(file); name && name->checkpoint == number) return true;
    }
  }
  return false;
}

bool IsMarked(const std::string& directory, uint64_t number) {
  std::error_code error;
  return std::filesystem::exists(JoinPath(CheckpointPath(directory, number), kRemovalMark), error);
}

}  // namespace

bool HasFiles(const std::string& directory, uint64_t number) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(CheckpointPath(directory, number), error)) {
    if (entry.path().filename() != kRemovalMark) return true;
  }
  return false;
}

std::vector<uint64_t> FoldersWithoutManifest(const std::string& directory,
                                             const ListedCheckpoints& listed) {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const auto number = ParseCheckpointFolder(entry.path().filename().string());
    if (!number) continue;
    const bool has_manifest = std::any_of(listed.begin(), listed.end(),
                                          [&](const auto& each) { return each.number == *number; });
    if (has_manifest || (IsMarked(directory, *number) && !HasFiles(directory, *number))) continue;
    numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

bool IsAbandoned(const std::string& directory, const ListedCheckpoints& listed, uint64_t number) {
  return (!listed.empty() && number < listed.back().number) || IsMarked(directory, number);
}

FolderUse UseOf(const ListedCheckpoints& listed, uint64_t number) {
  FolderUse use;
  for (const CheckpointDirectory::Listed& each : listed) {
    if (each.number == number) continue;
    if (each.manifest.ok()) {
      if (RefersTo(*each.manifest, number)) use.needed_by.push_back(each.number);
    } else if (each.number > number) {
      use.unreadable.push_back(each.number);
    }
  }
  return use;
}

std::string FoldersText(const std::vector<uint64_t>& numbers) {
  constexpr size_t kNamed = 3;
  const auto end = numbers.begin() + static_cast<ptrdiff_t>(std::min(kNamed, numbers.size()));
  const auto name = [](std::string* out, uint64_t number) {
    absl::StrAppend(out, CheckpointFolder(number));
  };
  const std::string named = absl::StrJoin(numbers.begin(), end, ", ", name);
  if (numbers.size() <= kNamed) return named;
  return absl::StrCat(named, " and ", numbers.size() - kNamed, " more");
}

}  // namespace millrace::client
