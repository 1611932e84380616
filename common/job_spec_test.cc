#include "common/job_spec.h"

#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/text_mutation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kJobText[] = R"(
name: "mnist-cnn.v2"
model {
  layers { conv2d { filters: 8 kernel_size: 3 activation: RELU } }
  layers { max_pool2d {} }
  layers { flatten {} }
  layers { dropout { rate: 0.25 } }
  layers { name: "logits" dense { units: 10 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
  metrics: ACCURACY
}
data {
  directory: "/data"
  train { idx { images: "images" labels: "labels" } range { end: 50000 } }
  evaluate { idx { images: "images" labels: "labels" } range { begin: 50000 } }
}
optimizer { adam { learning_rate: 0.002 } }
batch_size: 32
epochs: 3
seed: 1
)";

JobSpec Job() {
  absl::StatusOr<JobSpec> spec = ParseJobSpec(kJobText, "job");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

std::string ParseError(const std::string& text) {
  const absl::Status status = ParseJobSpec(text, "mnist.job").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(ParseJobSpecTest, ErrorsNameFileLineAndColumn) {
  EXPECT_THAT(ParseError("name: \"a\"\nmodell {}\n"), StartsWith("mnist.job:2:8: "));
  EXPECT_THAT(ParseError("name: \"a\"\nmodell {}\n"),
              HasSubstr("no field named \"modell\". It has: name, model, "));
  EXPECT_THAT(ParseError("model {\n  loss: HINGE\n}"), StartsWith("mnist.job:2:9: "));
  EXPECT_THAT(ParseError("model {\n  loss: HINGE\n}"), HasSubstr("\"HINGE\""));
  EXPECT_THAT(ParseError("batch_size: many"), StartsWith("mnist.job:1:13: "));
  EXPECT_THAT(ParseError("epochs: 1 steps: 2"), HasSubstr("oneof \"length\""));
  EXPECT_THAT(ParseError("model {"), StartsWith("mnist.job:1:8: "));
  EXPECT_THAT(ParseError("\"unfinished"), StartsWith("mnist.job:1:"));
}

TEST(ParseJobSpecTest, ReadsWhatIsWritten) {
  const JobSpec spec = Job();
  EXPECT_EQ(spec.name(), "mnist-cnn.v2");
  EXPECT_EQ(spec.model().layers_size(), 5);
  EXPECT_EQ(spec.model().layers(0).conv2d().activation(), RELU);
  EXPECT_EQ(spec.epochs(), 3u);
}

TEST(JobSpecTest, DefaultsAreThoseOfTheProto) {
  JobSpec spec = Job();
  EXPECT_EQ(StalenessBound(spec), 4u);
  EXPECT_EQ(Replicas(spec), 0u);
  EXPECT_EQ(CutPeriod(spec), absl::Seconds(10));
  EXPECT_EQ(EvaluationBatchSize(spec), 256u);
  EXPECT_FALSE(PullsAhead(spec));
  spec.mutable_asynchronous()->set_pull_ahead(true);
  EXPECT_TRUE(PullsAhead(spec));
  spec.mutable_asynchronous()->set_staleness_bound(0);
  EXPECT_EQ(StalenessBound(spec), 0u);
  EXPECT_FALSE(PullsAhead(spec));
  spec.mutable_synchronous()->set_replicas(3);
  EXPECT_EQ(Replicas(spec), 3u);
  EXPECT_EQ(StalenessBound(spec), 0u);
  EXPECT_FALSE(PullsAhead(spec));
  spec.mutable_cuts()->mutable_period()->set_nanos(500'000'000);
  EXPECT_EQ(CutPeriod(spec), absl::Milliseconds(500));
  spec.mutable_evaluation()->set_batch_size(7);
  EXPECT_EQ(EvaluationBatchSize(spec), 7u);
}

TEST(JobSpecTest, CheckpointsAreDueAfterTenMinutesUnlessTheJobSaysOtherwise) {
  JobSpec spec;
  EXPECT_EQ(CheckpointEverySteps(spec), 0u);
  EXPECT_EQ(CheckpointPeriod(spec), absl::Minutes(10));
  EXPECT_EQ(CheckpointsToKeep(spec), 3u);
  EXPECT_EQ(CheckpointKeptPeriod(spec), absl::InfiniteDuration());
  spec.mutable_checkpoints()->set_every_steps(100);
  EXPECT_EQ(CheckpointPeriod(spec), absl::InfiniteDuration());
  spec.mutable_checkpoints()->mutable_period()->set_seconds(7);
  EXPECT_EQ(CheckpointPeriod(spec), absl::Seconds(7));
  EXPECT_EQ(CheckpointEverySteps(spec), 100u);
  spec.mutable_synchronous()->set_replicas(3);
  EXPECT_EQ(CheckpointEverySteps(spec), 102u);
}

TEST(JobSpecTest, EveryEpochVisitsEachExample) {
  JobSpec spec = Job();
  EXPECT_EQ(TotalSteps(spec, 64), 3u * 2);
  EXPECT_EQ(TotalSteps(spec, 65), 3u * 3);
  EXPECT_EQ(TotalSteps(spec, 1), 3u);
  spec.set_steps(17);
  EXPECT_EQ(TotalSteps(spec, 65), 17u);
}

TEST(JobSpecTest, StepsDoNotOverflow) {
  JobSpec spec = Job();
  spec.set_epochs(kMaxSteps);
  EXPECT_EQ(TotalSteps(spec, ~uint64_t{0}), kMaxSteps);
  EXPECT_EQ(TotalSteps(spec, 32), kMaxSteps);
}

TEST(JobSpecTest, LayersWithoutANameHaveTheirKindAndPosition) {
  const JobSpec spec = Job();
  EXPECT_EQ(LayerName(spec.model(), 0), "conv2d_0");
  EXPECT_EQ(LayerName(spec.model(), 1), "max_pool2d_1");
  EXPECT_EQ(LayerName(spec.model(), 4), "logits");
}

// Text format that differs a little from a good job: whatever comes out, nothing breaks.
TEST(JobSpecTest, SurvivesMutations) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  const std::string original = kJobText;
  const std::string alphabet = "{}[]:\"'\\ \n0123456789.-_eidlrs<>#,;\xff";
  int good = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::string text = original;
    for (int change = 0; change <= round % 3; ++change) {
      millrace::testing::ChangeText(alphabet, /*most_erased=*/4, &random, &text);
    }
    const absl::StatusOr<JobSpec> spec = ParseJobSpec(text, "job");
    if (!spec.ok()) {
      EXPECT_THAT(std::string(spec.status().message()), StartsWith("job")) << text;
      continue;
    }
    if (!CheckJobSpec(*spec).ok()) continue;
    ++good;
    EXPECT_GE(TotalSteps(*spec, 1000), 1u);
    EXPECT_GT(CutPeriod(*spec), absl::ZeroDuration());
  }
  EXPECT_GT(good, 0);
}

}  // namespace
}  // namespace millrace
