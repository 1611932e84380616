#include "worker/model/layered_model.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {
namespace {

class FakeDataset final : public millrace::worker::Dataset {
 public:
  FakeDataset(uint64_t size, std::vector<uint64_t> shape, int64_t classes)
      : size_(size), example_(FloatsAndClass(std::move(shape), classes, "labels.gz: example 17")) {}

  uint64_t size() const override { return size_; }
  const ExampleSpec& example() const override { return example_; }
  absl::Status Read(absl::Span<const uint64_t> /*indices*/, Batch* /*batch*/) const override {
    return absl::OkStatus();
  }

 private:
  uint64_t size_;
  ExampleSpec example_;
};

// Compiles nothing; remembers what it was asked for.
class FakeDevice final : public Device {
 public:
  const std::string& name() const override { return name_; }
  std::string description() const override { return name_; }
  absl::StatusOr<std::unique_ptr<Model>> Compile(const ModelPlan& plan,
                                                 const BatchSizes& batches) override {
    layers = plan.layers.size();
    this->batches = batches;
    precision = plan.precision;
    return std::unique_ptr<Model>();
  }

  size_t layers = 0;
  BatchSizes batches;
  PrecisionSpec::Compute precision = PrecisionSpec::FLOAT32;

 private:
  const std::string name_ = "fake";
};

class LayeredModelTest : public ::testing::Test {
 protected:
  LayeredModelTest() {
    spec_.set_batch_size(64);
    spec_.mutable_model()->add_layers()->mutable_dense()->set_units(10);
    spec_.mutable_model()->set_loss(SPARSE_CATEGORICAL_CROSSENTROPY);
  }

  absl::Status Make(const millrace::worker::Dataset* evaluate) {
    return LayeredModelFactory(device_)(spec_, train_, evaluate).status();
  }

  JobSpec spec_;
  FakeDataset train_{1000, {20}, 10};
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
};

TEST_F(LayeredModelTest, CompilesThePlanForTheBatchOfTheJob) {
  EXPECT_TRUE(Make(nullptr).ok());
  EXPECT_EQ(device_->layers, 1u);
  EXPECT_EQ(device_->batches.train, 64u);
  EXPECT_EQ(device_->batches.evaluation, 0u);
}

TEST_F(LayeredModelTest, CompilesForThePrecisionOfTheJob) {
  EXPECT_TRUE(Make(nullptr).ok());
  EXPECT_EQ(device_->precision, PrecisionSpec::FLOAT32);
  spec_.mutable_precision()->set_compute(PrecisionSpec::TF32);
  EXPECT_TRUE(Make(nullptr).ok());
  EXPECT_EQ(device_->precision, PrecisionSpec::TF32);
}

TEST_F(LayeredModelTest, MakesRoomForEvaluationBatches) {
  const FakeDataset evaluate(500, {20}, 10);
  EXPECT_TRUE(Make(&evaluate).ok());
  EXPECT_EQ(device_->batches.evaluation, 256u);
  spec_.mutable_evaluation()->set_batch_size(300);
  EXPECT_TRUE(Make(&evaluate).ok());
  EXPECT_EQ(device_->batches.evaluation, 300u);
  EXPECT_EQ(device_->batches.train, 64u);
}

TEST_F(LayeredModelTest, NoBatchIsLargerThanItsSet) {
  const FakeDataset evaluate(30, {20}, 10);
  spec_.set_batch_size(4000000000);
  EXPECT_TRUE(Make(&evaluate).ok());
  EXPECT_EQ(device_->batches.train, 1000u);
  EXPECT_EQ(device_->batches.evaluation, 30u);
}

TEST_F(LayeredModelTest, RefusesEmptyBatches) {
  spec_.set_batch_size(0);
  EXPECT_EQ(Make(nullptr).message(), "batch_size is 0; it must be at least 1");
}

TEST_F(LayeredModelTest, RefusesLabelsThatTheModelLacks) {
  train_ = FakeDataset(1000, {20}, 11);
  EXPECT_EQ(Make(nullptr).message(),
            "model.layers[0] 'dense_0': the last layer has 10 units, the labels go up to 10 "
            "(labels.gz: example 17); give it at least 11 units");
}

TEST_F(LayeredModelTest, RefusesEvaluationExamplesOfAnotherShape) {
  const FakeDataset evaluate(500, {4, 5}, 10);
  EXPECT_EQ(Make(&evaluate).message(),
            "data.evaluate: its examples have the shape [4, 5], those of data.train [20]; they "
            "must be the same");
}

TEST_F(LayeredModelTest, RefusesEvaluationLabelsThatTheModelLacks) {
  const FakeDataset evaluate(500, {20}, 12);
  EXPECT_EQ(Make(&evaluate).message(),
            "data.evaluate: model.layers[0] 'dense_0': the last layer has 10 units, the labels go "
            "up to 11 (labels.gz: example 17); give it at least 12 units");
}

}  // namespace
}  // namespace millrace::worker
