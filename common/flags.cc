#include "common/flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace millrace {

int ComplainOfUsage(absl::string_view message, std::ostream& err) {
  err << message << "\nRun with --help for more information." << std::endl;
  return kWrongUsage;
}

absl::Status CheckNoEmptyFlag(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--") break;
    if (!absl::StartsWith(argument, "--") || argument.find('=') != argument.size() - 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(argument.substr(0, argument.size() - 1),
                     ": no value after '='; give one, or leave the flag out"));
  }
  return absl::OkStatus();
}

void AddDurationFlag(CLI::App& app, const std::string& name, absl::Duration* value,
                     bool (*is_allowed)(absl::Duration), const std::string& allowed,
                     const std::string& description) {
  app.add_option_function<std::string>(
         name,
         [=](const std::string& text) {
           if (absl::ParseDuration(text, value) && is_allowed(*value)) return;
           throw CLI::ValidationError(name, absl::StrCat(text, "; must be ", allowed));
         },
         description)
      ->type_name("DURATION")
      ->default_str(absl::FormatDuration(*value));
}

absl::StatusOr<Address> ParseListenFlag(absl::string_view listen) {
  absl::StatusOr<Address> address = ParseAddress(listen);
  if (address.ok()) return address;
  return absl::InvalidArgumentError(absl::StrCat("--listen: ", address.status().message()));
}

}  // namespace millrace
