// What becomes of a submission while no worker is there to plan it; with workers, and directories
// that others hold, see coordinator/*_test.cc.
#include "coordinator/jobs/submissions.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "common/checkpoint/checkpoint_paths.h"
#include "coordinator/jobs/job_table_fixture.h"
#include "coordinator/testing/fake_cluster.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

bool Stays() { return false; }

class SubmissionsTest : public JobTableFixture {
 protected:
  ~SubmissionsTest() override { table_.Stop(); }

  static SubmitJobRequest Request(const std::string& id, uint64_t steps = 2) {
    SubmitJobRequest request;
    request.set_request_id(id);
    *request.mutable_spec() = PlainJob(steps);
    return request;
  }

  SubmitJobRequest WithDirectory() const {
    SubmitJobRequest request = Request("");
    request.mutable_spec()->mutable_checkpoints()->set_directory(directory_);
    return request;
  }

  Submissions submissions_{environment_, journal_.get(), &table_};
  const std::string directory_ = NormalDirectory(TestDirectory("checkpoints"));
};

TEST_F(SubmissionsTest, RepeatedRequestMakesNoSecondJob) {
  const auto first = submissions_.Submit(Request("once"), Stays);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(submissions_.Submit(Request("once"), Stays).value(), *first);
  EXPECT_THAT(table_.Jobs(), SizeIs(1));
  EXPECT_NE(submissions_.Submit(Request("another"), Stays).value(), *first);
  EXPECT_NE(submissions_.Submit(Request(""), Stays).value(),
            submissions_.Submit(Request(""), Stays).value());
}

TEST_F(SubmissionsTest, RepeatedRequestWaitsForTheFirstOne) {
  std::thread repeats;
  std::string repeated;
  const auto first = submissions_.Submit(Request("once"), [&] {
    if (!repeats.joinable()) {
      repeats =
          std::thread([&] { repeated = submissions_.Submit(Request("once"), Stays).value(); });
    }
    return false;
  });
  ASSERT_TRUE(repeats.joinable());
  repeats.join();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(repeated, *first);
  EXPECT_THAT(table_.Jobs(), SizeIs(1));
}

TEST_F(SubmissionsTest, RequestsIdIsThatOfOneSpec) {
  const std::string job = submissions_.Submit(Request("once"), Stays).value();
  const absl::Status other = submissions_.Submit(Request("once", /*steps=*/3), Stays).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("request_id: 'once' was given with job '" + job + "'"));
}

TEST_F(SubmissionsTest, WhatIsWrongIsRefusedByTheFieldsPath) {
  const absl::Status longest = submissions_.Submit(Request(std::string(201, 'r')), Stays).status();
  EXPECT_EQ(longest.message(), "request_id: 201 bytes; must be at most 200");
  const absl::Status steps = submissions_.Submit(Request("", /*steps=*/0), Stays).status();
  EXPECT_EQ(steps.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(table_.Jobs(), IsEmpty());
}

TEST_F(SubmissionsTest, DirectoryOfAJobThatHasNotEndedIsRefused) {
  const std::string job = submissions_.Submit(WithDirectory(), Stays).value();
  SubmitJobRequest next = WithDirectory();
  next.mutable_spec()->mutable_checkpoints()->set_directory(directory_ + "/");
  const absl::Status refused = submissions_.Submit(next, Stays).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("'" + directory_ + "' is that of job '" + job + "'"));
}

TEST_F(SubmissionsTest, DirectoryOfASubmissionIsRefusedUntilThatIsOver) {
  absl::Status meanwhile;
  const auto given_up = submissions_.Submit(WithDirectory(), [&] {
    if (meanwhile.ok()) meanwhile = submissions_.Submit(WithDirectory(), Stays).status();
    return true;
  });
  EXPECT_EQ(given_up.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(meanwhile.message()), HasSubstr("a job that is being submitted"));
  EXPECT_THAT(table_.Jobs(), IsEmpty());
}

TEST_F(SubmissionsTest, FolderOfACheckpointIsNoDirectoryForAnothersCheckpoints) {
  std::filesystem::create_directories(directory_);
  std::ofstream(JoinPath(directory_, kOwnerFile)) << "mnist-1-k3f9\n";
  SubmitJobRequest request = WithDirectory();
  request.mutable_spec()->mutable_checkpoints()->set_directory(CheckpointPath(directory_, 17));
  const absl::Status refused = submissions_.Submit(request, Stays).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("is the folder of one checkpoint in '" + directory_ + "'"));
  EXPECT_THAT(table_.Jobs(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(CheckpointPath(directory_, 17)));
}

TEST_F(SubmissionsTest, NothingIsTakenWhenTheTableStops) {
  table_.Stop();
  EXPECT_EQ(submissions_.Submit(Request(""), Stays).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace millrace::coordinator
