// Models whose devices have the rows of a batch alone, against the same with whole tables.
#include "worker/model/compact_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/device/model_tests/test_device.h"

namespace millrace::worker {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMostTrained = 8;
constexpr size_t kMostEvaluated = 20;
constexpr BatchSizes kSizes = {kMostTrained, kMostEvaluated};
constexpr int64_t kIds = 20000;

struct TableCase {
  std::string name;
  std::string layers;
};

void PrintTo(const TableCase& c, std::ostream* stream) { *stream << c.name; }

// Of features "words" (lists of ids), "pair" (two ids) and "numbers".
const TableCase kTableCases[] = {
    {"one_table", R"pb(
       layers {
         inputs: "words"
         embedding { input_dim: 40000 output_dim: 3 pooling: MEAN }
       }
     )pb"},
    {"small_table_beside_it", R"pb(
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
     )pb"},
    {"not_pooled", R"pb(
       layers {
         name: "each"
         inputs: "pair"
         embedding { input_dim: 20000 output_dim: 5 }
       }
       layers { flatten {} }
     )pb"},
    {"frozen", R"pb(
       layers {
         name: "frozen"
         trainable: false
         inputs: "words"
         embedding { input_dim: 30000 output_dim: 4 pooling: SUM }
       }
       layers {
         name: "trained"
         inputs: "pair"
         embedding { input_dim: 20000 output_dim: 4 pooling: SUM }
       }
       layers {
         inputs: [ "frozen", "trained" ]
         add {}
       }
     )pb"},
    {"shared", R"pb(
       layers {
         name: "history"
         inputs: "words"
         embedding { input_dim: 30000 output_dim: 4 pooling: MEAN }
       }
       layers {
         name: "next"
         inputs: "pair"
         variables_of: "history"
         embedding { input_dim: 30000 output_dim: 4 pooling: SUM }
       }
       layers {
         name: "bias"
         inputs: "pair"
         embedding { input_dim: 70000 output_dim: 1 pooling: SUM }
       }
       layers {
         name: "other"
         inputs: "pair"
         embedding { input_dim: 20000 output_dim: 7 pooling: SUM }
       }
       layers {
         inputs: [ "history", "next", "bias", "other", "numbers" ]
         concatenate {}
       }
     )pb"},
};

ModelPlan PlanOf(const std::string& layers) {
  ExampleSpec examples;
  for (const char* name : {"words", "pair", "numbers"}) {
    TensorSpec& feature = examples.features.emplace_back();
    feature.name = name;
    feature.type = ElementType::kId;
  }
  examples.features[0].ragged = true;
  examples.features[1].shape = {2};
  examples.features[2].type = ElementType::kFloat;
  examples.features[2].shape = {3};
  TensorSpec& label = examples.labels.emplace_back();
  label.type = ElementType::kId;
  label.limit = 3;
  return PlanOrDie(layers + "layers { dense { units: 3 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
                   examples);
}

// Some ids are there several times, and the first example may have none.
Batch BatchOf(uint64_t seed, size_t size, size_t most_words = 6) {
  std::mt19937_64 random(seed);
  const auto id = [&] {
    return static_cast<int64_t>(random() % 4 == 0 ? random() % 5 : random() % kIds);
  };
  Batch batch;
  batch.size = size;
  batch.features.resize(3);
  for (size_t i = 0; i < size; ++i) {
    for (size_t k = i == 0 ? 0 : random() % (most_words + 1); k > 0; --k) {
      batch.features[0].ids.push_back(id());
    }
    batch.features[0].ends.push_back(batch.features[0].ids.size());
    for (int k = 0; k < 2; ++k) batch.features[1].ids.push_back(id());
    for (int k = 0; k < 3; ++k) {
      batch.features[2].floats.push_back(static_cast<float>(random() % 100) / 50 - 1);
    }
  }
  batch.labels.resize(1);
  for (size_t i = 0; i < size; ++i) {
    batch.labels[0].ids.push_back(static_cast<int64_t>(random() % 3));
    batch.weights.push_back(static_cast<float>(random() % 4) / 2);
  }
  return batch;
}

// Takes gradients by rows, and spreads them. All else of them is 0.
class SpreadGradients final : public GradientSink {
 public:
  explicit SpreadGradients(const ModelPlan& plan) : kept_(plan) {}

