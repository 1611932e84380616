// What channels and servers prove who they are with. Internal to common/net, and
// for benchmarks of what is below it.
#ifndef MILLRACE_COMMON_NET_CREDENTIALS_H_
#define MILLRACE_COMMON_NET_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/net/address.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"

namespace millrace {

struct ChannelSecurity {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  std::string server_name;  // Empty: that of the address.
};

// As SecureConnections has said last, for a channel to `address`. These are thread-safe.
ChannelSecurity SecurityOfChannel(const std::string& address);

// Whether a server at `address` is secured.
bool IsSecured(const Address& address);

// As SecureConnections has said last, for a server at `address`. INVALID_ARGUMENT: the certificate
// may not be shown by servers.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> SecurityOfServer(const Address& address);

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_CREDENTIALS_H_
