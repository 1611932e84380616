#include "common/net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/mutex.h"
#include "common/net/credentials.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace millrace {
namespace {

// A certificate with less than this is told of when a process starts.
constexpr int kSoonDays = 14;
// Larger files are something else.
constexpr off_t kMaxPemBytes = 4 << 20;

struct OpenSslDeleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using OpenSslPtr = std::unique_ptr<T, OpenSslDeleter>;
using Certificates = std::vector<OpenSslPtr<X509>>;

struct PemFile {
  absl::string_view flag;
  std::string path;

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("--", flag, ": '", Printable(path), "' ", what));
  }
};

std::string WhyNotRead() {
  return std::string(absl::ErrnoToStatus(errno, "cannot be read").message());
}

// A pipe could be read only once, and would be waited for.
absl::StatusOr<std::string> ReadPem(const PemFile& file) {
  struct stat about = {};
  if (stat(file.path.c_str(), &about) != 0) return file.Error(WhyNotRead());
  if (!S_ISREG(about.st_mode)) return file.Error("is no file");
  if (about.st_size > kMaxPemBytes) return file.Error("is larger than 4 MiB; must be a PEM file");
  std::ifstream stream(file.path, std::ios::binary);
  if (!stream) return file.Error(WhyNotRead());
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

OpenSslPtr<BIO> Reader(const std::string& pem) {
  return OpenSslPtr<BIO>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

absl::StatusOr<Certificates> ReadCertificates(const PemFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string pem, ReadPem(file));
  const OpenSslPtr<BIO> reader = Reader(pem);
  Certificates certificates;
  while (X509* const certificate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
  }
  const bool is_at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty()) return file.Error("has no certificate in it (PEM is expected)");
  if (!is_at_end) {
    return file.Error(absl::StrCat("is damaged after certificate ", certificates.size()));
  }
  return certificates;
}

int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*unused*/) { return -1; }

absl::StatusOr<OpenSslPtr<EVP_PKEY>> ReadKey(const PemFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string pem, ReadPem(file));
  const OpenSslPtr<BIO> reader = Reader(pem);
  OpenSslPtr<EVP_PKEY> key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  return file.Error(absl::StrContains(pem, "ENCRYPTED")
                        ? "has a passphrase; must be a private key without one"
                        : "has no private key in it (PEM is expected)");
}

// Such as "Dec  1 02:40:00 2026 GMT".
std::string TextOf(const ASN1_TIME* time) {
  const OpenSslPtr<BIO> writer(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(writer.get(), time);
  char* text = nullptr;
  const auto length = BIO_get_mem_data(writer.get(), &text);
  return std::string(text, static_cast<size_t>(length));
}

absl::Status CheckDates(const PemFile& file, X509* certificate) {
  const ASN1_TIME* const begin = X509_get0_notBefore(certificate);
  const ASN1_TIME* const end = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(begin) > 0) {
    return file.Error(absl::StrCat("is not valid before ", TextOf(begin)));
  }
  if (X509_cmp_current_time(end) < 0) {
    return file.Error(absl::StrCat("is not valid any more: it expired on ", TextOf(end)));
  }
  int days = 0;
  int seconds = 0;
  ASN1_TIME_diff(&days, &seconds, /*from=*/nullptr, end);
  if (days < kSoonDays) {
    LOG(WARNING) << "--" << file.flag << ": '" << Printable(file.path) << "' expires on "
                 << TextOf(end) << ": put a new one in its place before (it is read again "
                 << "while this process runs)";
  }
  return absl::OkStatus();
}

// As gRPC will look at it at the other end, whose authorities are taken to be ours.
absl::Status CheckChain(const PemFile& file, const Certificates& chain,
                        const Certificates& authorities, int purpose) {
  const OpenSslPtr<X509_STORE> store(X509_STORE_new());
  for (const auto& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  STACK_OF(X509)* const between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  const OpenSslPtr<X509_STORE_CTX> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(), between);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  const bool is_good = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  sk_X509_free(between);
  ERR_clear_error();
  if (is_good) return absl::OkStatus();
  if (error == X509_V_ERR_INVALID_PURPOSE) {
    const char* const role = purpose == X509_PURPOSE_SSL_SERVER ? "server" : "client";
    return file.Error(absl::StrCat("may not be shown by a ", role,
                                   ": its extended key usage lacks ", role, "Auth"));
  }
  return file.Error(
      absl::StrCat("is not from an authority of --tls_ca: ", X509_verify_cert_error_string(error)));
}

