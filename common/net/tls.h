// Transport security within a cluster: TLS, with a certificate at both ends of each connection.
#ifndef MILLRACE_COMMON_NET_TLS_H_
#define MILLRACE_COMMON_NET_TLS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millrace {

// Files in PEM, as the flags name them. All three, or none: connections are plain text then.
struct TlsOptions {
  // The authorities: whoever has a certificate of one of them belongs to the cluster.
  std::string ca = {};
  // What this process shows: its own certificate, and after it those between it and an authority.
  std::string certificate = {};
  std::string key = {};  // The certificate's; without a passphrase.
  // A name or IP address that each server's certificate must be for. Empty: the one by which the
  // server is dialled.
  std::string server_name = {};
  // How often the files are looked at for new contents. Those that are good count for new
  // connections. At least a second.
  absl::Duration reload_period = absl::Minutes(1);
};

// INVALID_ARGUMENT: some of them are given, and others that are needed with them are not; the
// message names the flag. Reads no file.
absl::Status CheckTlsOptions(const TlsOptions& options);

// From now on each server that this process starts, and each channel that it makes, is as these
// options say; those that there are stay as they are. What does not leave the machine by its nature
// (unix sockets, in-process channels) is plain text in any case. Call in main(), before there is
// any; thread-safe.
// INVALID_ARGUMENT: as CheckTlsOptions; or a file cannot be read, or has no certificate or key in
// it; the key is not the certificate's; the certificate is not from an authority, is not valid
// today, or may not be shown by clients. The message names the flag, the file and what is wrong
// with it. UNAVAILABLE, RESOURCE_EXHAUSTED: the system has no memory file or no thread. Nothing is
// changed after an error.
absl::Status SecureConnections(const TlsOptions& options);

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_TLS_H_
