#include "common/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/printable.h"

namespace millrace {
namespace {

constexpr int kMaxPort = 65535;

absl::Status Malformed(absl::string_view text, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("address '", PrintableName(text), "': ", problem,
                   "; expected HOST:PORT (such as 127.0.0.1:2220 or [::1]:2220), unix:PATH or "
                   "unix-abstract:NAME"));
}

// No blanks, no control characters. (A host name in other letters has a form in ASCII.)
bool IsGraphic(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

bool ParsePort(absl::string_view text, int* port) {
  if (text.empty() || text.size() > 5) return false;
  for (char c : text) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return absl::SimpleAtoi(text, port) && *port <= kMaxPort;
}

}  // namespace

bool Address::IsLoopback() const {
  if (kind == Kind::kUnix || host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool Address::IsWildcard() const {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  if (!IsGraphic(text)) return Malformed(text, "not printable ASCII characters without spaces");
  Address address;
  for (absl::string_view prefix : {"unix:", "unix-abstract:"}) {
    if (!absl::StartsWith(text, prefix)) continue;
    if (text.size() == prefix.size()) return Malformed(text, "no path after the colon");
    address.kind = Address::Kind::kUnix;
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return Malformed(text, "no port");
  absl::string_view host = text.substr(0, colon);
  if (!ParsePort(text.substr(colon + 1), &address.port)) {
    return Malformed(text, absl::StrCat("the port must be a number from 0 to ", kMaxPort));
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != absl::string_view::npos) {
    return Malformed(text, "an IPv6 address must stand in brackets");
  }
  if (host.empty()) return Malformed(text, "no host");
  if (host.find_first_of("[]/") != absl::string_view::npos) {
    return Malformed(text, "not a host name or address");
  }
  address.host = std::string(host);
  return address;
}

absl::Status CheckDialable(absl::string_view flag, absl::string_view text) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (address.ok() && address->kind == Address::Kind::kTcp && address->port != 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", PrintableName(text), "'; must be HOST:PORT with a port from 1 to ",
                   kMaxPort, ", such as 127.0.0.1:2220 or [::1]:2220"));
}

std::string JoinHostPort(absl::string_view host, int port) {
  if (host.find(':') != absl::string_view::npos) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

}  // namespace millrace
