#include "client/commands/load_job.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/exit_code.h"
#include "client/testing/small_checkpoint.h"
#include "client/testing/small_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::testing::NoDirectory;
using ::millrace::testing::SmallCheckpoint;
using ::millrace::testing::SmallJob;
using ::millrace::testing::WriteFile;
using ::millrace::testing::WriteSmallCheckpoint;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::TempDir;

absl::StatusOr<JobSpec> Load(const Flags& flags) {
  const Interrupt interrupt;
  return LoadJob(flags, {&interrupt, [](const std::string& message) { ADD_FAILURE() << message; }});
}

// The error of loading the job of these flags.
absl::Status LoadError(const Flags& flags) { return Load(flags).status(); }

Flags FlagsOf(const std::string& job_file) {
  Flags flags;
  flags.job_file = job_file;
  return flags;
}

TEST(LoadJobTest, AppliesAssignmentsInOrderAndTheData) {
  Flags flags = FlagsOf(WriteFile("job.textproto", SmallJob()));
  flags.set = {"epochs=5", "batch_size=4", "epochs=6"};
  flags.data = "some/../folder";
  const auto spec = Load(flags);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->epochs(), 6u);
  EXPECT_EQ(spec->batch_size(), 4u);
  EXPECT_EQ(spec->data().directory(), (std::filesystem::current_path() / "folder").string());
}

TEST(LoadJobTest, FilesOfKerasAreToldFromJobsAndFromWeights) {
  for (const char* name : {"trained.keras3.keras", "trained.keras2.h5"}) {
    const std::string path = absl::StrCat("testing/reference/keras/", name);
    EXPECT_THAT(LoadError(FlagsOf(path)).ToString(),
                HasSubstr(absl::StrCat(path,
                                       ": a file of Keras's; must be a job file. This makes "
                                       "one of it: millrace convert ",
                                       path, " --weights=FILE.safetensors > JOB.textproto")));
    Flags flags = FlagsOf(WriteFile("job.textproto", SmallJob()));
    flags.init_from = path;
    EXPECT_THAT(LoadError(flags).ToString(),
                AllOf(HasSubstr("--init_from (warm_start.path): "),
                      HasSubstr("must be a checkpoint or a safetensors file. This writes its "
                                "weights as one: millrace convert ")));
  }
  // Arrays of NumPy's are archives too.
  Flags flags = FlagsOf(WriteFile("job.textproto", SmallJob()));
  flags.init_from = WriteFile("arrays.npz", "PK\3\4");
  EXPECT_TRUE(Load(flags).ok());
}

TEST(LoadJobTest, CheckpointsAndRestoreAreMadeAbsolute) {
  Flags flags = FlagsOf(WriteFile("job.textproto", SmallJob()));
  flags.checkpoints = "kept/";
  flags.restore = "other/000017";
  const auto spec = Load(flags);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(spec->checkpoints().directory(), here + "/kept");
  EXPECT_EQ(spec->restore().directory(), here + "/other");
  EXPECT_EQ(spec->restore().checkpoint(), 17u);
}

// A newer checkpoint may come before the job is submitted.
TEST(LoadJobTest, JobOfTheNewestCheckpointGoesOnFromThatOne) {
  const std::string directory = NoDirectory("restored");
  SmallCheckpoint checkpoint;
  checkpoint.spec.set_name("the-first");
  WriteSmallCheckpoint(directory, checkpoint);
  checkpoint.spec.set_name("the-second");
  WriteSmallCheckpoint(directory, checkpoint);
  Flags flags;
  flags.restore = directory;
  const auto spec = Load(flags);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name(), "the-second");
  EXPECT_THAT(spec->checkpoints().directory(), EndsWith("/restored"));
  EXPECT_THAT(spec->restore().directory(), EndsWith("/restored"));
  EXPECT_EQ(spec->restore().checkpoint(), 2u);
}

