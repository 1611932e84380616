#include "common/version.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(VersionTest, NamesTheProgramTheReleaseAndTheBuild) {
  EXPECT_THAT(VersionText("ps"),
              ::testing::MatchesRegex("ps [0-9]+\\.[0-9]+\\.[0-9]+ \\(build [0-9a-f]{16}\\)"));
}

}  // namespace
}  // namespace millrace
