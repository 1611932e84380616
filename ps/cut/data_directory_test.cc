#include "ps/cut/data_directory.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::testing::HasSubstr;

class DataDirectoryTest : public ::testing::Test {
 protected:
  void WriteFile(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(path_);
    std::ofstream(absl::StrCat(path_, "/", name)) << text;
  }

  // The message of the error that opening the directory gives.
  std::string OpenError(absl::StatusCode code) {
    const auto directory = DataDirectory::Open(path_);
    EXPECT_EQ(directory.status().code(), code) << directory.status();
    EXPECT_THAT(std::string(directory.status().message()), HasSubstr(path_));
    return std::string(directory.status().message());
  }

  const std::string path_ = TestDirectory("data");
};

TEST_F(DataDirectoryTest, KeepsItsId) {
  std::string id;
  {
    const auto directory = DataDirectory::Open(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    id = (*directory)->id();
    EXPECT_EQ(id.size(), 32);
  }
  const auto directory = DataDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ((*directory)->id(), id);
}

TEST_F(DataDirectoryTest, IsLockedWhileOpen) {
  const auto directory = DataDirectory::Open(path_);
  ASSERT_TRUE(directory.ok());
  EXPECT_THAT(OpenError(absl::StatusCode::kUnavailable), HasSubstr("in use by a running server"));
}

// Both wrote to one temporary file, and one of them went on with an id that was not the
// directory's.
TEST_F(DataDirectoryTest, OfServersThatStartAtOnceOneGetsIt) {
  for (int round = 0; round < 20; ++round) {
    std::filesystem::remove_all(path_);
    constexpr int kServers = 4;
    std::vector<absl::StatusOr<std::unique_ptr<DataDirectory>>> opened;
    for (int i = 0; i < kServers; ++i) opened.emplace_back(absl::UnknownError("not tried"));
    std::vector<std::thread> servers;
    for (int i = 0; i < kServers; ++i) {
      servers.emplace_back([this, &opened, i] { opened[i] = DataDirectory::Open(path_); });
    }
    for (std::thread& server : servers) server.join();
    std::string id;
    for (auto& each : opened) {
      if (each.ok()) {
        EXPECT_EQ(id, "") << "two have it";
        id = (*each)->id();
        EXPECT_EQ(id.size(), 32);
      } else {
        EXPECT_EQ(each.status().code(), absl::StatusCode::kUnavailable) << each.status();
      }
    }
    opened.clear();
    EXPECT_EQ((*DataDirectory::Open(path_))->id(), id);
  }
}

TEST_F(DataDirectoryTest, SomebodyElsesFilesAreLeftAlone) {
  WriteFile("thesis.tex", "");
  EXPECT_THAT(OpenError(absl::StatusCode::kFailedPrecondition), HasSubstr("thesis.tex"));
}

TEST_F(DataDirectoryTest, AnotherKindOfDirectoryIsRefused) {
  WriteFile("DIRECTORY_ID", "millrace coordinator data directory, format 1\nabc\n");
  EXPECT_THAT(OpenError(absl::StatusCode::kFailedPrecondition), HasSubstr("not a ps server's"));
}

TEST_F(DataDirectoryTest, IdFileWithoutAnIdIsRefused) {
  for (const std::string end : {"", "\n", "\n\nabc\n"}) {
    WriteFile("DIRECTORY_ID", absl::StrCat("millrace ps data directory, format 2", end));
    EXPECT_THAT(OpenError(absl::StatusCode::kFailedPrecondition), HasSubstr("not a ps server's"));
  }
}

TEST_F(DataDirectoryTest, OtherFormatsAreRefused) {
  for (const std::string format : {"1", "21"}) {
    WriteFile("DIRECTORY_ID",
              absl::StrCat("millrace ps data directory, format ", format, "\nabc\n"));
    EXPECT_THAT(OpenError(absl::StatusCode::kFailedPrecondition), HasSubstr("reads format 2"));
  }
}

TEST_F(DataDirectoryTest, IdIsThereWhollyOrNotAtAllWhereverTheMachineStops) {
  bool fired = true;
  for (uint64_t operation = 0; fired; ++operation) {
    SCOPED_TRACE(absl::StrCat("operation ", operation));
    std::filesystem::remove_all(path_);
    const auto files = std::make_shared<FaultFileSystem>();
    files->Arm(operation, Fault::kTorn);
    const bool opened = DataDirectory::Open(path_, files).ok();
    fired = files->fired();
    files->PowerOff();
    files->DropUnsynced();
    const auto directory = DataDirectory::Open(path_);
    ASSERT_TRUE(directory.ok()) << directory.status()
                                << (opened ? ", and was said to be there" : "");
    EXPECT_EQ((*directory)->id().size(), 32);
  }
}

TEST_F(DataDirectoryTest, StartThatWasCutShortIsBegunAgain) {
  WriteFile("DIRECTORY_ID.tmp-1234", "millrace ps da");
  EXPECT_TRUE(DataDirectory::Open(path_).ok());
}

TEST_F(DataDirectoryTest, EmptyPathIsRefused) {
  EXPECT_EQ(DataDirectory::Open("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DataDirectoryTest, FileInThePlaceOfTheDirectoryIsAnError) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  std::ofstream(path_) << "a file";
  EXPECT_FALSE(DataDirectory::Open(path_).ok());
}

}  // namespace
}  // namespace millrace::ps
