#include "worker/input/images/list_images.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

struct Entries {
  std::vector<std::string> folders;
  std::vector<std::string> files;
  std::vector<std::string> others;
};

absl::Status CannotList(const std::string& path, const std::string& field,
                        const std::error_code& error) {
  const std::string message =
      absl::StrCat(field, ": ", path, ": cannot be listed: ", error.message());
  const bool is_wrong = error == std::errc::no_such_file_or_directory ||
                        error == std::errc::not_a_directory ||
                        error == std::errc::permission_denied;
  return is_wrong ? absl::InvalidArgumentError(absl::StrCat(
                        message, "; it must be a folder with a sub-folder for each class"))
                  : absl::UnavailableError(message);
}

// What is in a folder, hidden entries aside, sorted as bytes.
absl::StatusOr<Entries> ListFolder(const DataDirectory& folder, const std::string& field) {
  Entries entries;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    MILLRACE_RETURN_IF_ERROR(CheckWanted(folder.stop));
    const std::string name = entry->path().filename();
    if (name[0] == '.') continue;
    std::error_code unknown;
    std::vector<std::string>& list = entry->is_directory(unknown)      ? entries.folders
                                     : entry->is_regular_file(unknown) ? entries.files
                                                                       : entries.others;
    list.push_back(name);
  }
  if (error) return CannotList(folder.path, field, error);
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

}  // namespace

absl::StatusOr<ImageFiles> ListImages(const DataDirectory& folder, const std::string& field) {
  MILLRACE_ASSIGN_OR_RETURN(Entries classes, ListFolder(folder, field));
  ImageFiles images;
  images.classes = std::move(classes.folders);
  for (size_t i = 0; i < images.classes.size(); ++i) {
    const std::string path = absl::StrCat(folder.path, "/", images.classes[i]);
    MILLRACE_ASSIGN_OR_RETURN(const Entries entries, ListFolder({path, folder.stop}, field));
    if (!entries.folders.empty() || !entries.others.empty()) {
      const std::string& name = entries.folders.empty() ? entries.others[0] : entries.folders[0];
      return absl::InvalidArgumentError(absl::StrCat(
          field, ": ", path, "/", name, ": is no file; a class's folder must hold files alone"));
    }
    for (const std::string& file : entries.files) {
      images.files.push_back({absl::StrCat(images.classes[i], "/", file), static_cast<int32_t>(i)});
    }
  }
  if (!images.files.empty()) return images;
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", folder.path,
                   ": no pictures; must have a sub-folder for each class, with "
                   "the class's pictures in it"));
}

}  // namespace millrace::worker
