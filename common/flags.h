// What the command lines of the servers and of the client have in common. CLI11 reads them.
#ifndef MILLRACE_COMMON_FLAGS_H_
#define MILLRACE_COMMON_FLAGS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/net/address.h"
#include "common/net/tls.h"

namespace millrace {

// The exit status of a process that cannot make sense of its command line.
inline constexpr int kWrongUsage = 2;

// Writes `message` and where to find help. Returns kWrongUsage.
int ComplainOfUsage(absl::string_view message, std::ostream& err);

// INVALID_ARGUMENT where an argument is "--NAME=", as a script writes it when a variable of its own
// is empty: CLI11 would take the next argument, another flag, for the value.
absl::Status CheckNoEmptyFlag(int argc, const char* const* argv);

// Writes what CLI11 has to say where it ends the process: what is wrong, or the help that was asked
// for. Returns the exit status: 0 or kWrongUsage.
int EndParsing(const CLI::App& app, const CLI::ParseError& error, std::ostream& out,
               std::ostream& err);

// --version prints VersionText of the program, which has the app's name.
void AddVersionFlag(CLI::App& app);

// What a flag that takes a duration allows: both ends too.
struct DurationRange {
  absl::Duration least = absl::ZeroDuration();
  absl::Duration most = absl::InfiniteDuration();
};

// A flag that takes a duration, such as "90s" or "10m"; unset, `value` stays as it is. What is no
// duration in that range is refused: "--NAME: 1ms; must be a duration from 50ms to 1h".
CLI::Option* AddDurationFlag(CLI::App& app, const std::string& name, absl::Duration* value,
                             const DurationRange& range, const std::string& description);

// A flag that takes a number of bytes: "1000000", "512KiB", "1.5GiB" (B, KiB, MiB, GiB, TiB);
// unset, `value` stays as it is. What is none, or above `most`, is refused: "--NAME: 9TiB; must be
// a number of bytes such as 512MiB, at most 4GiB". REQUIRES: `most` is below 2^53.
void AddBytesFlag(CLI::App& app, const std::string& name, uint64_t* value, uint64_t most,
                  const std::string& description);

// --tls_ca, --tls_certificate, --tls_key and --tls_server_name, each also from the environment
// (MILLRACE_TLS_CA, ...). Whether they go together is for CheckTlsOptions to say.
void AddTlsFlags(CLI::App& app, TlsOptions* options);

// What --listen says. INVALID_ARGUMENT names the flag.
absl::StatusOr<Address> ParseListenFlag(absl::string_view listen);

}  // namespace millrace

#endif  // MILLRACE_COMMON_FLAGS_H_