// Once it was taken for checkpoint 20260101 of the directory above.
TEST(LoadJobTest, ADirectoryOfCheckpointsMayBeCalledAsACheckpoint) {
  const std::string above = NoDirectory("called_as_a_checkpoint_too");
  std::filesystem::create_directory(above);
  const std::string directory = above + "/20260101";
  SmallCheckpoint checkpoint;
  WriteSmallCheckpoint(directory, checkpoint);
  Flags flags = FlagsOf(WriteFile("job.textproto", SmallJob()));
  flags.restore = directory;
  const auto restored = Load(flags);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT(restored->restore().directory(), EndsWith("_too/20260101"));
  EXPECT_EQ(restored->restore().checkpoint(), 0u);
  flags.restore.clear();
  flags.init_from = directory;
  const auto begun = Load(flags);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_THAT(begun->warm_start().path(), EndsWith("_too/20260101"));
  EXPECT_EQ(begun->warm_start().checkpoint(), 0u);
}

TEST(LoadJobTest, WarmStartsAreSetByFlags) {
  Flags flags = FlagsOf(WriteFile("job.textproto", SmallJob()));
  flags.init_from = "/models/base.safetensors";
  flags.init_rule = {"a/(.*)=b/\\1", "c="};
  flags.init_allow_missing = true;
  const auto spec = Load(flags);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const WarmStartSpec& warm_start = spec->warm_start();
  EXPECT_EQ(warm_start.path(), "/models/base.safetensors");
  ASSERT_EQ(warm_start.rules_size(), 2);
  EXPECT_EQ(warm_start.rules(0).pattern(), "a/(.*)");
  EXPECT_EQ(warm_start.rules(0).replacement(), "b/\\1");
  EXPECT_EQ(warm_start.rules(1).replacement(), "");
  EXPECT_TRUE(warm_start.allow_missing());
  EXPECT_FALSE(warm_start.allow_unused());
  flags.init_rule = {"no_name"};
  EXPECT_EQ(ExitCodeOf(LoadError(flags)), ExitCode::kUsage);
}

TEST(LoadJobTest, DataOfTheFileStays) {
  const auto spec = Load(FlagsOf(WriteFile("with_data.textproto", "data { directory: 'here' }")));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->data().directory(), "here");
}

TEST(LoadJobTest, JobMayComeThroughAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string job = SmallJob();
  ASSERT_EQ(write(ends[1], job.data(), job.size()), static_cast<ssize_t>(job.size()));
  close(ends[1]);
  const auto spec = Load(FlagsOf(absl::StrCat("/dev/fd/", ends[0])));
  close(ends[0]);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->epochs(), 3u);
}

TEST(LoadJobTest, FilesThatCannotBeReadAreWrongUsage) {
  const absl::Status missing = LoadError(FlagsOf(TempDir() + "/none.textproto"));
  EXPECT_EQ(ExitCodeOf(missing), ExitCode::kUsage);
  EXPECT_THAT(missing.ToString(), HasSubstr("none.textproto: No such file"));
  const absl::Status endless = LoadError(FlagsOf("/dev/zero"));
  EXPECT_EQ(ExitCodeOf(endless), ExitCode::kUsage);
  EXPECT_THAT(endless.ToString(), HasSubstr("/dev/zero: it has more than 2097152 bytes"));
  const absl::Status directory = LoadError(FlagsOf(TempDir()));
  EXPECT_EQ(ExitCodeOf(directory), ExitCode::kUsage);
  EXPECT_THAT(directory.ToString(), HasSubstr("is a directory"));
}

TEST(LoadJobTest, AssignmentsThatFitNoFieldAreWrongUsage) {
  Flags flags = FlagsOf(WriteFile("job.textproto", SmallJob()));
  flags.set = {"optimiser.sgd=1"};
  EXPECT_EQ(ExitCodeOf(LoadError(flags)), ExitCode::kUsage);
  EXPECT_THAT(LoadError(flags).ToString(), HasSubstr("--set optimiser.sgd=1: "));
}

TEST(LoadJobTest, FilesThatAreNoJobAreFailures) {
  const absl::Status error = LoadError(FlagsOf(WriteFile("bad.textproto", "name: 'x'\nsteps: x")));
  EXPECT_EQ(ExitCodeOf(error), ExitCode::kFailed);
  EXPECT_THAT(error.ToString(), HasSubstr("bad.textproto:2:"));
}

}  // namespace
}  // namespace millrace::client
