#include "common/net/tls.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "common/net/server.h"
#include "common/warning_count.h"
#include "gmock/gmock.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "testing/certificates/test_authority.h"
#include "testing/directory/test_directory.h"
#include "testing/spin/spin_until.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTlsPatience = absl::Seconds(30);

class TlsTest : public ::testing::Test {
 protected:
  ~TlsTest() override { EXPECT_EQ(SecureConnections({}), absl::OkStatus()); }

  static void Secure(const TlsOptions& options) {
    const absl::Status status = SecureConnections(options);
    EXPECT_TRUE(status.ok()) << status;
  }
  static std::unique_ptr<RpcServer> Serve(const std::string& listen = "127.0.0.1:0") {
    auto server = RpcServer::Start({.listen = listen}, {});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  // Of a call on the channel. OK: the server was reached; it knows no calls.
  static absl::Status Reach(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.set_deadline(SystemDeadline(kTlsPatience));
    ShardStatus answer;
    const absl::Status status = FromGrpcStatus(
        ParameterServerAdmin::NewStub(channel)->GetShard(&context, GetShardRequest(), &answer));
    return absl::IsUnimplemented(status) ? absl::OkStatus() : status;
  }
  // On a connection of its own.
  static absl::Status Reach(const RpcServer& server) {
    return Reach(CreateChannel(server.address(), /*bulk=*/true));
  }
  static std::string Text(const std::string& path) {
    std::ifstream stream(path);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  static std::string WhyNot(const RpcServer& server) {
    const absl::Status status = Reach(server);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    return std::string(status.message());
  }

  const std::string directory_ = EmptyTestDirectory("certificates");
  const TestAuthority authority_{directory_};
  const TlsOptions member_ = authority_.Issue();
};

TEST_F(TlsTest, MembersOfOneAuthorityReachEachOther) {
  Secure(member_);
  const auto server = Serve();
  EXPECT_EQ(Reach(*server), absl::OkStatus());
  EXPECT_EQ(Reach(CreateChannel(server->address())), absl::OkStatus());
  Secure(authority_.Issue({.file = "client", .uses = "clientAuth"}));
  EXPECT_EQ(Reach(*server), absl::OkStatus());
}

TEST_F(TlsTest, PlainTextReachesNoSecuredServerAndNoPlainOneIsReachedSecured) {
  const auto plain = Serve();
  Secure(member_);
  const auto secured = Serve();
  EXPECT_THAT(WhyNot(*plain), HasSubstr("the server speaks plain text"));
  Secure({});
  EXPECT_THAT(WhyNot(*secured), HasSubstr("it speaks TLS and this process does not"));
  EXPECT_EQ(Reach(*plain), absl::OkStatus());
}

TEST_F(TlsTest, OtherAuthoritiesCertificatesAreRefusedByBothEnds) {
  const std::string elsewhere = EmptyTestDirectory("elsewhere");
  const TestAuthority other(elsewhere);
  TlsOptions stranger = other.Issue();
  Secure(member_);
  const auto server = Serve();
  Secure(stranger);
  EXPECT_THAT(WhyNot(*server), HasSubstr("certificate is not from an authority of --tls_ca"));
  // One that takes the server for a member of its own cluster.
  std::ofstream(stranger.ca, std::ios::app) << std::ifstream(member_.ca).rdbuf();
  Secure(stranger);
  EXPECT_THAT(WhyNot(*server), HasSubstr("it does not take this process's certificate"));
}

TEST_F(TlsTest, ClientWithoutACertificateIsRefused) {
  namespace tls = grpc::experimental;
  Secure(member_);
  const auto server = Serve();
  const auto connect = [&](const std::string& key, const std::string& certificate) {
    tls::TlsChannelCredentialsOptions options;
    options.set_certificate_provider(std::make_shared<tls::FileWatcherCertificateProvider>(
        key, certificate, member_.ca, /*refresh_interval_sec=*/60));
    options.watch_root_certs();
    if (!key.empty()) options.watch_identity_key_cert_pairs();
    return Reach(grpc::CreateChannel(server->address(), tls::TlsCredentials(options)));
  };
  EXPECT_TRUE(absl::IsUnavailable(connect("", "")));
  EXPECT_EQ(connect(member_.key, member_.certificate), absl::OkStatus());
}

TEST_F(TlsTest, ServerMustHaveTheNameThatIsDialledOrTheOneThatIsGiven) {
  TlsOptions elsewhere = authority_.Issue({.hosts = "DNS:trainer,IP:192.0.2.1"});
  Secure(elsewhere);
  const auto server = Serve();
  EXPECT_THAT(WhyNot(*server), HasSubstr("is not for the name or address by which it is dialled"));
  elsewhere.server_name = "trainer";
  Secure(elsewhere);
  EXPECT_EQ(Reach(*server), absl::OkStatus());
  elsewhere.server_name = "trainer-0";
  Secure(elsewhere);
  EXPECT_FALSE(Reach(*server).ok());
}

// Certificates are renewed while training goes on.
TEST_F(TlsTest, NewFilesAreTakenUpByAServerAndByChannels) {
  TlsOptions options = authority_.Issue({.hosts = "DNS:before"});
  options.reload_period = absl::Seconds(1);
  options.server_name = "after";
  Secure(options);
  const auto server = Serve();
  EXPECT_FALSE(Reach(*server).ok());
  authority_.Issue({.hosts = "DNS:after"});
  SpinUntil("the new certificate", [&] { return Reach(*server).ok(); });
}

// gRPC would end the process, of an empty file, or make no new connections.
TEST_F(TlsTest, FilesThatAreNoGoodCountForNothingUntilTheyAreMended) {
  TlsOptions options = authority_.Issue({.hosts = "DNS:before"});
  options.reload_period = absl::Seconds(1);
  options.server_name = "before";
  Secure(options);
  const auto server = Serve();
  {
    const WarningCount told("member.key' has no private key in it");
    std::ofstream(options.key) << "";
    SpinUntil("a word on the key", [&] { return told.count() > 0; });
    EXPECT_EQ(Reach(*server), absl::OkStatus());
  }
  const WarningCount told("member.key' is not the key of --tls_certificate");
  std::ofstream(options.key) << Text(authority_.Issue({.file = "other"}).key);
  SpinUntil("a word on the key", [&] { return told.count() > 0; });
  EXPECT_EQ(Reach(*server), absl::OkStatus());
  authority_.Issue({.hosts = "DNS:after"});
  options.server_name = "after";
  Secure(options);
  SpinUntil("the new certificate", [&] { return Reach(*server).ok(); });
}

TEST_F(TlsTest, SecuredServerMayListenForOtherMachines) {
  EXPECT_TRUE(absl::IsInvalidArgument(RpcServer::Start({.listen = "0.0.0.0:0"}, {}).status()));
  Secure(member_);
  EXPECT_EQ(RpcServer::Start({.listen = "0.0.0.0:0"}, {}).status(), absl::OkStatus());
}

TEST_F(TlsTest, UnixSocketsStayAsTheyAre) {
  const auto plain = Serve("unix-abstract:millrace-tls-test-plain");
  Secure(member_);
  const auto secured = Serve("unix-abstract:millrace-tls-test");
  EXPECT_EQ(Reach(*plain), absl::OkStatus());
  EXPECT_EQ(Reach(*secured), absl::OkStatus());
}

TEST_F(TlsTest, CertificateOfClientsAloneIsNotShownByServers) {
  Secure(authority_.Issue({.uses = "clientAuth"}));
  const absl::Status status = RpcServer::Start({}, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.ToString(), HasSubstr("member.pem' may not be shown by a server"));
}

TEST_F(TlsTest, FlagsGoTogether) {
  const auto missing = [](const TlsOptions& options) {
    const absl::Status status = CheckTlsOptions(options);
    EXPECT_EQ(SecureConnections(options), status);
    return std::string(status.message());
  };
  EXPECT_EQ(missing({}), "");
  EXPECT_THAT(missing({.ca = "a", .certificate = "b"}), HasSubstr("--tls_key: missing"));
  EXPECT_THAT(missing({.ca = "a", .key = "b"}), HasSubstr("--tls_certificate: missing"));
  EXPECT_THAT(missing({.certificate = "a", .key = "b"}), HasSubstr("--tls_ca: missing"));
  EXPECT_THAT(missing({.server_name = "x"}), HasSubstr("--tls_server_name: 'x'"));
}

// What files hold that are no good, and what is said of them.
class TlsFilesTest : public TlsTest {
 protected:
  static std::string Error(const TlsOptions& options) {
    const absl::Status status = SecureConnections(options);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  std::string File(const std::string& name, const std::string& text) const {
    const std::string path = absl::StrCat(directory_, "/", name);
    std::ofstream(path) << text;
    return path;
  }
};

TEST_F(TlsFilesTest, MustBeThere) {
  TlsOptions options = member_;
  options.ca = directory_ + "/none";
  EXPECT_EQ(Error(options), absl::StrCat("--tls_ca: '", directory_,
                                         "/none' cannot be read: No such file or directory"));
  options = member_;
  options.key = directory_;
  EXPECT_THAT(Error(options), HasSubstr("--tls_key: '" + directory_ + "' is no file"));
}

TEST_F(TlsFilesTest, MustHoldWhatTheyAreFor) {
  TlsOptions options = member_;
  options.ca = File("empty", "");
  EXPECT_THAT(Error(options), HasSubstr("--tls_ca: '" + options.ca + "' has no certificate"));
  options = member_;
  options.certificate = member_.key;
  EXPECT_THAT(Error(options), HasSubstr("--tls_certificate: '" + member_.key + "' has no cert"));
  options = member_;
  options.key = member_.certificate;
  EXPECT_THAT(Error(options), HasSubstr("has no private key in it"));
  options.key = File("secret",
                     "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIH=\n"
                     "-----END ENCRYPTED PRIVATE KEY-----\n");
  EXPECT_THAT(Error(options), HasSubstr("has a passphrase"));
}

TEST_F(TlsFilesTest, DamageAfterACertificateIsFound) {
  std::ofstream(member_.certificate, std::ios::app)
      << "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
  EXPECT_THAT(Error(member_), HasSubstr("is damaged after certificate 1"));
}

TEST_F(TlsFilesTest, KeyMustBeTheCertificates) {
  TlsOptions options = member_;
  options.key = authority_.Issue({.file = "other"}).key;
  EXPECT_THAT(Error(options), HasSubstr("other.key' is not the key of --tls_certificate"));
}

TEST_F(TlsFilesTest, CertificateMustBeOfAnAuthorityAndForClients) {
  TlsOptions options = member_;
  options.ca = TestAuthority(EmptyTestDirectory("elsewhere")).Issue().ca;
  EXPECT_THAT(Error(options), HasSubstr("member.pem' is not from an authority of --tls_ca"));
  EXPECT_THAT(Error(authority_.Issue({.file = "server", .uses = "serverAuth"})),
              HasSubstr("server.pem' may not be shown by a client"));
}

TEST_F(TlsFilesTest, CertificateMustBeValidNow) {
  const absl::Time now = absl::Now();
  EXPECT_THAT(Error(authority_.Issue({.end = now - absl::Minutes(1)})), HasSubstr("it expired on"));
  EXPECT_THAT(Error(authority_.Issue({.begin = now + absl::Hours(1)})),
              HasSubstr("is not valid before"));
}

TEST_F(TlsFilesTest, WhatExpiresSoonIsWarnedOf) {
  const absl::Time soon = absl::Now() + absl::Hours(24);
  const WarningCount of_certificate("short.pem' expires on ");
  const WarningCount of_authority("/ca.pem': the authority of ");
  EXPECT_EQ(SecureConnections(member_), absl::OkStatus());
  EXPECT_EQ(of_certificate.count() + of_authority.count(), 0);
  EXPECT_EQ(SecureConnections(authority_.Issue({.file = "short", .end = soon})), absl::OkStatus());
  EXPECT_EQ(of_certificate.count(), 1);
  EXPECT_EQ(of_authority.count(), 0);
  const TestAuthority old(EmptyTestDirectory("old"), /*end=*/soon);
  EXPECT_EQ(SecureConnections(old.Issue()), absl::OkStatus());
  EXPECT_EQ(of_certificate.count(), 1);
  EXPECT_EQ(of_authority.count(), 1);
}

TEST_F(TlsFilesTest, WhatIsRefusedChangesNothing) {
  const auto plain = Serve();
  TlsOptions options = member_;
  options.key = authority_.Issue({.file = "other"}).key;
  EXPECT_FALSE(SecureConnections(options).ok());
  EXPECT_EQ(Reach(*plain), absl::OkStatus());
}

}  // namespace
}  // namespace millrace
