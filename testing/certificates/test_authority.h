// Certificates for tests and benchmarks of TLS.
#ifndef MILLRACE_TESTING_CERTIFICATES_TEST_AUTHORITY_H_
#define MILLRACE_TESTING_CERTIFICATES_TEST_AUTHORITY_H_

#include <openssl/types.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/net/tls.h"

namespace millrace {

struct TestCertificate {
  std::string file = "member";  // Of the files, without what they end with.
  // As OpenSSL writes them: "DNS:ps-0,IP:10.0.0.1".
  std::string hosts = "DNS:localhost,IP:127.0.0.1";
  std::string uses = "serverAuth,clientAuth";
  absl::Time begin = absl::Now() - absl::Hours(1);
  absl::Time end = absl::Now() + absl::Hours(24 * 90);
};

// Aborts where something fails.
class TestAuthority {
 public:
  // Writes DIRECTORY/ca.pem. The directory is there, and has no other authority's files. `end`:
  // when its own certificate expires.
  explicit TestAuthority(std::string directory,
                         absl::Time end = absl::Now() + absl::Hours(24 * 365));

  // Writes DIRECTORY/FILE.pem and FILE.key, in place of those that are there.
  TlsOptions Issue(const TestCertificate& certificate = {}) const;

 private:
  const std::string directory_;
  const std::shared_ptr<EVP_PKEY> key_;
  const std::shared_ptr<X509> certificate_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTING_CERTIFICATES_TEST_AUTHORITY_H_
