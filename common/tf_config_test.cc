#include "common/tf_config.h"

#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/text_mutation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// As the TensorFlow guide prints it, with an evaluator and a key of a cloud service.
constexpr char kCluster[] = R"("cluster": {
    "worker": ["host1:2222", "host2:2222", "host3:2222"],
    "ps": ["host4:2222", "host5:2222"],
    "chief": ["host6:2222"],
    "evaluator": ["host7:2222", 5]
  }, "environment": "cloud")";

std::string WithTask(const std::string& task) {
  return absl::StrCat("{", kCluster, ", \"task\": ", task, "}");
}

std::string WithCluster(const std::string& cluster) {
  return absl::StrCat("{\"cluster\": ", cluster, "}");
}

std::string ErrorOf(const std::string& json) {
  const absl::StatusOr<TfConfig> config = ParseTfConfig(json);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(config.status().message());
}

TEST(TfConfigTest, ReadsWhatTensorFlowUsersWrite) {
  const absl::StatusOr<TfConfig> config = ParseTfConfig(WithTask(R"({"type": "ps", "index": 1})"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->coordinator, "host6:2222");
  EXPECT_THAT(config->ps, ElementsAre("host4:2222", "host5:2222"));
  EXPECT_THAT(config->workers, ElementsAre("host1:2222", "host2:2222", "host3:2222"));
  EXPECT_EQ(config->task, TfConfig::Task::kPs);
  EXPECT_EQ(config->index, 1);
}

TEST(TfConfigTest, IndexMayBeAString) {
  const absl::StatusOr<TfConfig> config =
      ParseTfConfig(WithTask(R"({"type": "worker", "index": "2"})"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->task, TfConfig::Task::kWorker);
  EXPECT_EQ(config->index, 2);
}

TEST(TfConfigTest, MasterIsTheChief) {
  const absl::StatusOr<TfConfig> config = ParseTfConfig(
      R"({"cluster": {"master": ["[::1]:9"]}, "task": {"type": "master", "index": 0}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->coordinator, "[::1]:9");
  EXPECT_EQ(config->task, TfConfig::Task::kCoordinator);
  EXPECT_THAT(config->ps, IsEmpty());
}

TEST(TfConfigTest, ClientsAreNoTask) {
  const absl::StatusOr<TfConfig> config = ParseTfConfig(absl::StrCat("{", kCluster, "}"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->task, TfConfig::Task::kNone);
}

TEST(TfConfigTest, NamesTheTaskFieldThatIsWrong) {
  EXPECT_EQ(ErrorOf(WithTask(R"({"type": "ps", "index": 7})")),
            "TF_CONFIG.task.index: 7; the cluster has 2 ps");
  EXPECT_EQ(ErrorOf(WithTask(R"({"type": "worker", "index": "3"})")),
            "TF_CONFIG.task.index: 3; the cluster has 3 workers");
  EXPECT_EQ(ErrorOf(WithTask(R"({"type": "ps", "index": -1})")),
            "TF_CONFIG.task.index: -1; must be a number from 0");
  EXPECT_EQ(ErrorOf(WithTask(R"({"type": "ps", "index": 0.5})")),
            "TF_CONFIG.task.index: 0.5; must be a number from 0");
  EXPECT_EQ(ErrorOf(WithTask(R"({"type": "ps"})")),
            "TF_CONFIG.task.index: null; must be a number from 0");
  EXPECT_EQ(ErrorOf(WithTask(R"({"type": "evaluator", "index": 0})")),
            "TF_CONFIG.task.type: \"evaluator\"; must be chief, ps or worker");
  EXPECT_EQ(ErrorOf(WithTask("[1]")),
            "TF_CONFIG.task: a list; must be an object with type and index");
}

TEST(TfConfigTest, NamesTheClusterFieldThatIsWrong) {
  EXPECT_EQ(ErrorOf("{}"), "TF_CONFIG.cluster: null; must be an object of address lists");
  EXPECT_EQ(ErrorOf(WithCluster(R"({"ps": ["a:1"]})")),
            "TF_CONFIG.cluster.chief: 0 addresses; must be one, the coordinator's");
  EXPECT_EQ(ErrorOf(WithCluster(R"({"chief": ["a:1", "b:1"]})")),
            "TF_CONFIG.cluster.chief: 2 addresses; must be one, the coordinator's");
  EXPECT_EQ(ErrorOf(WithCluster(R"({"chief": ["a:1"], "ps": ["b:1", "b"]})")),
            "TF_CONFIG.cluster.ps[1]: \"b\"; must be \"HOST:PORT\" with a port from 1 to 65535");
  EXPECT_THAT(ErrorOf(WithCluster(R"({"chief": ["a:0"]})")), HasSubstr(".chief[0]: \"a:0\";"));
  EXPECT_THAT(ErrorOf(WithCluster(R"({"chief": ["unix:/s"]})")), HasSubstr("must be \"HOST"));
  EXPECT_EQ(ErrorOf(WithCluster(R"({"chief": ["a:1"], "worker": [12]})")),
            "TF_CONFIG.cluster.worker[0]: 12; must be \"HOST:PORT\" with a port from 1 to 65535");
  EXPECT_EQ(ErrorOf(WithCluster(R"({"chief": "a:1"})")),
            "TF_CONFIG.cluster.chief: \"a:1\"; must be a list of \"HOST:PORT\"");
}

TEST(TfConfigTest, RefusesWhatIsNoJson) {
  for (const std::string json : {"", "{", "{\"cluster\": }", "\xff"}) {
    EXPECT_THAT(ErrorOf(json), StartsWith("TF_CONFIG: not JSON: parse error at line 1, column "))
        << json;
  }
  EXPECT_THAT(ErrorOf("{\n  x"),
              StartsWith("TF_CONFIG: not JSON: parse error at line 2, column 3"));
  EXPECT_THAT(ErrorOf("{\n  x"), HasSubstr("expected string literal"));
  EXPECT_THAT(ErrorOf("[]"), StartsWith("TF_CONFIG: a list; must be a JSON object"));
  EXPECT_THAT(ErrorOf("null"), StartsWith("TF_CONFIG: null; must be a JSON object"));
}

// They ended the process: to the library they are no parse errors.
TEST(TfConfigTest, NumbersPastTheLargestAreOrdinaryErrors) {
  for (const std::string& json : {std::string(R"({"cluster": {"chief": ["a:1"]}, "x": 1e400})"),
                                  WithTask(R"({"type": "ps", "index": 1e400})")}) {
    EXPECT_THAT(ErrorOf(json), StartsWith("TF_CONFIG: not JSON: number overflow")) << json;
    EXPECT_THAT(ErrorOf(json), HasSubstr("1e400")) << json;
  }
}

TEST(TfConfigTest, AnotherTaskIsNamedBesideTheOneThatMustBe) {
  const auto worker = ParseTfConfig(WithTask(R"({"type": "worker", "index": 0})"));
  ASSERT_TRUE(worker.ok());
  EXPECT_TRUE(CheckTask(*worker, TfConfig::Task::kWorker).ok());
  EXPECT_EQ(CheckTask(*worker, TfConfig::Task::kPs),
            absl::InvalidArgumentError(
                "TF_CONFIG.task.type: \"worker\"; the type must be \"ps\" for this binary"));
  const auto client = ParseTfConfig(absl::StrCat("{", kCluster, "}"));
  EXPECT_EQ(CheckTask(*client, TfConfig::Task::kCoordinator),
            absl::InvalidArgumentError(
                "TF_CONFIG.task: missing; the type must be \"chief\" for this binary"));
}

TEST(TfConfigTest, DeepNestingAndBadEncodingAreOrdinaryErrors) {
  const int depth = 100'000;
  const std::string deep = std::string(depth, '[') + std::string(depth, ']');
  EXPECT_THAT(ErrorOf(WithTask(deep)), HasSubstr("a list"));
  EXPECT_THAT(ErrorOf(WithCluster(deep)), HasSubstr("a list"));
  EXPECT_FALSE(ParseTfConfig(WithCluster("{\"chief\": [\"\xff\xfe\"]}")).ok());
}

// Whatever happens to the text, the parser returns, and never an index out of range.
TEST(TfConfigTest, SurvivesMutations) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  const std::string original = WithTask(R"({"type": "ps", "index": "1"})");
  const std::string alphabet = "{}[]\",:0123456789-.eE \\utnflchps\xff\x80";
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = original;
    for (int change = 0; change <= round % 4; ++change) {
      millrace::testing::ChangeText(alphabet, /*most_erased=*/8, &random, &text);
    }
    const absl::StatusOr<TfConfig> config = ParseTfConfig(text);
    if (!config.ok()) continue;
    ++accepted;
    if (config->task == TfConfig::Task::kPs) {
      EXPECT_LT(config->index, config->ps.size()) << text;
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace millrace
