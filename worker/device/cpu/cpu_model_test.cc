#include "worker/device/cpu/cpu_model.h"

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const Shape kSmallImage = {9, 8, 2};
constexpr size_t kFewExamples = 12;

constexpr char kOneUnit[] =
    "layers { dense { units: 1 } } loss: BINARY_CROSSENTROPY metrics: [ACCURACY, AUC]";

// Keeps what it is told early, too.
class EarlyGradients final : public GradientSink {
 public:
  explicit EarlyGradients(const ModelPlan& plan) : kept_(plan), early_(plan.variables.size()) {}

  absl::Span<float> Buffer(size_t variable) override { return kept_.Buffer(variable); }
  void FinishedFirst(size_t variable, size_t count) override {
    ASSERT_GE(count, early_[variable].size());
    const absl::Span<const float> now = kept_.Buffer(variable).subspan(0, count);
    early_[variable].insert(early_[variable].end(), now.begin() + early_[variable].size(),
                            now.end());
    ++tellings_;
  }
  void Finished(size_t variable) override { kept_.Finished(variable); }

  const std::vector<float>& gradient(size_t variable) const { return kept_.gradient(variable); }
  const std::vector<float>& early(size_t variable) const { return early_[variable]; }
  int tellings() const { return tellings_; }

 private:
  KeptGradients kept_;
  std::vector<std::vector<float>> early_;
  int tellings_ = 0;
};

// 700 x 512 elements are three parts.
TEST(CpuModelTest, PartsOfALongKernelAreFinalWhenTheyAreTold) {
  const ModelPlan plan = PlanOrDie(
      "layers { dense { units: 512 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY", {700}, 512);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 1);
  FillValues(/*seed=*/1, 0.3f, model.get());
  const Batch batch = RandomBatch(/*seed=*/3, 1, {700}, 512);
  EarlyGradients gradients(plan);
  ASSERT_TRUE(model->Train(batch, /*seed=*/0, &gradients).ok());
  EXPECT_EQ(gradients.tellings(), 3);
  EXPECT_EQ(gradients.early(0), gradients.gradient(0));
  // Of one example it is the product of the input and the bias's gradient.
  for (size_t i = 0; i < 700; ++i) {
    for (size_t j = 0; j < 512; ++j) {
      ASSERT_FLOAT_EQ(gradients.gradient(0)[i * 512 + j],
                      batch.features[0].floats[i] * gradients.gradient(1)[j]);
    }
  }
}

// What is added to it is not there yet.
TEST(CpuModelTest, NothingOfASharedOrRegularizedKernelIsToldEarly) {
  for (const char* text : {"layers { dense { units: 600 kernel_regularizer { l2: 0.1 } } } "
                           "loss: SPARSE_CATEGORICAL_CROSSENTROPY",
                           "layers { name: 'a' dense { units: 600 } } "
                           "layers { name: 'b' dense { units: 600 } variables_of: 'a' } "
                           "loss: SPARSE_CATEGORICAL_CROSSENTROPY"}) {
    const ModelPlan plan = PlanOrDie(text, {600}, 600);
    const std::unique_ptr<Model> model = CompileOrDie(plan, 1);
    FillValues(/*seed=*/1, 0.3f, model.get());
    EarlyGradients gradients(plan);
    ASSERT_TRUE(model->Train(RandomBatch(/*seed=*/3, 1, {600}, 600), /*seed=*/0, &gradients).ok());
    EXPECT_EQ(gradients.tellings(), 0) << text;
  }
}

TEST(CpuModelTest, SeveralThreadsComputeTheSame) {
  const ModelPlan plan = PlanOrDie(kPictureNetwork, kSmallImage, 4);
  const Batch batch = RandomBatch(/*seed=*/3, kFewExamples, kSmallImage, 4);
  std::vector<double> losses;
  for (const int threads : {1, 2, 2}) {
    const std::unique_ptr<Model> model = CompileOrDie(plan, kFewExamples, threads);
    FillValues(/*seed=*/1, 0.3f, model.get());
    KeptGradients gradients(plan);
    losses.push_back(TrainOrDie(batch, 2, model.get(), &gradients).loss_sum);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[0]);
  EXPECT_EQ(losses[1], losses[2]);
}

