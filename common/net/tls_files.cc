#include "common/net/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

// Larger files are something else.
constexpr int kMaxPemBytes = 4 << 20;
// OpenSSL's, as Debian sets it for handshakes.
constexpr int kSecurityLevel = 2;

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
  std::string pem(kMaxPemBytes, '\0');
  stream.read(pem.data(), kMaxPemBytes);  // Which throws nothing.
  if (stream.bad()) return file.Error(WhyNotRead());
  pem.resize(static_cast<size_t>(stream.gcount()));
  return pem;
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

std::string TextIn(BIO* writer) {
  char* text = nullptr;
  const auto length = BIO_get_mem_data(writer, &text);
  return std::string(text, static_cast<size_t>(length));
}

// Such as "Dec  1 02:40:00 2026 GMT".
std::string TextOf(const ASN1_TIME* time) {
  const OpenSslPtr<BIO> writer(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(writer.get(), time);
  return TextIn(writer.get());
}

absl::Time EndOf(const X509* certificate) {
  int days = 0;
  int seconds = 0;
  ASN1_TIME_diff(&days, &seconds, /*from=*/nullptr, X509_get0_notAfter(certificate));
  return absl::Now() + days * absl::Hours(24) + absl::Seconds(seconds);
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
  return absl::OkStatus();
}

// Of a certificate that was found to be good.
absl::Time EndOfAuthorities(const X509_STORE_CTX* context) {
  const auto* const chain = X509_STORE_CTX_get0_chain(context);
  absl::Time end = absl::InfiniteFuture();
  for (int i = 1; i < sk_X509_num(chain); ++i) end = std::min(end, EndOf(sk_X509_value(chain, i)));
  return end;
}

// As gRPC will look at it at the other end, whose authorities are taken to be ours. Returns when
// the first of those expires that it is from.
absl::StatusOr<absl::Time> CheckChain(const PemFile& file, const Certificates& chain,
                                      const Certificates& authorities, int purpose) {
  const OpenSslPtr<X509_STORE> store(X509_STORE_new());
  for (const auto& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  STACK_OF(X509)* const between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  const OpenSslPtr<X509_STORE_CTX> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(), between);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  // As in the handshake: keys of 112 bits of security, and no SHA-1.
  X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(context.get()), kSecurityLevel);
  const bool is_good = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  sk_X509_free(between);
  ERR_clear_error();
  if (is_good) return EndOfAuthorities(context.get());
  if (error == X509_V_ERR_INVALID_PURPOSE) {
    const char* const role = purpose == X509_PURPOSE_SSL_SERVER ? "server" : "client";
    return file.Error(absl::StrCat("may not be shown by a ", role, ": its key usage or extended ",
                                   "key usage (", role,
                                   "Auth), or an authority's, is another one"));
  }
  return file.Error(
      absl::StrCat("is not from an authority of --tls_ca: ", X509_verify_cert_error_string(error)));
}

// What was read, and nothing else that files may have.
std::string Written(const Certificates& certificates, EVP_PKEY* key) {
  const OpenSslPtr<BIO> writer(BIO_new(BIO_s_mem()));
  for (const auto& certificate : certificates) PEM_write_bio_X509(writer.get(), certificate.get());
  if (key != nullptr) {
    PEM_write_bio_PrivateKey(writer.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  }
  return TextIn(writer.get());
}

}  // namespace

absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsOptions& options) {
  // Threads of gRPC use OpenSSL while the process exits.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
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
  TlsFiles files;
  MILLRACE_ASSIGN_OR_RETURN(files.authority_end,
                            CheckChain(certificate, chain, authorities, X509_PURPOSE_SSL_CLIENT));
  files.authorities = Written(authorities, /*key=*/nullptr);
  files.identity = Written(chain, private_key.get());
  files.may_serve = CheckChain(certificate, chain, authorities, X509_PURPOSE_SSL_SERVER).status();
  files.end = EndOf(chain[0].get());
  return files;
}

}  // namespace millrace