  void BackwardBegins() override { ++begun; }
  absl::Span<float> Buffer(size_t variable) override { return kept_.Buffer(variable); }
  absl::optional<absl::Span<float>> RowBuffer(size_t variable,
                                              std::shared_ptr<const VariableRows> rows) override {
    values_[variable].assign(rows->rows.size() * rows->width, NAN);
    by_rows[variable] = *rows;
    return absl::MakeSpan(values_[variable]);
  }
  void Finished(size_t variable) override {
    kept_.Finished(variable);
    const auto found = by_rows.find(variable);
    if (found == by_rows.end()) return;
    const absl::Span<float> whole = kept_.Buffer(variable);
    std::fill(whole.begin(), whole.end(), 0.0f);
    CopyToRuns(values_[variable].data(),
               RunsOf(found->second.rows, found->second.width, {0, whole.size()}), sizeof(float),
               whole.data());
  }

  const ModelValues& gradients() const { return kept_.gradients(); }
  const std::vector<size_t>& finished() const { return kept_.finished(); }

  int begun = 0;
  std::map<size_t, VariableRows> by_rows;

 private:
  KeptGradients kept_;
  std::map<size_t, std::vector<float>> values_;
};

std::shared_ptr<Device> TestDevice() { return MakeTestDevice(/*threads=*/1); }

std::unique_ptr<Model> CompactOrDie(const ModelPlan& plan,
                                    std::shared_ptr<Device> device = TestDevice()) {
  auto model = CompactModel::Compile(std::move(device), plan, kSizes);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<Model> WholeOrDie(const ModelPlan& plan) {
  auto model = MakeTestDevice(/*threads=*/1)->Compile(plan, kSizes);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

ModelValues ValuesOf(Model* model) {
  ModelValues values;
  for (size_t v = 0; v < model->variables().size(); ++v) {
    const absl::Span<float> place = model->values(v);
    values.emplace_back(place.begin(), place.end());
  }
  return values;
}

// What a pull for the batch brings: of tables its rows alone, and all else of them is no number.
ModelValues PulledFor(const Batch& batch, ModelValues values, const Model& model) {
  for (size_t v = 0; v < values.size(); ++v) {
    const size_t width = model.row_width(v);
    if (width == 0) continue;
    const std::vector<uint64_t> rows = model.RowsOf(v, batch);
    const std::set<uint64_t> pulled(rows.begin(), rows.end());
    for (size_t i = 0; i < values[v].size(); ++i) {
      if (pulled.count(i / width) == 0) values[v][i] = NAN;
    }
  }
  return values;
}

void Pull(const ModelValues& pulled, Model* model) {
  for (size_t v = 0; v < pulled.size(); ++v) {
    const absl::Span<float> place = model->values(v);
    std::copy(pulled[v].begin(), pulled[v].end(), place.begin());
    model->Arrived(v, 0, place.size());
  }
}

GivenByStep SpreadOf(const Batch& batch, uint64_t seed, const ModelPlan& plan, Model* model) {
  SpreadGradients gradients(plan);
  const absl::StatusOr<BatchResult> result = model->Train(batch, seed, &gradients);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(gradients.begun, 1);
  return {result.ok() ? result->loss_sum : NAN, gradients.gradients()};
}

class CompactModelTest : public ::testing::TestWithParam<TableCase> {
 protected:
  CompactModelTest() : plan_(PlanOf(GetParam().layers)), whole_(WholeOrDie(plan_)) {
    FillValues(/*seed=*/1, 0.4f, whole_.get());
    values_ = ValuesOf(whole_.get());
  }

  GivenByStep Expected(const Batch& batch, uint64_t seed) {
    WriteValues(values_, whole_.get());
    return GivenBy(batch, seed, plan_, whole_.get());
  }

  const ModelPlan plan_;
  const std::unique_ptr<Model> whole_;
  ModelValues values_;
};

TEST_P(CompactModelTest, TrainsOnTheRowsOfABatchAsOnWholeTables) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  for (uint64_t step = 0; step < 4; ++step) {
    const Batch batch = BatchOf(step, step == 2 ? 3 : kMostTrained);
    Pull(PulledFor(batch, values_, *model), model.get());
    EXPECT_EQ(SpreadOf(batch, step, plan_, model.get()), Expected(batch, step)) << step;
  }
}

TEST_P(CompactModelTest, GivesWholeGradientsWhereThoseOfRowsAreNotTaken) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  const Batch batch = BatchOf(5, kMostTrained);
  Pull(PulledFor(batch, values_, *model), model.get());
  EXPECT_EQ(GivenBy(batch, 5, plan_, model.get()), Expected(batch, 5));
}

TEST_P(CompactModelTest, GradientsOfTablesAreThoseOfTheRowsAndComeInTheSameOrder) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  const Batch batch = BatchOf(6, kMostTrained);
  Pull(PulledFor(batch, values_, *model), model.get());
  SpreadGradients gradients(plan_);
  ASSERT_TRUE(model->Train(batch, 6, &gradients).ok());
  for (size_t v = 0; v < plan_.variables.size(); ++v) {
    const bool by_rows = model->row_width(v) > 0 && !plan_.variables[v].update().has_frozen();
    ASSERT_EQ(gradients.by_rows.count(v), by_rows ? 1u : 0u) << v;
    if (!by_rows) continue;
    EXPECT_EQ(gradients.by_rows[v].rows, model->RowsOf(v, batch));
  }
  KeptGradients whole(plan_);
  TrainOrDie(batch, 6, whole_.get(), &whole);
  EXPECT_EQ(gradients.finished(), whole.finished());
}

