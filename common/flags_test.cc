#include "common/flags.h"

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

}  // namespace
}  // namespace millrace
