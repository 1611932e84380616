#include "common/flags.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millrace {
namespace {

absl::Status Check(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "binary");
  return CheckNoEmptyFlag(static_cast<int>(arguments.size()), arguments.data());
}

TEST(EmptyFlagTest, IsNamed) {
  EXPECT_EQ(Check({"train", "--data=", "--json"}),
            absl::InvalidArgumentError("--data: no value after '='; give one, or leave the flag "
                                       "out"));
}

TEST(EmptyFlagTest, OtherArgumentsAreLeftAlone) {
  EXPECT_TRUE(Check({}).ok());
  EXPECT_TRUE(Check({"train", "--data=x", "--json", "--set", "name=", "--set=name=", "="}).ok());
  EXPECT_TRUE(Check({"--", "--data="}).ok());
}

std::string ErrorOf(const char* flag, const DurationRange& range) {
  CLI::App app;
  absl::Duration value = absl::Seconds(7);
  AddDurationFlag(app, "--wait", &value, range, "");
  const char* const arguments[] = {"binary", flag};
  try {
    app.parse(2, arguments);
  } catch (const CLI::ParseError& error) {
    EXPECT_EQ(value, absl::Seconds(7));
    return error.what();
  }
  return "";
}

TEST(DurationFlagTest, AllowsItsRange) {
  const DurationRange range = {absl::Seconds(1), absl::Minutes(2)};
  EXPECT_EQ(ErrorOf("--wait=1s", range), "");
  EXPECT_EQ(ErrorOf("--wait=2m", range), "");
  EXPECT_EQ(ErrorOf("--wait=999ms", range), "--wait: 999ms; must be a duration from 1s to 2m");
  for (const char* wrong : {"--wait=121s", "--wait=inf", "--wait=-5s"}) {
    EXPECT_NE(ErrorOf(wrong, range), "") << wrong;
  }
}

TEST(DurationFlagTest, NeedsAUnit) {
  for (const std::string wrong : {"soon", "5"}) {
    EXPECT_EQ(
        ErrorOf(("--wait=" + wrong).c_str(), {}),
        "--wait: " + wrong + "; must be a duration with its unit, such as 90s, 500ms or 1h30m");
  }
}

TEST(DurationFlagTest, MayHaveNoUpperEnd) {
  EXPECT_EQ(ErrorOf("--wait=inf", {absl::Seconds(1)}), "");
  EXPECT_EQ(ErrorOf("--wait=0", {absl::Seconds(1)}),
            "--wait: 0; must be a duration of at least 1s");
}

// What a flag that may be at most 4 GiB makes of `text`; or the error.
std::string BytesOf(const std::string& text) {
  CLI::App app;
  uint64_t value = 7;
  AddBytesFlag(app, "--memory", &value, uint64_t{4} << 30, "");
  const std::string flag = "--memory=" + text;
  const char* const arguments[] = {"binary", flag.c_str()};
  try {
    app.parse(2, arguments);
  } catch (const CLI::ParseError& error) {
    EXPECT_EQ(value, 7u);
    return error.what();
  }
  return std::to_string(value);
}

TEST(BytesFlagTest, TakesUnits) {
  EXPECT_EQ(BytesOf("0"), "0");
  EXPECT_EQ(BytesOf("1000"), "1000");
  EXPECT_EQ(BytesOf("12B"), "12");
  EXPECT_EQ(BytesOf("3KiB"), "3072");
  EXPECT_EQ(BytesOf("1.5MiB"), "1572864");
  EXPECT_EQ(BytesOf("4GiB"), "4294967296");
}

TEST(BytesFlagTest, RefusesWhatIsNoNumberOfBytesAndWhatIsTooMuch) {
  EXPECT_EQ(BytesOf("5GiB"),
            "--memory: 5GiB; must be a number of bytes such as 512MiB, at most 4GiB");
  for (const char* wrong :
       {"4294967297", "1TiB", "-1", "-1B", "much", "GiB", "3GB", "nan", "inf", "0.5"}) {
    EXPECT_NE(BytesOf(wrong).find("must be a number of bytes"), std::string::npos) << wrong;
  }
}

TEST(BytesFlagTest, HelpTellsTheDefault) {
  CLI::App app;
  uint64_t value = uint64_t{5} << 29;
  AddBytesFlag(app, "--memory", &value, uint64_t{4} << 30, "How much");
  EXPECT_NE(app.help().find("--memory BYTES=2.5GiB"), std::string::npos) << app.help();
}

}  // namespace
}  // namespace millrace
