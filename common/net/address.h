// The addresses that servers listen on and clients dial, as text.
#ifndef MILLRACE_COMMON_NET_ADDRESS_H_
#define MILLRACE_COMMON_NET_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// A parsed address. A value type.
struct Address {
  enum class Kind { kTcp, kUnix };

  Kind kind = Kind::kTcp;
  // kTcp: a name, an IPv4 or an IPv6 address (without its brackets). kUnix: empty.
  std::string host;
  int port = 0;

  // Nothing outside this machine can reach it: a unix socket, 127.0.0.0/8, ::1 or "localhost".
  bool IsLoopback() const;

  // All addresses of a machine, to listen on: 0.0.0.0 or ::. Nobody can dial it from elsewhere.
  bool IsWildcard() const;
};

// Parses HOST:PORT ("[HOST]:PORT" for IPv6), unix:PATH or unix-abstract:NAME, of printable ASCII
// characters without spaces. Resolves no names.
// INVALID_ARGUMENT: anything else; the message says what is expected.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// Whether `text` is an address to dial: HOST:PORT, the port not 0. INVALID_ARGUMENT names the flag
// or field that it is from: "--coordinator: 'x'; must be HOST:PORT ...".
absl::Status CheckDialable(absl::string_view flag, absl::string_view text);

// HOST:PORT, with brackets around an IPv6 address.
std::string JoinHostPort(absl::string_view host, int port);

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_ADDRESS_H_
