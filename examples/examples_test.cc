// Every example is a job that a cluster takes.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/job.pb.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

// Relative to the test's working directory, the root of its runfiles.
constexpr char kExamples[] = "examples";
constexpr const char* kNames[] = {"a9a_logistic",   "census_csv",     "census_wide_deep",
                                  "cifar10_resnet", "digits",         "image_folder",
                                  "mnist_cnn",      "mnist_cnn_sync", "movielens_mf",
                                  "regression_csv", "two_inputs",     "wide_mlp"};

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

JobSpec Load(const std::string& name) {
  const std::string path = absl::StrCat(kExamples, "/", name, ".textproto");
  const std::string text = TextOf(path);
  const absl::StatusOr<JobSpec> spec = ParseJobSpec(text, path);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : JobSpec();
}

// Without the folder, which a job gets from --data when it is run.
JobSpec LoadWithData(const std::string& name) {
  JobSpec spec = Load(name);
  spec.mutable_data()->set_directory("/data");
  return spec;
}

TEST(ExamplesTest, AllAreNamedInTheseTests) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples)) {
    if (entry.path().extension() == ".textproto") names.push_back(entry.path().stem());
  }
  EXPECT_THAT(names, UnorderedElementsAreArray(kNames));
}

class ExampleTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ExampleTest, PassesAllChecks) {
  EXPECT_EQ(CheckJobSpec(LoadWithData(GetParam())), absl::OkStatus());
}

TEST_P(ExampleTest, SaysHowToRunItAndIsInTheList) {
  const std::string file = absl::StrCat(GetParam(), ".textproto");
  EXPECT_THAT(TextOf(absl::StrCat(kExamples, "/", file)),
              HasSubstr(absl::StrCat("#   millrace train examples/", file, " --data=")));
  EXPECT_THAT(TextOf(absl::StrCat(kExamples, "/README.md")),
              HasSubstr(absl::StrCat("[", GetParam(), "](", file, ")")));
}

TEST_P(ExampleTest, TakesItsFolderFromTheCommandLine) {
  EXPECT_EQ(Load(GetParam()).data().directory(), "");
}

TEST_P(ExampleTest, EvaluatesOnHeldOutExamples) {
  const JobSpec spec = Load(GetParam());
  EXPECT_TRUE(spec.data().has_evaluate());
  EXPECT_NE(spec.data().train().SerializeAsString(), spec.data().evaluate().SerializeAsString());
}

INSTANTIATE_TEST_SUITE_P(Examples, ExampleTest, ::testing::ValuesIn(kNames),
                         [](const auto& example) { return example.param; });

TEST(ExamplesTest, SynchronousJobIsTheAsynchronousOneInAnotherMode) {
  JobSpec sync = Load("mnist_cnn_sync");
  const JobSpec async = Load("mnist_cnn");
  EXPECT_EQ(sync.synchronous().replicas() * sync.batch_size(), async.batch_size());
  EXPECT_EQ(sync.evaluation().every_steps(),
            sync.synchronous().replicas() * async.evaluation().every_steps());
  sync.set_name(async.name());
  *sync.mutable_asynchronous() = async.asynchronous();
  sync.set_batch_size(async.batch_size());
  *sync.mutable_evaluation() = async.evaluation();
  EXPECT_EQ(sync.SerializeAsString(), async.SerializeAsString());
}

}  // namespace
}  // namespace millrace
