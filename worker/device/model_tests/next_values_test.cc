// Values for the next step that are written while a step computes.
#include <algorithm>
#include <cstdint>
#include <future>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/device/model_tests/test_device.h"

namespace millrace::worker {
namespace {

using ::testing::IsEmpty;

const Shape kNextPicture = {9, 8, 2};
constexpr size_t kWholeBatch = 12;

// Brings the next values and the next batch as soon as the model lets it, by other threads, and in
// pieces.
class AheadGradients final : public GradientSink {
 public:
  AheadGradients(const ModelPlan& plan, Model* model, ModelValues next, const Batch* next_batch)
      : kept_(plan), model_(model), next_(std::move(next)), next_batch_(next_batch) {}
  ~AheadGradients() override { Join(); }

  void BackwardBegins() override {
    EXPECT_THAT(kept_.finished(), IsEmpty());
    EXPECT_FALSE(asked_);
    ++begun_;
    std::vector<absl::Span<float>> places;
    for (size_t v = 0; v < next_.size(); ++v) places.push_back(model_->next_values(v));
    std::shared_future<void> goes;
    if (held_back_) goes = may_go_.get_future();
    for (const size_t first : {0, 1}) {
      threads_.emplace_back([this, first, places, goes] {
        if (goes.valid()) goes.wait();
        for (size_t v = first; v < next_.size(); v += 2) Bring(v, places[v]);
      });
    }
    model_->Stage(next_batch_);
  }

  absl::Span<float> Buffer(size_t variable) override {
    asked_ = true;
    return kept_.Buffer(variable);
  }
  void Finished(size_t variable) override { kept_.Finished(variable); }

  // Nothing is brought before Join.
  void HoldBack() { held_back_ = true; }

  void Join() {
    if (std::exchange(held_back_, false)) may_go_.set_value();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const ModelValues& gradients() const { return kept_.gradients(); }
  int begun() const { return begun_; }

 private:
  void Bring(size_t variable, absl::Span<float> place) {
    const std::vector<float>& values = next_[variable];
    const size_t piece = std::max<size_t>(100, values.size() / 64);
    for (size_t first = 0; first < values.size(); first += piece) {
      const size_t count = std::min(piece, values.size() - first);
      std::copy_n(values.data() + first, count, place.data() + first);
      model_->Arrived(variable, first, count);
    }
  }

  KeptGradients kept_;
  Model* const model_;
  const ModelValues next_;
  const Batch* const next_batch_;
  bool held_back_ = false;
  std::promise<void> may_go_;
  bool asked_ = false;
  int begun_ = 0;
  std::vector<std::thread> threads_;
};

class NextValuesTest : public ::testing::Test {
 protected:
  NextValuesTest()
      : NextValuesTest(std::string("layers { batch_normalization {} } ") + kPictureNetwork,
                       kNextPicture, kWholeBatch, /*scale=*/0.3f) {}
  NextValuesTest(const std::string& layers, Shape input, size_t batch, float scale)
      : plan_(PlanOrDie(layers, input, 4)), input_(std::move(input)), batch_(batch), scale_(scale) {
    plan_.regularizers[2].set_l2(0.01f);
  }

  ModelPlan Plan(bool pulls_ahead = true) const {
    ModelPlan plan = plan_;
    plan.pulls_ahead = pulls_ahead;
    return plan;
  }

  ModelValues ValuesOf(uint64_t seed) const {
    const std::unique_ptr<Model> model = CompileOrDie(Plan(), batch_);
    FillValues(seed, scale_, model.get());
    ModelValues values;
    for (size_t v = 0; v < model->variables().size(); ++v) {
      const absl::Span<float> place = model->values(v);
      values.emplace_back(place.begin(), place.end());
    }
    return values;
  }

  // With all values there before.
  GivenByStep Expected(const ModelValues& values, const Batch& batch, uint64_t seed) const {
    const std::unique_ptr<Model> model = CompileOrDie(Plan(/*pulls_ahead=*/false), batch_);
    WriteValues(values, model.get());
    return TrainOn(batch, seed, model.get());
  }

  GivenByStep TrainOn(const Batch& batch, uint64_t seed, Model* model) const {
    return GivenBy(batch, seed, Plan(), model);
  }

  // While the values of step + 1 arrive.
  GivenByStep Step(uint64_t step, Model* model) const {
    const Batch batch = BatchOf(step);
    const Batch next = BatchOf(step + 1);
    AheadGradients gradients(Plan(), model, ValuesOf(step + 1), &next);
    const absl::StatusOr<BatchResult> result = model->Train(batch, step, &gradients);
    EXPECT_TRUE(result.ok()) << result.status();
    gradients.Join();
    EXPECT_EQ(gradients.begun(), 1);
    model->Stage(nullptr);  // The next batch goes now.
    return {result->loss_sum, gradients.gradients()};
  }

  // Full and short ones in turns.
  Batch BatchOf(uint64_t step) const {
    return RandomBatch(step, step % 3 == 2 ? batch_ / 2 - 1 : batch_, input_, 4);
  }