TEST(CpuModelTest, ModelsLargerThanTheMachineAreRefused) {
  const ModelPlan plan =
      PlanOrDie("layers { dense { units: 4194304 } }" + std::string(kOneUnit), {262144}, 2);
  const absl::Status status = CpuModel::Compile(plan, {4, 0}, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs 16384."));
  EXPECT_THAT(std::string(status.message()), HasSubstr("batches of 4 examples"));
}

// Takes gradients by rows where they are given so.
class RowGradients final : public GradientSink {
 public:
  explicit RowGradients(const ModelPlan& plan) : kept_(plan) {}

  absl::Span<float> Buffer(size_t variable) override { return kept_.Buffer(variable); }
  absl::optional<absl::Span<float>> RowBuffer(size_t variable,
                                              std::shared_ptr<const VariableRows> rows) override {
    values[variable].assign(rows->rows.size() * rows->width, NAN);
    this->rows[variable] = *rows;
    return absl::MakeSpan(values[variable]);
  }
  void Finished(size_t variable) override { finished.push_back(variable); }

  std::map<size_t, VariableRows> rows;
  std::map<size_t, std::vector<float>> values;
  std::vector<size_t> finished;

 private:
  KeptGradients kept_;
};

constexpr char kTwoTables[] = R"pb(
  layers {
    name: "large"
    inputs: "words"
    embedding { input_dim: 40000 output_dim: 3 pooling: MEAN }
  }
  layers {
    name: "small"
    inputs: "words"
    embedding { input_dim: 20000 output_dim: 3 pooling: SUM }
  }
  layers {
    inputs: [ "large", "small" ]
    multiply {}
  }
  layers { dense { units: 3 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";

// Lists of ids, one of them empty.
Batch RaggedWords() {
  Batch batch;
  batch.size = 4;
  batch.features = {IdTensor({7, 19999, 7, 3, 12345, 7})};
  batch.features[0].ends = {3, 3, 5, 6};
  batch.labels = {IdTensor({0, 2, 1, 2})};
  return batch;
}

ModelPlan PlanOfTwoTables() {
  ExampleSpec examples;
  TensorSpec& words = examples.features.emplace_back();
  words.name = "words";
  words.type = ElementType::kId;
  words.ragged = true;
  TensorSpec& label = examples.labels.emplace_back();
  label.type = ElementType::kId;
  label.limit = 3;
  return PlanOrDie(kTwoTables, examples);
}

TEST(CpuModelTest, GradientOfALargeTableIsGivenByTheRowsOfTheBatch) {
  const ModelPlan plan = PlanOfTwoTables();
  const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
  const Batch batch = RaggedWords();
  EXPECT_EQ(model->row_width(0), 3u);
  EXPECT_EQ(model->row_width(1), 0u);
  EXPECT_THAT(model->RowsOf(0, batch), ElementsAre(3, 7, 12345, 19999));
  FillValues(/*seed=*/1, 0.3f, model.get());
  KeptGradients whole(plan);
  const BatchResult result = TrainOrDie(batch, /*seed=*/0, model.get(), &whole);

  // Its other rows may hold anything.
  const absl::Span<float> table = model->values(0);
  for (size_t i = 0; i < table.size(); ++i) {
    if (std::set<size_t>{3, 7, 12345, 19999}.count(i / 3) == 0) table[i] = NAN;
  }
  RowGradients by_rows(plan);
  const absl::StatusOr<BatchResult> again = model->Train(batch, /*seed=*/0, &by_rows);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->loss_sum, result.loss_sum);
  EXPECT_THAT(by_rows.finished, ElementsAreArray(whole.finished()));
  ASSERT_EQ(by_rows.rows.size(), 1u) << "the small one's is given as a whole";
  EXPECT_THAT(by_rows.rows[0].rows, ElementsAre(3, 7, 12345, 19999));
  std::vector<float> spread(table.size());
  for (size_t i = 0; i < 4; ++i) {
    for (size_t k = 0; k < 3; ++k) {
      spread[by_rows.rows[0].rows[i] * 3 + k] = by_rows.values[0][i * 3 + k];
    }
  }
  EXPECT_EQ(spread, whole.gradient(0));
}

}  // namespace
}  // namespace millrace::worker
