#include "client/commands/read_text_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

absl::StatusOr<std::string> ReadTextFile(const std::string& what, const std::string& path,
                                         size_t most_bytes) {
  const auto error = [&](const std::string& why) {
    return UsageError(absl::StrCat("cannot read the ", what, " ", path, ": ", why));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return error("it is a directory");
  std::ifstream file(path);
  if (!file) return error(std::strerror(errno));
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return error(std::strerror(errno));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > most_bytes) {
    return error(absl::StrCat("it has more than ", most_bytes, " bytes"));
  }
  return text;
}

}  // namespace millrace::client