  void ExpectRightSteps(uint64_t steps) const {
    const std::unique_ptr<Model> model = CompileOrDie(Plan(), batch_);
    WriteValues(ValuesOf(0), model.get());
    for (uint64_t step = 0; step < steps; ++step) {
      ASSERT_EQ(Step(step, model.get()), Expected(ValuesOf(step), BatchOf(step), step)) << step;
      model->TakeNextValues();
    }
    EXPECT_EQ(TrainOn(BatchOf(steps), steps, model.get()),
              Expected(ValuesOf(steps), BatchOf(steps), steps));
  }

 private:
  ModelPlan plan_;
  const Shape input_;
  const size_t batch_;
  const float scale_;
};

// Copies of many values and of large batches, beside products that take about as long.
class NextLargeValuesTest : public NextValuesTest {
 protected:
  NextLargeValuesTest() : NextLargeValuesTest(TestDeviceUnits()) {}

 private:
  explicit NextLargeValuesTest(size_t units)
      : NextValuesTest(LayersOf(units), {units}, /*batch=*/units, /*scale=*/0.02f) {}

  static std::string LayersOf(size_t units) {
    const std::string layer =
        absl::StrCat("layers { dense { units: ", units, " activation: RELU } } ");
    return absl::StrCat(layer, layer, layer,
                        "layers { dense { units: 4 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY");
  }
};

TEST_F(NextValuesTest, AreTheNextStepsAndLeaveTheOneUnderWayAlone) { ExpectRightSteps(6); }

TEST_F(NextLargeValuesTest, AreTheNextStepsAndLeaveTheOneUnderWayAlone) { ExpectRightSteps(6); }

TEST_F(NextValuesTest, ABatchThatIsStagedWithThemIsTrainedOn) {
  const std::unique_ptr<Model> model = CompileOrDie(Plan(), kWholeBatch);
  WriteValues(ValuesOf(0), model.get());
  const Batch first = BatchOf(0);
  const Batch second = BatchOf(1);
  AheadGradients gradients(Plan(), model.get(), ValuesOf(1), &second);
  ASSERT_TRUE(model->Train(first, 0, &gradients).ok());
  gradients.Join();
  EXPECT_EQ(gradients.gradients(), Expected(ValuesOf(0), first, 0).gradients);
  model->TakeNextValues();
  EXPECT_EQ(TrainOn(second, 1, model.get()), Expected(ValuesOf(1), second, 1));
}

TEST_F(NextValuesTest, AreEvaluated) {
  const std::unique_ptr<Model> model = CompileOrDie(Plan(), kWholeBatch);
  WriteValues(ValuesOf(0), model.get());
  Step(0, model.get());
  model->TakeNextValues();
  const std::unique_ptr<Model> other = CompileOrDie(Plan(), kWholeBatch);
  WriteValues(ValuesOf(1), other.get());
  EvaluationSums sums, expected;
  ASSERT_TRUE(model->Evaluate(BatchOf(0), &sums).ok());
  ASSERT_TRUE(other->Evaluate(BatchOf(0), &expected).ok());
  EXPECT_EQ(sums.loss_sum, expected.loss_sum);
}

TEST_F(NextValuesTest, ThatAreOfNoUseAreWrittenOver) {
  const std::unique_ptr<Model> model = CompileOrDie(Plan(), kWholeBatch);
  WriteValues(ValuesOf(0), model.get());
  Step(0, model.get());
  model->TakeNextValues();
  WriteValues(ValuesOf(7), model.get());
  EXPECT_EQ(TrainOn(BatchOf(1), 1, model.get()), Expected(ValuesOf(7), BatchOf(1), 1));
}

// A pull may take longer than the step that began it.
TEST_F(NextValuesTest, MayComeWhenTheStepIsOver) {
  const std::unique_ptr<Model> model = CompileOrDie(Plan(), kWholeBatch);
  WriteValues(ValuesOf(0), model.get());
  AheadGradients gradients(Plan(), model.get(), ValuesOf(1), nullptr);
  gradients.HoldBack();
  ASSERT_TRUE(model->Train(BatchOf(0), 0, &gradients).ok());
  model->TakeNextValues();
  gradients.Join();
  EXPECT_EQ(TrainOn(BatchOf(1), 1, model.get()), Expected(ValuesOf(1), BatchOf(1), 1));
}

TEST_F(NextValuesTest, AreNotAskedForWhereTheLossIsNoNumber) {
  const std::unique_ptr<Model> model = CompileOrDie(Plan(), kWholeBatch);
  ModelValues values = ValuesOf(0);
  values.back()[0] = std::numeric_limits<float>::quiet_NaN();
  WriteValues(values, model.get());
  const Batch batch = BatchOf(0);
  AheadGradients gradients(Plan(), model.get(), ValuesOf(1), nullptr);
  EXPECT_EQ(model->Train(batch, 0, &gradients).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(gradients.begun(), 0);
}

TEST_F(NextValuesTest, HaveNoPlaceWhereNothingIsPulledAhead) {
  const std::unique_ptr<Model> model = CompileOrDie(Plan(/*pulls_ahead=*/false), kWholeBatch);
  EXPECT_FALSE(model->has_next_values());
}

}  // namespace
}  // namespace millrace::worker
