#include "client/output_path.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::HasSubstr;
using ::testing::TempDir;

TEST(CheckCanCreateTest, TellsWhatStandsInTheWay) {
  EXPECT_TRUE(CheckCanCreate(TempDir() + "/new_file").ok());
  EXPECT_TRUE(CheckCanCreate("in_this_directory").ok());
  EXPECT_THAT(CheckCanCreate(TempDir()).ToString(), HasSubstr("is a directory"));
  // Root could replace a device by an export.
  EXPECT_THAT(CheckCanCreate("/dev/null").ToString(), HasSubstr("no ordinary file"));
  const absl::Status missing = CheckCanCreate(TempDir() + "/missing/file");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.ToString(), HasSubstr("/missing"));
}

}  // namespace
}  // namespace millrace::client
