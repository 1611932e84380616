#include "common/flags.h"

#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/printable.h"

namespace millrace {
namespace {

std::string Text(const DurationRange& range) {
  const std::string least = absl::FormatDuration(range.least);
  if (range.most == absl::InfiniteDuration()) return absl::StrCat("a duration of at least ", least);
  return absl::StrCat("a duration from ", least, " to ", absl::FormatDuration(range.most));
}

}  // namespace

int ComplainOfUsage(absl::string_view message, std::ostream& err) {
  err << Printable(message) << "\nRun with --help for more information." << std::endl;
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
                     const DurationRange& range, const std::string& description) {
  app.add_option_function<std::string>(
         name,
         [=](const std::string& text) {
           absl::Duration given;
           if (!absl::ParseDuration(text, &given) || given < range.least || given > range.most) {
             throw CLI::ValidationError(name, absl::StrCat(text, "; must be ", Text(range)));
           }
           *value = given;
         },
         description)
      ->type_name("DURATION")
      ->default_str(absl::FormatDuration(*value));
}

int EndParsing(const CLI::App& app, const CLI::ParseError& error, std::ostream& out,
               std::ostream& err) {
  std::ostringstream complaint;
  const int status = app.exit(error, out, complaint);
  err << Printable(complaint.str()) << std::flush;
  return status == 0 ? 0 : kWrongUsage;
}

absl::StatusOr<Address> ParseListenFlag(absl::string_view listen) {
  absl::StatusOr<Address> address = ParseAddress(listen);
  if (address.ok()) return address;
  return absl::InvalidArgumentError(absl::StrCat("--listen: ", address.status().message()));
}

}  // namespace millrace
