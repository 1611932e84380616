#include "client/embedded_cluster.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/exporter.h"
#include "client/jobs_client.h"
#include "client/safetensors.h"
#include "client/testing/small_job.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/job_spec.h"
#include "common/job_state.h"
#include "coordinator/journal/journal.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::testing::SmallData;
using ::millrace::testing::SmallJob;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

JobSpec SmallSpec() {
  JobSpec spec = *ParseJobSpec(SmallJob(), "small.textproto");
  spec.mutable_data()->set_directory(SmallData());
  return spec;
}

std::unique_ptr<JobsClient> ClientOf(const EmbeddedCluster& cluster) {
  return *JobsClient::Create({.address = cluster.address()});
}

// Follows a job to its end and returns its status.
JobStatus Finished(JobsClient* client, const std::string& job_id) {
  EXPECT_TRUE(client->Watch(job_id, 0, [](const JobEvent&) {}).ok());
  auto status = client->Get(job_id);
  EXPECT_TRUE(status.ok()) << status.status();
  return *status;
}

// A test of its own directory for temporary files.
class EmbeddedClusterTest : public ::testing::Test {
 protected:
  EmbeddedClusterTest() {
    directory_ = ::testing::TempDir() + "/" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(directory_);
    setenv("TMPDIR", directory_.c_str(), /*overwrite=*/1);
  }

  std::vector<std::string> Left() const {
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      left.push_back(entry.path().string());
    }
    return left;
  }

  std::string directory_;
};

TEST_F(EmbeddedClusterTest, TrainsAJobExportsItAndLeavesNothingBehind) {
  {
    auto cluster = EmbeddedCluster::Start({.ps = 2, .workers = 2});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_THAT(Left(), Not(IsEmpty()));
    const auto client = ClientOf(**cluster);
    const auto job_id = client->Submit(SmallSpec());
    ASSERT_TRUE(job_id.ok()) << job_id.status();
    const JobStatus status = Finished(client.get(), *job_id);
    EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
    EXPECT_EQ(status.step(), 15u);
    EXPECT_GT(status.metrics().at("eval_accuracy"), 0.8);

    const std::string path = ::testing::TempDir() + "/small.safetensors";
    const absl::Status exported = ExportVariables(client.get(), *job_id, path);
    ASSERT_TRUE(exported.ok()) << exported;
    const auto file = ReadSafetensors(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ(file->tensors.size(), 2u);
    EXPECT_EQ(file->tensors[0].name, "logit/kernel");
    EXPECT_EQ(file->tensors[0].shape, (std::vector<uint64_t>{2, 1}));
    EXPECT_GT(file->tensors[0].values[0], 0);
    EXPECT_GT(file->tensors[0].values[1], 0);
    EXPECT_EQ(file->tensors[1].name, "logit/bias");
  }
  EXPECT_THAT(Left(), IsEmpty());
}

// What a coordinator's journal had of SmallSpec when the worker that planned it, of a model of its
// own, did not say that it rounds what travels.
constexpr char kRecordWithoutNumerics[] = R"(
  number: 1
  job_id: "small-1-old1"
  state: PENDING
  submitted { seconds: 1700000000 }
  plan {
    variables { name: "logit/kernel" shape: [2, 1] initial_value { constant: 0 } }
    variables { name: "logit/bias" shape: [1] initial_value { constant: 0 } }
    train_examples: 40
    evaluate_examples: 40
  }
  total_steps: 15
)";

coordinator::JobRecord RecordWithoutNumerics() {
  coordinator::JobRecord record;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kRecordWithoutNumerics, &record));
  *record.mutable_spec() = SmallSpec();
  record.mutable_spec()->mutable_synchronous()->set_replicas(2);
  record.mutable_spec()->mutable_precision()->set_wire(Encoding::BFLOAT16);
  return record;
}

// Newer workers refused such a job, each time that they were asked, until it failed.
TEST_F(EmbeddedClusterTest, GoesOnWithAJournalWhosePlanDoesNotSayWhatIsRounded) {
  const std::string state = directory_ + "/state";
  std::filesystem::create_directories(state);
  {
    const auto journal = coordinator::Journal::Open(state + "/coordinator");
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE((*journal)->Write(RecordWithoutNumerics()).ok());
  }
  const auto cluster = EmbeddedCluster::Start({.ps = 2, .workers = 2, .state_dir = state});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto client = ClientOf(**cluster);
  const JobStatus status = Finished(client.get(), "small-1-old1");
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_EQ(status.step(), 15u);
}

// Servers take gradients of such a job in its encoding alone, and statistics as float32.
TEST_F(EmbeddedClusterTest, TrainsASynchronousJobThatIsRoundedOnTheWireAndHasStatistics) {
  JobSpec spec = SmallSpec();
  spec.mutable_synchronous()->set_replicas(2);
  spec.mutable_precision()->set_wire(Encoding::FLOAT16);
  const LayerSpec logit = spec.model().layers(0);
  spec.mutable_model()->mutable_layers(0)->set_name("hidden");
  spec.mutable_model()->mutable_layers(0)->mutable_dense()->set_units(3);
  spec.mutable_model()->add_layers()->mutable_batch_normalization();
  *spec.mutable_model()->add_layers() = logit;
  const auto cluster = EmbeddedCluster::Start({.ps = 2, .workers = 2});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto client = ClientOf(**cluster);
  const auto job_id = client->Submit(spec);
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  const JobStatus status = Finished(client.get(), *job_id);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_EQ(status.step(), 15u);
}

