#include "client/commands/convert.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/testing/run_command.h"
#include "common/job_spec.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/durable_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::millrace::testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// Files that Keras wrote (testing/reference/keras_models.py).
std::string KerasFileNamed(const std::string& name) {
  return absl::StrCat("testing/reference/keras/", name);
}

class ConvertTest : public ::testing::Test {
 protected:
  std::string Weights() const { return absl::StrCat(::testing::TempDir(), "/model.safetensors"); }

  size_t CountWeights() const {
    const auto file = SafetensorsReader::Open(RealFileSystem(), Weights());
    EXPECT_TRUE(file.ok()) << file.status();
    return file->header().tensors.size();
  }

  CommandRun run_;
};

TEST_F(ConvertTest, AWholeFileBecomesAJobAndItsWeights) {
  run_.flags().path = KerasFileNamed("trained.keras3.keras");
  run_.flags().weights = Weights();
  EXPECT_EQ(*run_.Run(RunConvert), ExitCode::kSucceeded);
  const auto job = ParseJobSpec(run_.out(), "printed");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->model().loss(), SPARSE_CATEGORICAL_CROSSENTROPY);
  EXPECT_EQ(job->optimizer().adam().learning_rate(), 0.002);
  EXPECT_EQ(CountWeights(), 19u);
  EXPECT_THAT(run_.err(), HasSubstr(absl::StrCat("Wrote 19 variables to ", Weights())));
  // It was never fitted.
  EXPECT_THAT(run_.err(), Not(HasSubstr("What the optimizer has kept")));
  EXPECT_THAT(run_.err(), HasSubstr(absl::StrCat("millrace train JOB.textproto --data=DIR "
                                                 "--init_from=",
                                                 Weights())));
}

TEST_F(ConvertTest, WeightsMayStandBesideAModel) {
  run_.flags().path = KerasFileNamed("sequences.keras3.json");
  run_.flags().weights_file = KerasFileNamed("sequences.keras3.weights.h5");
  run_.flags().weights = Weights();
  run_.flags().json = true;
  EXPECT_EQ(*run_.Run(RunConvert), ExitCode::kSucceeded);
  const Json found = Json::parse(run_.out());
  EXPECT_THAT(found["model"].get<std::string>(), HasSubstr("embedding"));
  EXPECT_THAT(found["next"].get<std::string>(), HasSubstr("--init_from="));
  EXPECT_EQ(CountWeights(), 9u);
}

TEST_F(ConvertTest, WithoutWeightsOnlyTheModelIsPrinted) {
  run_.flags().path = KerasFileNamed("trained.keras2.h5");
  EXPECT_EQ(*run_.Run(RunConvert), ExitCode::kSucceeded);
  EXPECT_THAT(run_.out(), HasSubstr("loss: SPARSE_CATEGORICAL_CROSSENTROPY"));
  EXPECT_THAT(run_.out(), HasSubstr("metrics: [ACCURACY]"));
  EXPECT_THAT(run_.err(), HasSubstr("Next, with data, batch_size and epochs in the job file: "
                                    "millrace train JOB.textproto --data=DIR\n"));
}

TEST_F(ConvertTest, WhatAJobLacksIsNamed) {
  run_.flags().path = KerasFileNamed("sequences.keras3.json");
  EXPECT_EQ(*run_.Run(RunConvert), ExitCode::kSucceeded);
  EXPECT_THAT(run_.err(), HasSubstr("Next, with loss, optimizer, data, batch_size and epochs in "));
}

TEST_F(ConvertTest, WhatIsMissingIsNamed) {
  run_.flags().path = KerasFileNamed("sequences.keras3.json");
  run_.flags().weights = Weights();
  EXPECT_THAT(run_.Run(RunConvert).status().ToString(),
              HasSubstr("sequences.keras3.json has none; name the file that has them after it"));
  run_.flags().weights = "model.h5";
  EXPECT_THAT(run_.Run(RunConvert).status().ToString(),
              HasSubstr("--weights: model.h5; must be called FILE.safetensors"));
  run_.flags().weights.clear();
  run_.flags().path = "/no/such/model.keras";
  EXPECT_THAT(run_.Run(RunConvert).status().ToString(),
              HasSubstr("cannot read the Keras model /no/such/model.keras: No such file"));
}

// It waited for them without end.
TEST_F(ConvertTest, PipesAreRefused) {
  const std::string pipe = absl::StrCat(::testing::TempDir(), "/pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string refusal =
      absl::StrCat("cannot read ", pipe, ": it is a pipe; must be a file, as Keras wrote it");
  run_.flags().path = pipe;
  EXPECT_THAT(run_.Run(RunConvert).status().ToString(), HasSubstr(refusal));
  run_.flags().path = KerasFileNamed("sequences.keras3.json");
  run_.flags().weights = Weights();
  run_.flags().weights_file = pipe;
  EXPECT_THAT(run_.Run(RunConvert).status().ToString(), HasSubstr(refusal));
}

}  // namespace
}  // namespace millrace::client
