#include "common/flags.h"

#include <cmath>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/version.h"

namespace millrace {
namespace {

std::string Text(const DurationRange& range) {
  const std::string least = absl::FormatDuration(range.least);
  if (range.most == absl::InfiniteDuration()) return absl::StrCat("a duration of at least ", least);
  return absl::StrCat("a duration from ", least, " to ", absl::FormatDuration(range.most));
}

constexpr std::pair<const char*, double> kByteUnits[] = {
    {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"B", 1}};

// "4GiB": in the largest unit that it has one of, tenths, and never more than it is.
std::string BytesText(uint64_t bytes) {
  const double number = static_cast<double>(bytes);
  for (const auto& [unit, size] : kByteUnits) {
    if (number >= size) return absl::StrCat(std::floor(10 * number / size) / 10, unit);
  }
  return absl::StrCat(bytes, "B");
}

// False where it is no number of bytes up to `most`.
bool ParseBytes(absl::string_view text, uint64_t most, uint64_t* bytes) {
  double size = 1;
  for (const auto& [unit, unit_size] : kByteUnits) {
    if (!absl::ConsumeSuffix(&text, unit)) continue;
    size = unit_size;
    break;
  }
  double number = 0;
  if (!absl::SimpleAtod(text, &number)) return false;
  const double given = std::floor(number * size);
  if (!(given >= 0 && given <= static_cast<double>(most))) return false;
  if (given == 0 && number > 0) return false;  // 0 may mean that there is no limit.
  *bytes = static_cast<uint64_t>(given);
  return true;
}

}  // namespace

void AddVersionFlag(CLI::App& app) {
  app.set_version_flag("--version", VersionText(app.get_name()), "Print what version this is");
}

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

CLI::Option* AddDurationFlag(CLI::App& app, const std::string& name, absl::Duration* value,
                             const DurationRange& range, const std::string& description) {
  return app
      .add_option_function<std::string>(
          name,
          [=](const std::string& text) {
            absl::Duration given;
            if (!absl::ParseDuration(text, &given)) {
              throw CLI::ValidationError(name, absl::StrCat(text, "; must be ", kDurationAsText));
            }
            if (given < range.least || given > range.most) {
              throw CLI::ValidationError(name, absl::StrCat(text, "; must be ", Text(range)));
            }
            *value = given;
          },
          description)
      ->type_name("DURATION")
      ->default_str(absl::FormatDuration(*value));
}

void AddBytesFlag(CLI::App& app, const std::string& name, uint64_t* value, uint64_t most,
                  const std::string& description) {
  app.add_option_function<std::string>(
         name,
         [=](const std::string& text) {
           if (ParseBytes(text, most, value)) return;
           throw CLI::ValidationError(
               name, absl::StrCat(text, "; must be a number of bytes such as 512MiB, at most ",
                                  BytesText(most)));
         },
         description)
      ->type_name("BYTES")
      ->default_str(BytesText(*value));
}

int EndParsing(const CLI::App& app, const CLI::ParseError& error, std::ostream& out,
               std::ostream& err) {
  std::ostringstream complaint;
  const int status = app.exit(error, out, complaint);
  err << Printable(complaint.str()) << std::flush;
  return status == 0 ? 0 : kWrongUsage;
}

void AddTlsFlags(CLI::App& app, TlsOptions* options) {
  app.add_option("--tls_ca", options->ca,
                 "Certificates (PEM) of the authorities whose certificates the cluster's processes "
                 "show each other. With --tls_certificate and --tls_key connections use TLS")
      ->type_name("FILE")
      ->envname("MILLRACE_TLS_CA");
  app.add_option("--tls_certificate", options->certificate,
                 "The certificate to show, followed by those between it and its authority")
      ->type_name("FILE")
      ->envname("MILLRACE_TLS_CERTIFICATE");
  app.add_option("--tls_key", options->key, "The certificate's private key")
      ->type_name("FILE")
      ->envname("MILLRACE_TLS_KEY");
  app.add_option("--tls_server_name", options->server_name,
                 "The name that the certificates of all servers are for. Default: the host that is "
                 "dialled")
      ->type_name("NAME")
      ->envname("MILLRACE_TLS_SERVER_NAME");
}

absl::StatusOr<Address> ParseListenFlag(absl::string_view listen) {
  absl::StatusOr<Address> address = ParseAddress(listen);
  if (address.ok()) return address;
  return absl::InvalidArgumentError(absl::StrCat("--listen: ", address.status().message()));
}

}  // namespace millrace