TEST_P(CompactModelTest, EvaluatesAlsoBatchesOfMoreRowsThanThereIsRoomFor) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  for (const size_t size : {kMostTrained, kMostEvaluated}) {
    const Batch batch = BatchOf(7, size, /*most_words=*/12);
    EvaluationSums sums, expected;
    Pull(values_, model.get());
    WriteValues(values_, whole_.get());
    ASSERT_TRUE(model->Evaluate(batch, &sums).ok());
    ASSERT_TRUE(whole_->Evaluate(batch, &expected).ok());
    EXPECT_EQ(sums.examples, size);
    // In parts: products of fewer rows, of other roundings to float32.
    EXPECT_NEAR(sums.loss_sum, expected.loss_sum, 1e-5 * expected.loss_sum);
  }
}

// The model is made anew, and all else stays: values were pulled before it was known.
TEST_P(CompactModelTest, MakesRoomForMoreIdsThanIsLikely) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  for (const size_t most_words : {6, 60, 200, 6}) {
    const Batch batch = BatchOf(8, kMostTrained, most_words);
    Pull(PulledFor(batch, values_, *model), model.get());
    EXPECT_EQ(SpreadOf(batch, 8, plan_, model.get()), Expected(batch, 8)) << most_words;
  }
}

// As in a synchronous version of several steps, of which later ones pull rows alone.
TEST_P(CompactModelTest, HeldValuesStayAlsoWhereTheModelIsMadeAnew) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  bool is_pulled = false;
  for (const size_t most_words : {6, 6, 100, 6}) {
    const Batch batch = BatchOf(most_words, kMostTrained, most_words);
    const ModelValues pulled = PulledFor(batch, values_, *model);
    for (size_t v = 0; v < pulled.size(); ++v) {
      const bool is_held = is_pulled && model->row_width(v) == 0;
      const absl::Span<float> place = is_held ? model->held_values(v) : model->values(v);
      if (is_held) continue;
      std::copy(pulled[v].begin(), pulled[v].end(), place.begin());
      model->Arrived(v, 0, place.size());
    }
    is_pulled = true;
    EXPECT_EQ(SpreadOf(batch, 8, plan_, model.get()), Expected(batch, 8)) << most_words;
  }
}

TEST_P(CompactModelTest, TrainsOnStagedBatches) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  const auto step = [&](uint64_t seed, size_t most_words, bool pulls_first) {
    Batch batch = BatchOf(seed, kMostTrained, most_words);
    if (pulls_first) Pull(PulledFor(batch, values_, *model), model.get());
    model->Stage(&batch);
    if (!pulls_first) Pull(PulledFor(batch, values_, *model), model.get());
    EXPECT_EQ(SpreadOf(batch, seed, plan_, model.get()), Expected(batch, seed)) << seed;
  };
  step(1, 6, true);
  step(2, 6, false);
  step(3, 100, false);
  step(4, 6, false);
}

TEST_P(CompactModelTest, AStagedBatchThatDoesNotComeIsForgotten) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  Batch batch = BatchOf(1, kMostTrained);
  model->Stage(&batch);
  const Batch other = BatchOf(2, kMostTrained);
  Pull(PulledFor(other, values_, *model), model.get());
  EXPECT_EQ(SpreadOf(other, 2, plan_, model.get()), Expected(other, 2));

  model->Stage(&batch);
  model->Stage(nullptr);
  batch = BatchOf(3, kMostTrained);
  Pull(PulledFor(batch, values_, *model), model.get());
  EXPECT_EQ(SpreadOf(batch, 3, plan_, model.get()), Expected(batch, 3));
}

