// What the files of TlsOptions hold, checked. Internal to common/net.
#ifndef MILLRACE_COMMON_NET_TLS_FILES_H_
#define MILLRACE_COMMON_NET_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/tls.h"

namespace millrace {

struct TlsFiles {
  std::string authorities;  // PEM.
  std::string identity;     // PEM: the certificate, those after it, and the key.
  absl::Status may_serve;   // INVALID_ARGUMENT: the certificate is not for servers.
  absl::Time end;           // When the certificate expires.
  // When the first does of the authorities that it is from, up to that in --tls_ca.
  absl::Time authority_end;
};

// INVALID_ARGUMENT as SecureConnections, but for what CheckTlsOptions finds.
absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsOptions& options);

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_TLS_FILES_H_
