// gRPC watches files by itself, but takes what it finds there: an empty key ends the process (gRPC
// 1.51), and one that is half written or no longer the certificate's ends all new connections. So
// gRPC watches files of ours, in memory, which get new contents once these are found to be good.
#include "common/net/tls.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/mutex.h"
#include "common/net/credentials.h"
#include "common/net/deaf_listener.h"
#include "common/net/published_file.h"
#include "common/net/tls_files.h"
#include "common/printable.h"
#include "common/start_thread.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace millrace {
namespace {

// How soon gRPC sees what was published.
constexpr unsigned kWatchSeconds = 1;
// Whoever was let in once may come again by a ticket of that time, without a certificate, until the
// key of tickets changes: with each new contents. gRPC has no switch for tickets.
constexpr absl::Duration kTicketKeyPeriod = absl::Hours(1);
// Of the same trouble, and of a certificate that expires soon.
constexpr absl::Duration kTellAgain = absl::Hours(1);
constexpr absl::Duration kSoon = absl::Hours(14 * 24);
constexpr absl::Duration kTellAgainOfTheEnd = absl::Hours(24);

// What a process has from SecureConnections; lives to its end, for gRPC may hold what is made of
// it.
class Tls {
 public:
  // Reads the files, and goes on reading them on a thread of its own.
  static absl::StatusOr<Tls*> Load(const TlsOptions& options);

  ChannelSecurity OfChannel() const { return {channel_, options_.server_name}; }
  absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> OfServer() const {
    MILLRACE_RETURN_IF_ERROR(may_serve_);
    serves_ = true;
    return server_;
  }

 private:
  Tls(const TlsOptions& options, TlsFiles files, PublishedFile authorities, PublishedFile identity);

  // The thread's alone, once it runs.
  absl::Status Reload();
  absl::Status Publish(TlsFiles files);
  void TellOfTheEnd();
  [[noreturn]] void KeepLoading();

