// Jobs of models that workers bring, from their files to their results, on whole clusters.
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/embedded_cluster.h"
#include "client/exporter.h"
#include "client/jobs_client.h"
#include "common/job_spec.h"
#include "examples/own_worker/factorization_machine.h"
#include "examples/own_worker/shifted_images.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/digits/digit_set.h"

namespace millrace::examples {
namespace {

using client::EmbeddedCluster;
using client::JobsClient;
using ::testing::HasSubstr;

JobSpec Load(const std::string& name, const std::string& data) {
  const std::string path = absl::StrCat("examples/own_worker/", name, ".textproto");
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  JobSpec spec = *ParseJobSpec(text, path);
  spec.mutable_data()->set_directory(data);
  return spec;
}

// Each user likes one kind of items and rates it 4, and the other kind 0: which kind an item is of,
// and which one a user likes, shows in no feature alone.
std::string WriteRatings() {
  const std::string directory = ::testing::TempDir();
  std::ofstream train(directory + "/ratings");
  std::ofstream held_out(directory + "/ratings.t");
  std::mt19937 random(1);
  for (int user = 1; user <= 30; ++user) {
    for (int item = 31; item <= 50; ++item) {
      const int rating = user % 2 == item % 2 ? 4 : 0;
      (random() % 5 == 0 ? held_out : train) << rating << " " << user << ":1 " << item << ":1\n";
    }
  }
  return directory;
}

std::string WriteDigits() {
  const std::string directory = ::testing::TempDir() + "/digits";
  EXPECT_TRUE(testing::WriteDigitFiles(directory, {.train = 1000, .evaluate = 300}).ok());
  return directory;
}

class OwnWorkerTest : public ::testing::Test {
 protected:
  void StartCluster(int workers, std::vector<worker::OwnModel> models) {
    client_.reset();
    auto cluster =
        EmbeddedCluster::Start({.ps = 2, .workers = workers, .own_models = std::move(models)});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    client_ = *JobsClient::Create({.address = cluster_->address()});
  }

  JobStatus Train(const JobSpec& spec) {
    const auto job_id = client_->Submit(spec);
    EXPECT_TRUE(job_id.ok()) << job_id.status();
    if (!job_id.ok()) return JobStatus();
    EXPECT_TRUE(client_->Watch(*job_id, 0, [](const JobEvent&) {}).ok());
    const JobStatus status = *client_->Get(*job_id);
    EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
    return status;
  }

  std::unique_ptr<EmbeddedCluster> cluster_;
  std::unique_ptr<JobsClient> client_;
};

TEST_F(OwnWorkerTest, FactorizationMachineLearnsWhoLikesWhat) {
  StartCluster(2, {FactorizationMachine()});
  const JobStatus status = Train(Load("factorization", WriteRatings()));
  // The mean rating alone has 4.
  EXPECT_LT(status.metrics().at("eval_loss"), 0.2);
}

TEST_F(OwnWorkerTest, ShiftedImagesLearnDigitsWithTheSameBitsOnAnyNumberOfWorkers) {
  const JobSpec spec = Load("shifted_digits", WriteDigits());
  std::vector<std::vector<client::Tensor>> variables;
  for (const int workers : {1, 3}) {
    StartCluster(workers, {FactorizationMachine(), ShiftedImages()});
    const JobStatus status = Train(spec);
    EXPECT_GT(status.metrics().at("eval_accuracy"), 0.8);
    variables.push_back(*client::FetchVariables(client_.get(), status.job_id()));
  }
  ASSERT_EQ(variables[0].size(), 6u);
  for (size_t v = 0; v < 6; ++v) {
    EXPECT_EQ(variables[0][v].values, variables[1][v].values) << variables[0][v].name;
  }
}

TEST_F(OwnWorkerTest, ShiftedImagesLearnWherePullsBeginAhead) {
  StartCluster(2, {ShiftedImages()});
  JobSpec spec = Load("shifted_digits", WriteDigits());
  spec.mutable_asynchronous()->set_pull_ahead(true);
  EXPECT_GT(Train(spec).metrics().at("eval_accuracy"), 0.7);
}

TEST_F(OwnWorkerTest, JobOfAModelThatNoWorkerKnowsWaitsAndSaysWhatTheyKnow) {
  StartCluster(1, {FactorizationMachine()});
  const JobSpec spec = Load("shifted_digits", WriteDigits());
  const auto job_id = client_->Submit(spec);
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  std::string message;
  while (message.find("model.custom") == std::string::npos) {
    message = client_->Get(*job_id)->message();
  }
  EXPECT_THAT(message, HasSubstr("model.custom.name: 'shifted_images'; this worker knows "
                                 "'factorization_machine' and models of layers"));
  EXPECT_EQ(client_->Cancel(*job_id)->state(), CANCELLED);
}

TEST_F(OwnWorkerTest, WrongOptionRefusesTheJob) {
  StartCluster(1, {ShiftedImages()});
  JobSpec spec = Load("shifted_digits", WriteDigits());
  spec.mutable_model()->mutable_custom()->mutable_options(1)->set_value("none");
  EXPECT_EQ(client_->Submit(spec).status(),
            absl::InvalidArgumentError("model.custom.options[1].value: 'none'; must be a whole "
                                       "number from 1 to 4096"));
}

}  // namespace
}  // namespace millrace::examples
