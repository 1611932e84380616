#include "worker/input/input_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

constexpr char kPatternCharacters[] = "*?[";

bool IsThere(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

// As a pattern that matches `text` alone.
std::string Escape(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (absl::string_view("*?[\\").find(c) != absl::string_view::npos) escaped.push_back('\\');
    escaped.push_back(c);
  }
  return escaped;
}

// What is not there matches nothing; whatever else keeps a folder from being read is an error.
int IsReadError(const char* /*path*/, int error) {
  return error != ENOENT && error != ENOTDIR ? 1 : 0;
}

// What matches, not sorted, as paths.
absl::StatusOr<std::vector<std::string>> Match(const std::string& pattern,
                                               const std::string& field) {
  glob_t found = {};
  const auto end = absl::MakeCleanup([&found] { globfree(&found); });
  const int error = glob(pattern.c_str(), GLOB_NOSORT, IsReadError, &found);
  if (error != 0 && error != GLOB_NOMATCH) {
    return absl::UnavailableError(
        absl::StrCat(field, ": ", pattern, ": cannot read the folder to look for files"));
  }
  return std::vector<std::string>(found.gl_pathv, found.gl_pathv + found.gl_pathc);
}

// Appends what `pattern` matches to `files`.
absl::Status Expand(const std::string& directory, const NamedFile& pattern,
                    std::vector<NamedFile>* files) {
  const bool absolute = pattern.name[0] == '/';
  const std::string prefix = absolute ? "" : absl::StrCat(directory, "/");
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> paths,
                            Match(absl::StrCat(Escape(prefix), pattern.name), pattern.field));
  if (paths.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        pattern.field, ": ", prefix, pattern.name,
        ": no file is called so or matches this pattern; the worker looks on its own machine"));
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    files->push_back({path.substr(prefix.size()), pattern.field});
  }
  return absl::OkStatus();
}

bool IsPattern(const std::string& directory, const std::string& name) {
  if (name.find_first_of(kPatternCharacters) == std::string::npos) return false;
  // Whoever opens it says what is missing.
  if (name[0] != '/' && directory.empty()) return false;
  const std::string path = name[0] == '/' ? name : absl::StrCat(directory, "/", name);
  return !IsThere(path) && !IsThere(path + ".gz");
}

}  // namespace

absl::StatusOr<std::vector<NamedFile>> FindFiles(const std::string& directory,
                                                 absl::Span<const std::string> names,
                                                 const std::string& field) {
  if (names.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": empty; it names files of the data"));
  }
  std::vector<NamedFile> files;
  for (size_t i = 0; i < names.size(); ++i) {
    const NamedFile file = {names[i], names.size() == 1 ? field : absl::StrCat(field, "[", i, "]")};
    if (IsPattern(directory, file.name)) {
      MILLRACE_RETURN_IF_ERROR(Expand(directory, file, &files));
    } else {
      files.push_back(file);
    }
  }
  return files;
}

std::string NameAll(const std::vector<NamedFile>& files) {
  if (files.size() == 1) return files.front().name;
  return absl::StrCat(files.front().name, " to ", files.back().name, " (", files.size(), " files)");
}

}  // namespace millrace::worker
