#include "testing/certificates/test_authority.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace {
namespace {

using Key = std::shared_ptr<EVP_PKEY>;
using Certificate = std::shared_ptr<X509>;

Key NewKey() { return Key(CHECK_NOTNULL(EVP_EC_gen("P-256")), EVP_PKEY_free); }

int64_t NewSerial() {
  uint32_t serial = 0;
  CHECK_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)), 1);
  return int64_t{1} + serial;
}

Certificate NewCertificate(const std::string& name, absl::Time begin, absl::Time end,
                           const Key& key) {
  Certificate certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), NewSerial());
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(begin));
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(end));
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

void Extend(const Certificate& certificate, int extension, const std::string& value) {
  X509_EXTENSION* const made = X509V3_EXT_conf_nid(nullptr, nullptr, extension, value.c_str());
  CHECK(made != nullptr) << value;
  X509_add_ext(certificate.get(), made, -1);
  X509_EXTENSION_free(made);
}

void Write(const std::string& path, const std::function<int(std::FILE*)>& write) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  CHECK(file != nullptr) << path;
  CHECK_EQ(write(file), 1) << path;
  CHECK_EQ(std::fclose(file), 0) << path;
}

void WriteCertificate(const std::string& path, const Certificate& certificate) {
  Write(path, [&](std::FILE* file) { return PEM_write_X509(file, certificate.get()); });
}

Certificate NewAuthority(const Key& key, absl::Time end) {
  const absl::Time now = absl::Now();
  const Certificate certificate =
      NewCertificate(absl::StrCat("Authority ", NewSerial()), now - absl::Hours(24), end, key);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  Extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
  Extend(certificate, NID_key_usage, "critical,keyCertSign");
  CHECK_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  return certificate;
}

}  // namespace

TestAuthority::TestAuthority(std::string directory, absl::Time end)
    : directory_(std::move(directory)), key_(NewKey()), certificate_(NewAuthority(key_, end)) {
  WriteCertificate(directory_ + "/ca.pem", certificate_);
}

TlsOptions TestAuthority::Issue(const TestCertificate& wanted) const {
  const Key key = NewKey();
  const Certificate certificate = NewCertificate(wanted.file, wanted.begin, wanted.end, key);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
  Extend(certificate, NID_subject_alt_name, wanted.hosts);
  Extend(certificate, NID_ext_key_usage, wanted.uses);
  CHECK_GT(X509_sign(certificate.get(), key_.get(), EVP_sha256()), 0);
  TlsOptions options;
  options.ca = directory_ + "/ca.pem";
  options.certificate = absl::StrCat(directory_, "/", wanted.file, ".pem");
  options.key = absl::StrCat(directory_, "/", wanted.file, ".key");
  WriteCertificate(options.certificate, certificate);
  Write(options.key, [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return options;
}

}  // namespace millrace
