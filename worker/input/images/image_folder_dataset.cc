#include "worker/input/images/image_folder_dataset.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/input/byte_images.h"
#include "worker/input/example_selection.h"
#include "worker/input/fingerprint.h"
#include "worker/input/images/image_loader.h"
#include "worker/input/images/list_images.h"

namespace millrace::worker {
namespace {

void ReportClasses(const std::string& path, const ImageFiles& images) {
  std::vector<std::string> classes;
  for (size_t i = 0; i < images.classes.size(); ++i) {
    classes.push_back(absl::StrCat(i, " '", PrintableName(images.classes[i]), "'"));
  }
  LOG(INFO) << Printable(absl::StrCat(path, " has ", images.files.size(), " files in ",
                                      classes.size(), " classes: ", absl::StrJoin(classes, ", ")));
}

// Whether the set can do without the files that are no pictures.
absl::Status CheckUnreadable(const ImageFolder& spec, const std::string& path,
                             const std::vector<absl::Status>& statuses) {
  const absl::Status* first = nullptr;
  uint64_t count = 0;
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    if (!absl::IsInvalidArgument(status)) return status;
    if (first == nullptr) first = &status;
    ++count;
  }
  if (count == 0) return absl::OkStatus();
  const std::string message =
      absl::StrCat(first->message(), " (", count, " of ", statuses.size(),
                   " files are unreadable; max_unreadable is ", spec.max_unreadable(), ")");
  if (count > spec.max_unreadable()) return absl::InvalidArgumentError(message);
  LOG(WARNING) << "skipped in " << path << ": " << Printable(message);
  return absl::OkStatus();
}

// Before they are decoded: the files tell nothing of it.
absl::Status CheckPictures(uint64_t files, const ImageSize& size, uint64_t most_kept,
                           const std::string& path, const std::string& field) {
  // A label, while their list grows another one, and what became of the file.
  const uint64_t each = size.bytes() + 2 * sizeof(int32_t) + sizeof(absl::Status);
  if (files * each <= most_kept) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      field, ": ", path, ": its ", files, " files take ", files * each,
      " bytes of memory as pictures of ", size.height, " x ", size.width, " x ", size.channels,
      "; must be at most ", most_kept, " on this machine: make height or width smaller",
      size.channels > 1 ? ", set grey" : "", ", or leave files out of the folder"));
}

// Moves the examples of `selection`, of those that are pictures, to the front, and drops all
// others.
std::vector<int32_t> KeepSelected(const ExampleSelection& selection,
                                  const std::vector<ImageFile>& files, size_t image_bytes,
                                  uint64_t most_kept, LoadedImages* loaded) {
  std::vector<int32_t> labels;
  uint64_t example = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!loaded->statuses[i].ok()) continue;
    if (!selection.Contains(example++)) continue;
    const auto from = loaded->pixels.begin() + i * image_bytes;
    const auto to = loaded->pixels.begin() + labels.size() * image_bytes;
    if (from != to) std::copy(from, from + image_bytes, to);
    labels.push_back(files[i].label);
  }
  loaded->pixels.resize(labels.size() * image_bytes);
  // For a moment there are two of what is kept.
  if (loaded->pixels.capacity() + loaded->pixels.size() <= most_kept) {
    loaded->pixels.shrink_to_fit();
  }
  return labels;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenImageFolder(const ImageFolder& spec,
                                                         const ExampleSelection& selection,
                                                         const DataDirectory& directory,
                                                         const std::string& field,
                                                         uint64_t most_kept) {
  const std::string set = absl::StrCat(field, ".image_folder");
  MILLRACE_RETURN_IF_ERROR(CheckImageFolder(spec, set));
  const std::string folder_field = absl::StrCat(set, ".folder");
  const bool absolute = absl::StartsWith(spec.folder(), "/");
  if (spec.folder().empty() || (!absolute && directory.path.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder_field, ": '", spec.folder(), "'; must be a folder, in data.directory (--data=DIR)"));
  }
  const std::string path =
      absolute ? spec.folder() : absl::StrCat(directory.path, "/", spec.folder());
  const DataDirectory folder = {path, directory.stop};
  MILLRACE_ASSIGN_OR_RETURN(const ImageFiles images, ListImages(folder, folder_field));
  ReportClasses(path, images);
  const ImageSize size = {spec.height(), spec.width(), spec.grey() ? size_t{1} : size_t{3}};
  MILLRACE_RETURN_IF_ERROR(CheckPictures(images.files.size(), size, most_kept, path, folder_field));
  LoadedImages loaded = LoadImages(folder, images.files, size, folder_field);
  MILLRACE_RETURN_IF_ERROR(CheckUnreadable(spec, path, loaded.statuses));
  const auto pictures = static_cast<uint64_t>(
      std::count(loaded.statuses.begin(), loaded.statuses.end(), absl::OkStatus()));
  if (pictures == 0) {
    return absl::InvalidArgumentError(absl::StrCat(folder_field, ": ", path, ": no pictures"));
  }
  std::vector<int32_t> labels =
      KeepSelected(selection, images.files, size.bytes(), most_kept, &loaded);
  MILLRACE_RETURN_IF_ERROR(selection.CheckCount(pictures, labels.size(), path, field));
  const std::vector<uint64_t> shape = {size.height, size.width, size.channels,
                                       images.classes.size()};
  const uint64_t fingerprint =
      FingerprintOf(FingerprintOf(FingerprintOf(0, shape), labels), loaded.pixels);
  return std::make_unique<ByteImages>(FloatsAndClass({size.height, size.width, size.channels},
                                                     static_cast<int64_t>(images.classes.size())),
                                      fingerprint, std::move(loaded.pixels), std::move(labels));
}

}  // namespace millrace::worker
