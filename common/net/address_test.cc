#include "common/net/address.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(AddressTest, HostAndPortAreTakenApart) {
  const auto address = ParseAddress("example.org:7070");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->kind, Address::Kind::kTcp);
  EXPECT_EQ(address->host, "example.org");
  EXPECT_EQ(address->port, 7070);
}

TEST(AddressTest, Ipv6AddressLosesItsBrackets) {
  const auto address = ParseAddress("[fe80::1%eth0]:0");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "fe80::1%eth0");
  EXPECT_EQ(address->port, 0);
}

TEST(AddressTest, UnixSocketsAreUnderstood) {
  for (const char* text : {"unix:/run/ps.sock", "unix:///run/ps.sock", "unix-abstract:ps"}) {
    const auto address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->kind, Address::Kind::kUnix);
  }
}

TEST(AddressTest, MalformedAddressIsRefusedWithAnExample) {
  for (const char* text :
       {"", "7070", "localhost", "localhost:", "localhost:http", "localhost:65536", "localhost:-1",
        "localhost:+1", "localhost: 1", "localhost:000001", ":7070", "::1:7070", "[]:7070", "[::1]",
        "[::1:7070", "http://localhost:7070", "unix:", "unix-abstract:"}) {
    const auto address = ParseAddress(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(address.status().ToString(), HasSubstr(text));
    EXPECT_THAT(address.status().ToString(), HasSubstr("127.0.0.1:2220"));
  }
}

TEST(AddressTest, OnlyPrintableAsciiIsAnAddress) {
  const struct {
    absl::string_view text;
    const char* printed;
  } cases[] = {{"\x1b:1", "'\\x1b:1'"},
               {"a b:1", "'a b:1'"},
               {absl::string_view("a\0b:1", 5), "'a\\x00b:1'"},
               {"h\xff:1", "'h\\xff:1'"},
               {"größe:1", "'größe:1'"},
               {"[::1\t]:1", "'[::1\\x09]:1'"},
               {"unix:/tmp/s\n", "'unix:/tmp/s\\x0a'"},
               {"unix:/tmp/a b", "'unix:/tmp/a b'"},
               {"unix-abstract:\x7f", "'unix-abstract:\\x7f'"}};
  for (const auto& [text, printed] : cases) {
    const absl::Status status = ParseAddress(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << printed;
    EXPECT_THAT(status.ToString(),
                HasSubstr(std::string("address ") + printed + ": not printable ASCII"));
    EXPECT_THAT(status.ToString(), HasSubstr("127.0.0.1:2220"));
  }
}

TEST(AddressTest, LoopbackIsDecidedByTheParsedHost) {
  for (const char* text : {"127.0.0.1:0", "127.8.9.10:0", "localhost:0", "[::1]:0",
                           "[0:0:0:0:0:0:0:1]:0", "unix:/tmp/s", "unix-abstract:s"}) {
    EXPECT_TRUE(ParseAddress(text)->IsLoopback()) << text;
  }
  for (const char* text :
       {"0.0.0.0:0", "[::]:0", "10.0.0.1:0", "128.0.0.1:0", "127.0.0.1.example.org:0",
        "localhost.example.org:0", "127.1.evil:0", "[::1:1]:0", "example.org:127"}) {
    EXPECT_FALSE(ParseAddress(text)->IsLoopback()) << text;
  }
}

TEST(AddressTest, WildcardsAreAllAddressesOfAMachine) {
  for (const char* text : {"0.0.0.0:0", "[::]:0", "[0:0::0]:5"}) {
    EXPECT_TRUE(ParseAddress(text)->IsWildcard()) << text;
  }
  for (const char* text : {"127.0.0.1:0", "[::1]:0", "localhost:0", "unix:/tmp/s"}) {
    EXPECT_FALSE(ParseAddress(text)->IsWildcard()) << text;
  }
}

TEST(AddressTest, WhatCannotBeDialledIsRefusedWithTheFlag) {
  EXPECT_TRUE(CheckDialable("--coordinator", "trainer-0:2220").ok());
  EXPECT_TRUE(CheckDialable("--coordinator", "[::1]:1").ok());
  for (const char* text : {"", "127.0.0.1", "127.0.0.1:0", "unix:/tmp/s", ":1", "::1:2220",
                           "http://127.0.0.1:1", "127.0.0.1:65536"}) {
    const absl::Status status = CheckDialable("--coordinator", text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.ToString(), HasSubstr(std::string("--coordinator: '") + text + "'; must"));
  }
}

TEST(AddressTest, WhatCannotBeDialledIsPrintedWithoutControlCharacters) {
  EXPECT_THAT(CheckDialable("--coordinator", "\x1b:1").ToString(),
              HasSubstr("--coordinator: '\\x1b:1'; must be HOST:PORT"));
}

TEST(AddressTest, JoinedAddressParsesToItsParts) {
  for (const char* host : {"127.0.0.1", "::1", "localhost"}) {
    const auto address = ParseAddress(JoinHostPort(host, 7070));
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->host, host);
    EXPECT_EQ(address->port, 7070);
  }
}

}  // namespace
}  // namespace millrace