  const TlsOptions options_;
  const absl::Status may_serve_;
  mutable std::atomic<bool> serves_{false};
  TlsFiles files_;
  PublishedFile authorities_;
  PublishedFile identity_;
  uint64_t published_ = 0;
  absl::Time published_at_ = absl::Now();
  absl::Time told_of_the_end_ = absl::InfinitePast();
  std::shared_ptr<grpc::ChannelCredentials> channel_;
  std::shared_ptr<grpc::ServerCredentials> server_;
};

std::string DateOf(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

bool IsPlain(const TlsOptions& options) {
  return options.ca.empty() && options.certificate.empty() && options.key.empty();
}

absl::StatusOr<Tls*> Tls::Load(const TlsOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(TlsFiles files, ReadTlsFiles(options));
  MILLRACE_ASSIGN_OR_RETURN(PublishedFile authorities, PublishedFile::Make(files.authorities));
  MILLRACE_ASSIGN_OR_RETURN(PublishedFile identity, PublishedFile::Make(files.identity));
  auto* const tls = new Tls(options, std::move(files), std::move(authorities), std::move(identity));
  tls->TellOfTheEnd();
  absl::StatusOr<std::thread> thread = StartThread([tls] { tls->KeepLoading(); });
  if (!thread.ok()) {
    return absl::Status(thread.status().code(),
                        absl::StrCat("a thread to read certificates: ", thread.status().message()));
  }
  thread->detach();
  return tls;
}

Tls::Tls(const TlsOptions& options, TlsFiles files, PublishedFile authorities,
         PublishedFile identity)
    : options_(options),
      may_serve_(files.may_serve),
      files_(std::move(files)),
      authorities_(std::move(authorities)),
      identity_(std::move(identity)) {
  namespace tls = grpc::experimental;
  const auto watched = std::make_shared<tls::FileWatcherCertificateProvider>(
      identity_.path(), identity_.path(), authorities_.path(), kWatchSeconds);
  tls::TlsChannelCredentialsOptions channel;
  channel.set_certificate_provider(watched);
  channel.watch_root_certs();
  channel.watch_identity_key_cert_pairs();
  channel_ = tls::TlsCredentials(channel);
  tls::TlsServerCredentialsOptions server(watched);
  server.watch_root_certs();
  server.watch_identity_key_cert_pairs();
  server.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server_ = tls::TlsServerCredentials(server);
}

void Tls::KeepLoading() {
  const absl::Duration period = std::max(options_.reload_period, absl::Seconds(1));
  absl::Status told;
  absl::Time tell_again = absl::InfinitePast();
  while (true) {
    absl::SleepFor(period);
    const absl::Status status = Reload();
    if (status == told && absl::Now() < tell_again) continue;
    told = status;
    tell_again = absl::Now() + kTellAgain;
    LOG_IF(ERROR, !status.ok()) << status.message()
                                << "; new connections are made with what was there before";
  }
}

absl::Status Tls::Reload() {
  if (absl::Now() - published_at_ >= kTicketKeyPeriod) MILLRACE_RETURN_IF_ERROR(Publish(files_));
  MILLRACE_ASSIGN_OR_RETURN(TlsFiles files, ReadTlsFiles(options_));
  if (serves_) MILLRACE_RETURN_IF_ERROR(files.may_serve);
  if (files.authorities != files_.authorities || files.identity != files_.identity) {
    MILLRACE_RETURN_IF_ERROR(Publish(std::move(files)));
    LOG(INFO) << "--tls_certificate and --tls_ca have new contents, which count for new "
              << "connections; the certificate expires on " << DateOf(files_.end);
  }
  TellOfTheEnd();
  return absl::OkStatus();
}

absl::Status Tls::Publish(TlsFiles files) {
  MILLRACE_RETURN_IF_ERROR(authorities_.Replace(files.authorities));
  // A line beside the certificates, for a new key of tickets.
  MILLRACE_RETURN_IF_ERROR(
      identity_.Replace(absl::StrCat(files.identity, "# ", ++published_, "\n")));
  files_ = std::move(files);
  published_at_ = absl::Now();
  return absl::OkStatus();
}

void Tls::TellOfTheEnd() {
  const absl::Time now = absl::Now();
  if (now - told_of_the_end_ < kTellAgainOfTheEnd) return;
  const bool authority_ends = files_.authority_end - now <= kSoon;
  if (files_.end - now > kSoon && !authority_ends) return;
  told_of_the_end_ = now;
  // A new certificate of it would not help.
  if (authority_ends) {
    LOG(WARNING) << "--tls_ca: '" << Printable(options_.ca) << "': the authority of '"
                 << Printable(options_.certificate) << "' expires on "
                 << DateOf(files_.authority_end) << ", and its certificates with it: put a new "
                 << "authority's beside it in all files before, and give out certificates of that";
  } else {
    LOG(WARNING) << "--tls_certificate: '" << Printable(options_.certificate) << "' expires on "
                 << DateOf(files_.end) << ": put a new one in its place before, and its key; both "
                 << "are taken up while this process runs";
  }
}

// Of the process. Null: connections are plain text.
class ProcessTls {
 public:
  void Set(const Tls* tls) {
    MutexLock lock(&mutex_);
    tls_ = tls;
  }
  const Tls* Get() const {
    MutexLock lock(&mutex_);
    return tls_;
  }

 private:
  mutable Mutex mutex_;
  const Tls* tls_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

ProcessTls& OfProcess() {
  static auto* const tls = new ProcessTls;  // Threads of gRPC may need it to the end.
  return *tls;
}

}  // namespace

absl::Status CheckTlsOptions(const TlsOptions& options) {
  if (IsPlain(options)) {
    if (options.server_name.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "--tls_server_name: '", Printable(options.server_name),
        "' is of connections with TLS; give --tls_ca, --tls_certificate and --tls_key too"));
  }
  for (const auto& [flag, value] : {std::pair("tls_ca", &options.ca),
                                    {"tls_certificate", &options.certificate},
                                    {"tls_key", &options.key}}) {
    if (!value->empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, ": missing; give --tls_ca, --tls_certificate and --tls_key, or none of them"));
  }
  return absl::OkStatus();
}

absl::Status SecureConnections(const TlsOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckTlsOptions(options));
  const Tls* tls = nullptr;
  if (!IsPlain(options)) {
    EndProcessWhenDeaf();  // It takes care of what gRPC logs of handshakes.
    MILLRACE_ASSIGN_OR_RETURN(tls, Tls::Load(options));
  }
  OfProcess().Set(tls);
  return absl::OkStatus();
}

ChannelSecurity SecurityOfChannel(const std::string& address) {
  const Tls* const tls = OfProcess().Get();
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  const bool is_unix = parsed.ok() && parsed->kind == Address::Kind::kUnix;
  if (tls == nullptr || is_unix) return {grpc::InsecureChannelCredentials(), ""};
  return tls->OfChannel();
}

bool IsSecured(const Address& address) {
  return address.kind == Address::Kind::kTcp && OfProcess().Get() != nullptr;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> SecurityOfServer(const Address& address) {
  const Tls* const tls = OfProcess().Get();
  if (tls == nullptr || address.kind != Address::Kind::kTcp) {
    return grpc::InsecureServerCredentials();
  }
  return tls->OfServer();
}

}  // namespace millrace