// What SecureConnections has read and made.
class Tls {
 public:
  static absl::StatusOr<std::shared_ptr<const Tls>> Load(const TlsOptions& options);

  ChannelSecurity OfChannel() const { return {channel_, options_.server_name}; }
  absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> OfServer() const {
    MILLRACE_RETURN_IF_ERROR(may_serve_);
    return server_;
  }

 private:
  const TlsOptions options_;
  const absl::Status may_serve_;
  std::shared_ptr<grpc::ChannelCredentials> channel_;
  std::shared_ptr<grpc::ServerCredentials> server_;

  Tls(const TlsOptions& options, absl::Status may_serve);
};

bool IsPlain(const TlsOptions& options) {
  return options.ca.empty() && options.certificate.empty() && options.key.empty();
}

absl::StatusOr<std::shared_ptr<const Tls>> Tls::Load(const TlsOptions& options) {
  const PemFile certificate = {"tls_certificate", options.certificate};
  const PemFile key = {"tls_key", options.key};
  MILLRACE_ASSIGN_OR_RETURN(const Certificates authorities,
                            ReadCertificates({"tls_ca", options.ca}));
  MILLRACE_ASSIGN_OR_RETURN(const Certificates chain, ReadCertificates(certificate));
  MILLRACE_ASSIGN_OR_RETURN(const OpenSslPtr<EVP_PKEY> private_key, ReadKey(key));
  const bool belong_together = X509_check_private_key(chain[0].get(), private_key.get()) == 1;
  ERR_clear_error();
  if (!belong_together) {
    return key.Error(
        absl::StrCat("is not the key of --tls_certificate ('", Printable(certificate.path), "')"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckDates(certificate, chain[0].get()));
  MILLRACE_RETURN_IF_ERROR(CheckChain(certificate, chain, authorities, X509_PURPOSE_SSL_CLIENT));
  return std::shared_ptr<const Tls>(
      new Tls(options, CheckChain(certificate, chain, authorities, X509_PURPOSE_SSL_SERVER)));
}

Tls::Tls(const TlsOptions& options, absl::Status may_serve)
    : options_(options), may_serve_(std::move(may_serve)) {
  namespace tls = grpc::experimental;
  const auto seconds = std::max<int64_t>(1, absl::ToInt64Seconds(options.reload_period));
  const auto files = std::make_shared<tls::FileWatcherCertificateProvider>(
      options.key, options.certificate, options.ca, static_cast<unsigned>(seconds));
  tls::TlsChannelCredentialsOptions channel;
  channel.set_certificate_provider(files);
  channel.watch_root_certs();
  channel.watch_identity_key_cert_pairs();
  channel_ = tls::TlsCredentials(channel);
  tls::TlsServerCredentialsOptions server(files);
  server.watch_root_certs();
  server.watch_identity_key_cert_pairs();
  server.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server_ = tls::TlsServerCredentials(server);
}

// Of the process. Null: connections are plain text.
class ProcessTls {
 public:
  void Set(std::shared_ptr<const Tls> tls) {
    MutexLock lock(&mutex_);
    tls_.swap(tls);
  }
  std::shared_ptr<const Tls> Get() const {
    MutexLock lock(&mutex_);
    return tls_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Tls> tls_ ABSL_GUARDED_BY(mutex_);
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
  std::shared_ptr<const Tls> tls;
  if (!IsPlain(options)) {
    MILLRACE_ASSIGN_OR_RETURN(tls, Tls::Load(options));
  }
  OfProcess().Set(std::move(tls));
  return absl::OkStatus();
}

ChannelSecurity SecurityOfChannel(const std::string& address) {
  const std::shared_ptr<const Tls> tls = OfProcess().Get();
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  const bool is_unix = parsed.ok() && parsed->kind == Address::Kind::kUnix;
  if (tls == nullptr || is_unix) return {grpc::InsecureChannelCredentials(), ""};
  return tls->OfChannel();
}

bool IsSecured(const Address& address) {
  return address.kind == Address::Kind::kTcp && OfProcess().Get() != nullptr;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> SecurityOfServer(const Address& address) {
  const std::shared_ptr<const Tls> tls = OfProcess().Get();
  if (tls == nullptr || address.kind != Address::Kind::kTcp) {
    return grpc::InsecureServerCredentials();
  }
  return tls->OfServer();
}

}  // namespace millrace