// Brings the next step's batch and values, while the gradients of this one are still to come.
class Ahead final : public GradientSink {
 public:
  Ahead(const ModelPlan& plan, const Batch* next, const ModelValues& values, Model* model)
      : spread_(plan), next_(next), values_(values), model_(model) {}

  void BackwardBegins() override {
    const ModelValues pulled = PulledFor(*next_, values_, *model_);
    for (size_t v = 0; v < pulled.size(); ++v) {
      const absl::Span<float> place = model_->next_values(v);
      std::copy(pulled[v].begin(), pulled[v].end(), place.begin());
      model_->Arrived(v, 0, place.size());
    }
    model_->Stage(next_);
  }
  absl::Span<float> Buffer(size_t variable) override { return spread_.Buffer(variable); }
  absl::optional<absl::Span<float>> RowBuffer(size_t variable,
                                              std::shared_ptr<const VariableRows> rows) override {
    return spread_.RowBuffer(variable, std::move(rows));
  }
  void Finished(size_t variable) override { spread_.Finished(variable); }

  const ModelValues& gradients() const { return spread_.gradients(); }

 private:
  SpreadGradients spread_;
  const Batch* const next_;
  const ModelValues values_;
  Model* const model_;
};

TEST_P(CompactModelTest, NextValuesAndBatchComeWhileAStepIsUnderWay) {
  const std::unique_ptr<Model> model = CompactOrDie(PullingAhead(plan_));
  ASSERT_TRUE(model->has_next_values());
  std::vector<Batch> batches;
  for (uint64_t step = 0; step < 5; ++step) {
    batches.push_back(BatchOf(step, kMostTrained, step == 3 ? 100 : 6));
  }
  Pull(PulledFor(batches[0], values_, *model), model.get());
  for (uint64_t step = 0; step + 1 < batches.size(); ++step) {
    const GivenByStep expected = Expected(batches[step], step);
    for (std::vector<float>& of_variable : values_) {
      for (float& value : of_variable) value = value * 0.9f + 0.01f;
    }
    Ahead gradients(plan_, &batches[step + 1], values_, model.get());
    const absl::StatusOr<BatchResult> result = model->Train(batches[step], step, &gradients);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ((GivenByStep{result->loss_sum, gradients.gradients()}), expected) << step;
    model->TakeNextValues();
  }
}

// Evaluations of all workers are to be the same, whatever batches they had before.
TEST_P(CompactModelTest, EvaluationsFollowFromTheBatchAlone) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  const auto evaluate = [&] {
    EvaluationSums sums;
    for (const size_t size : {kMostTrained, kMostEvaluated}) {
      Pull(values_, model.get());
      EXPECT_TRUE(model->Evaluate(BatchOf(7, size, /*most_words=*/40), &sums).ok());
    }
    return sums.loss_sum;
  };
  const double at_first = evaluate();
  const Batch batch = BatchOf(8, kMostTrained, /*most_words=*/300);
  Pull(values_, model.get());
  SpreadOf(batch, 8, plan_, model.get());
  EXPECT_EQ(evaluate(), at_first);
}

TEST_P(CompactModelTest, ABatchThatIsStagedIsTrainedOnAfterAnEvaluation) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  const Batch batch = BatchOf(1, kMostTrained);
  model->Stage(&batch);
  Pull(values_, model.get());
  EvaluationSums sums;
  ASSERT_TRUE(model->Evaluate(BatchOf(2, kMostTrained), &sums).ok());
  Pull(PulledFor(batch, values_, *model), model.get());
  EXPECT_EQ(SpreadOf(batch, 1, plan_, model.get()), Expected(batch, 1));
}

TEST_P(CompactModelTest, ListsMayAllBeEmpty) {
  const std::unique_ptr<Model> model = CompactOrDie(plan_);
  const Batch batch = BatchOf(1, kMostTrained, /*most_words=*/0);
  Pull(PulledFor(batch, values_, *model), model.get());
  EXPECT_EQ(SpreadOf(batch, 1, plan_, model.get()), Expected(batch, 1));
}

INSTANTIATE_TEST_SUITE_P(Models, CompactModelTest, ::testing::ValuesIn(kTableCases),
                         [](const auto& instance) { return instance.param.name; });

