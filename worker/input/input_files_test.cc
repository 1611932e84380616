#include "worker/input/input_files.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::WriteTestFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FindFilesTest : public ::testing::Test {
 protected:
  FindFilesTest() {
    for (const char* name : {"b-10", "b-2", "B-3", "c[1]", "c1", "d*.gz"}) {
      WriteTestFile(directory_, name, "x");
    }
  }

  std::vector<std::string> Find(const std::vector<std::string>& names) {
    std::vector<std::string> found;
    const auto files = FindFiles(directory_, names, "data.train.cifar.files").value();
    for (const NamedFile& file : files) {
      found.push_back(file.name);
    }
    return found;
  }

  std::string ErrorOf(const std::vector<std::string>& names) {
    const absl::Status status = FindFiles(directory_, names, "data.train.cifar.files").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
};

TEST_F(FindFilesTest, PatternsAreSortedByBytes) {
  EXPECT_THAT(Find({"[bB]-*"}), ElementsAre("B-3", "b-10", "b-2"));
  EXPECT_THAT(Find({"b-?"}), ElementsAre("b-2"));
}

TEST_F(FindFilesTest, ListsKeepTheirOrder) {
  EXPECT_THAT(Find({"c1", "b-*", "not there"}), ElementsAre("c1", "b-10", "b-2", "not there"));
}

TEST_F(FindFilesTest, NameThatIsThereIsNoPattern) {
  EXPECT_THAT(Find({"c[1]"}), ElementsAre("c[1]"));
  EXPECT_THAT(Find({"d*"}), ElementsAre("d*"));
}

TEST_F(FindFilesTest, AbsolutePatternsStandAlone) {
  EXPECT_THAT(Find({absl::StrCat(directory_, "/b-1*")}), ElementsAre(directory_ + "/b-10"));
}

TEST_F(FindFilesTest, PatternCharactersInTheFolderMeanThemselves) {
  const std::string odd = directory_ + "/b-*";
  EXPECT_EQ(FindFiles(odd, {"*"}, "f").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FindFilesTest, PatternThatMatchesNothingIsNamed) {
  EXPECT_THAT(ErrorOf({"b-2", "e-*"}),
              HasSubstr(absl::StrCat("data.train.cifar.files[1]: ", directory_,
                                     "/e-*: no file is called so or matches this pattern")));
  EXPECT_THAT(ErrorOf({"nowhere/*"}), HasSubstr("data.train.cifar.files: "));
  EXPECT_THAT(ErrorOf({}), HasSubstr("data.train.cifar.files: empty"));
}

TEST(NameAllTest, NamesTheFirstAndTheLast) {
  EXPECT_EQ(NameAll({{"a", ""}}), "a");
  EXPECT_EQ(NameAll({{"a", ""}, {"b", ""}, {"c", ""}}), "a to c (3 files)");
}

}  // namespace
}  // namespace millrace::worker