// Of points on a grid: whether their sum is above 0.3, and their difference.
void WritePoints(const std::string& path) {
  std::ofstream file(path);
  file << "a,b,above,difference\n";
  for (int i = 0; i < 64; ++i) {
    const double a = (i % 8 - 3.5) / 4;
    const double b = (i / 8 - 3.5) / 4;
    file << a << "," << b << "," << (a + b > 0.3 ? 1 : 0) << "," << a - b << "\n";
  }
}

constexpr char kTwoLabels[] = R"(
  name: "two-labels"
  model {
    layers { name: "sign" inputs: "features" dense { units: 1 } }
    layers { name: "number" inputs: "features" dense { units: 1 } }
    outputs { layer: "sign" label: "above" loss: BINARY_CROSSENTROPY
              metrics { metric: ACCURACY } }
    outputs { layer: "number" label: "difference" loss: MEAN_SQUARED_ERROR
              metrics { metric: MAE } }
  }
  data {
    train {
      csv {
        files: "points.csv"
        columns { name: "a" number {} }
        columns { name: "b" number {} }
        label { name: "difference" label: "difference" number: true }
        label { name: "above" label: "above" }
      }
    }
    evaluate { csv { files: "points.csv" } }
  }
  optimizer { adam { learning_rate: 0.1 } }
  synchronous { replicas: 2 }
  batch_size: 8
  epochs: 30
  seed: 1
)";

TEST_F(EmbeddedClusterTest, TwoOutputsLearnALabelEach) {
  const std::string data = directory_ + "/data";
  std::filesystem::create_directories(data);
  WritePoints(data + "/points.csv");
  JobSpec spec = *ParseJobSpec(kTwoLabels, "two_labels.textproto");
  spec.mutable_data()->set_directory(data);
  auto cluster = EmbeddedCluster::Start({.ps = 2, .workers = 2});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto client = ClientOf(**cluster);
  const auto job_id = client->Submit(spec);
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  const JobStatus status = Finished(client.get(), *job_id);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_GT(status.metrics().at("eval_sign_accuracy"), 0.9);
  EXPECT_LT(status.metrics().at("eval_number_mae"), 0.05);
  EXPECT_DOUBLE_EQ(status.metrics().at("eval_loss"),
                   status.metrics().at("eval_sign_loss") + status.metrics().at("eval_number_loss"));
}

TEST_F(EmbeddedClusterTest, RemembersItsJobsInAStateDirectory) {
  const std::string state = directory_ + "/made/state";
  std::string job_id;
  std::vector<Tensor> variables;
  {
    auto cluster = EmbeddedCluster::Start({.ps = 1, .workers = 1, .state_dir = state});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    const auto client = ClientOf(**cluster);
    job_id = *client->Submit(SmallSpec());
    EXPECT_EQ(Finished(client.get(), job_id).state(), SUCCEEDED);
    variables = *FetchVariables(client.get(), job_id);
  }
  auto cluster = EmbeddedCluster::Start({.ps = 1, .workers = 1, .state_dir = state});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto client = ClientOf(**cluster);
  EXPECT_EQ(client->Get(job_id)->state(), SUCCEEDED);
  const auto again = FetchVariables(client.get(), job_id);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->size(), variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    EXPECT_EQ((*again)[i].values, variables[i].values) << variables[i].name;
  }
}

// Workers had gone before, and a job that needs them to come to a barrier saved nothing.
TEST_F(EmbeddedClusterTest, JobThatTrainsIsSavedWhenTheClusterStops) {
  JobSpec spec = SmallSpec();
  spec.set_epochs(1'000'000);
  spec.mutable_asynchronous();
  spec.mutable_checkpoints()->set_directory(directory_ + "/checkpoints");
  spec.mutable_checkpoints()->set_exact(true);
  {
    auto cluster = EmbeddedCluster::Start({.ps = 2, .state_dir = directory_ + "/state"});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    const auto client = ClientOf(**cluster);
    const auto job_id = client->Submit(spec);
    ASSERT_TRUE(job_id.ok()) << job_id.status();
    for (uint64_t step = 0; step == 0; std::this_thread::yield()) {
      const auto status = client->Get(*job_id);
      ASSERT_TRUE(status.ok()) << status.status();
      ASSERT_FALSE(HasEnded(status->state())) << status->DebugString();
      step = status->step();
    }
  }
  const auto checkpoints =
      CheckpointDirectory(RealFileSystem(), spec.checkpoints().directory()).List();
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
  ASSERT_EQ(checkpoints->size(), 1u);
  ASSERT_TRUE(checkpoints->at(0).manifest.ok());
  EXPECT_GT(checkpoints->at(0).manifest->step(), 0u);
}

TEST_F(EmbeddedClusterTest, VariablesOfAnUnknownJobAreNotFound) {
  auto cluster = EmbeddedCluster::Start({.ps = 1, .workers = 1});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(FetchVariables(ClientOf(**cluster).get(), "nobody").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(EmbeddedClusterTest, StateDirectoriesInUseAreNamed) {
  const std::string state = directory_ + "/state";
  auto first = EmbeddedCluster::Start({.state_dir = state});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = EmbeddedCluster::Start({.state_dir = state});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition) << second.status();
  EXPECT_THAT(second.status().ToString(), HasSubstr(state));
}

TEST_F(EmbeddedClusterTest, WrongOptionsAreRefused) {
  EXPECT_EQ(EmbeddedCluster::Start({.ps = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EmbeddedCluster::Start({.workers = -1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto nowhere = EmbeddedCluster::Start({.state_dir = "/proc/none/state"});
  EXPECT_THAT(nowhere.status().ToString(), HasSubstr("/proc/none/state"));
}

}  // namespace
}  // namespace millrace::client