// Makes models of the test's device, if tables have no more than `most_rows`.
class SmallDevice final : public Device {
 public:
  const std::string& name() const override { return device_->name(); }
  std::string description() const override { return device_->description(); }
  absl::StatusOr<std::unique_ptr<Model>> Compile(const ModelPlan& plan,
                                                 const BatchSizes& batches) override {
    ++compiled;
    if (plan.variables[0].shape(0) > most_rows) return absl::ResourceExhaustedError("full");
    return device_->Compile(plan, batches);
  }

  uint64_t most_rows = kIds;
  int compiled = 0;

 private:
  const std::shared_ptr<Device> device_ = TestDevice();
};

class SmallDeviceTest : public ::testing::Test {
 protected:
  SmallDeviceTest() {
    FillValues(/*seed=*/1, 0.4f, whole_.get());
    values_ = ValuesOf(whole_.get());
  }

  absl::Status Train(const Batch& batch) {
    SpreadGradients gradients(plan_);
    return model_->Train(batch, 1, &gradients).status();
  }

  void ExpectTrainsOn(const Batch& batch) {
    Pull(PulledFor(batch, values_, *model_), model_.get());
    EXPECT_EQ(SpreadOf(batch, 1, plan_, model_.get()), GivenBy(batch, 1, plan_, whole_.get()));
  }

  const ModelPlan plan_ = PlanOf(kTableCases[1].layers);  // Of two tables, the first one large.
  const std::unique_ptr<Model> whole_ = WholeOrDie(plan_);
  const std::shared_ptr<SmallDevice> device_ = std::make_shared<SmallDevice>();
  const std::unique_ptr<Model> model_ = CompactOrDie(plan_, device_);
  ModelValues values_;
  const Batch small_ = BatchOf(1, kMostTrained);
  const Batch large_ = BatchOf(2, kMostTrained, 100);
};

TEST_F(SmallDeviceTest, ABatchForWhichThereIsNoRoomLeavesOthersAlone) {
  ExpectTrainsOn(small_);
  device_->most_rows = kMostTrained * kLikelyRaggedIds;
  Pull(values_, model_.get());
  EXPECT_EQ(Train(large_), absl::ResourceExhaustedError("full"));
  const int compiled = device_->compiled;
  ExpectTrainsOn(small_);
  EXPECT_EQ(device_->compiled, compiled);
}

TEST_F(SmallDeviceTest, EvaluatesInPartsWhatThereIsNoRoomFor) {
  device_->most_rows = kMostTrained * kLikelyRaggedIds;
  Pull(values_, model_.get());
  EvaluationSums sums, expected;
  ASSERT_TRUE(model_->Evaluate(large_, &sums).ok());
  ASSERT_TRUE(whole_->Evaluate(large_, &expected).ok());
  EXPECT_EQ(sums.examples, kMostTrained);
  EXPECT_NEAR(sums.loss_sum, expected.loss_sum, 1e-5 * expected.loss_sum);
}

TEST_F(SmallDeviceTest, RoomForOneBatchAloneIsEnough) {
  device_->most_rows = model_->RowsOf(0, large_).size();
  ExpectTrainsOn(large_);
}

TEST_F(SmallDeviceTest, ValuesStayWhereNoModelCanBeMade) {
  Pull(PulledFor(large_, values_, *model_), model_.get());
  device_->most_rows = 0;
  EXPECT_EQ(Train(large_), absl::ResourceExhaustedError("full"));
  EXPECT_FALSE(model_->Stage(&large_));
  EvaluationSums sums;
  EXPECT_EQ(model_->Evaluate(large_, &sums), absl::ResourceExhaustedError("full"));
  for (size_t v = 0; v < plan_.variables.size(); ++v) {
    if (model_->row_width(v) > 0) continue;
    const absl::Span<float> place = model_->values(v);
    EXPECT_EQ(std::vector<float>(place.begin(), place.end()), values_[v]);
    model_->Arrived(v, 0, place.size());
  }
  device_->most_rows = kIds;
  EXPECT_EQ(SpreadOf(large_, 1, plan_, model_.get()), GivenBy(large_, 1, plan_, whole_.get()));
}

TEST_F(SmallDeviceTest, RefusesIdsThatATableHasNoRowFor) {
  Batch batch = small_;
  batch.features[0].ids[0] = 40000;
  EXPECT_FALSE(model_->Stage(&batch));
  const absl::Status status = Train(batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("takes 0 to "));
  EvaluationSums sums;
  EXPECT_EQ(model_->Evaluate(batch, &sums), status);
}

}  // namespace
}  // namespace millrace::worker
