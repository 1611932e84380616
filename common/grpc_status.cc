#include "common/grpc_status.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {
namespace {

constexpr absl::string_view kAnotherName =
    "the server's certificate is not for the name or address by which it is dialled; dial it by "
    "one that the certificate has, or give that as --tls_server_name";

// What gRPC 1.51 says where no connection comes about, and what to do.
constexpr std::pair<absl::string_view, absl::string_view> kConnectionHints[] = {
    {"Hostname Verification Check failed", kAnotherName},
    {"certificate verify failed",
     "the server's certificate is not from an authority of --tls_ca, or has expired"},
    {"wrong version number",
     "the server speaks plain text; start it with --tls_ca, --tls_certificate and --tls_key, or "
     "leave them out here"},
    {"Handshake read failed", "what listens there does not answer as a server with TLS does"},
    {"Tls handshake failed",
     "the two ends do not agree on TLS; compare their --tls_ca, --tls_certificate and --tls_key"},
    {"Socket closed",
     "what listens there ends the connection at once; if it is the right server, then it speaks "
     "TLS and this process does not (--tls_ca, --tls_certificate, --tls_key), or it does not take "
     "this process's certificate (its log says why)"},
};

// Of a message of this process's gRPC: what a server says of others' connections is no news of
// ours.
absl::string_view ConnectionHint(const std::string& message) {
  // Found after the handshake, of each call.
  if (absl::StartsWith(message, "call host does not match SSL server name")) return kAnotherName;
  if (!absl::StartsWith(message, "failed to connect")) return "";
  for (const auto& [words, hint] : kConnectionHints) {
    if (absl::StrContains(message, words)) return hint;
  }
  return "";
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  const std::string message = status.error_message();
  if (message == "Server Threadpool Exhausted") {
    return absl::UnavailableError(
        "the server has no thread left to answer with; close connections that are not needed, or "
        "allow it more (ulimit -u, TasksMax= of a systemd unit, or pids.max of a container)");
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && message.empty()) {
    return absl::UnimplementedError(
        "what listens there does not know this call: it is another kind of server than was meant "
        "(a ps in a coordinator's place, say), or one of another release");
  }
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const absl::string_view hint = ConnectionHint(message);
  return absl::Status(code, hint.empty() ? message : absl::StrCat(hint, " (", message, ")"));
}

}  // namespace millrace
