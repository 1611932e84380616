#include "examples/own_worker/factorization_machine.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/batch.h"
#include "worker/input/dataset.h"

namespace millrace::examples {
namespace {

using ::testing::HasSubstr;
using worker::Batch;
using worker::ExampleSpec;
using worker::Model;

// Tells what its examples look like; nobody reads them.
class Examples final : public worker::Dataset {
 public:
  explicit Examples(ExampleSpec spec) : spec_(std::move(spec)) {}
  uint64_t size() const override { return 100; }
  const ExampleSpec& example() const override { return spec_; }
  absl::Status Read(absl::Span<const uint64_t>, Batch*) const override { return absl::OkStatus(); }

 private:
  const ExampleSpec spec_;
};

class Gradients final : public worker::GradientSink {
 public:
  explicit Gradients(const Model& model) {
    for (const VariableSpec& variable : model.variables()) {
      size_t elements = 1;
      for (const uint64_t dimension : variable.shape()) elements *= dimension;
      all.emplace_back(elements, std::numeric_limits<float>::quiet_NaN());
    }
  }
  absl::Span<float> Buffer(size_t variable) override { return absl::MakeSpan(all[variable]); }
  void Finished(size_t) override { ++finished; }

  std::vector<std::vector<float>> all;
  size_t finished = 0;
};

absl::StatusOr<std::unique_ptr<Model>> Make(const std::string& option, const std::string& value,
                                            const ExampleSpec& examples) {
  JobSpec spec;
  CustomModel& custom = *spec.mutable_model()->mutable_custom();
  ModelOption& factors = *custom.add_options();
  factors.set_name("factors");
  factors.set_value("3");
  if (!option.empty()) {
    custom.add_options()->set_name(option);
    custom.mutable_options(1)->set_value(value);
  }
  return FactorizationMachine().make(spec, Examples(examples), nullptr, nullptr);
}

// Two examples of four features, no two of whose values are alike.
Batch SmallBatch() { return worker::FloatsAndClasses({1, 0, -0.5f, 2, 0, 0.25f, 1.5f, 0}, {3, 1}); }

void FillValues(Model* model) {
  for (size_t v = 0; v < model->variables().size(); ++v) {
    const absl::Span<float> values = model->values(v);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.3f * std::sin(static_cast<float>(1 + 7 * v + 3 * i));
    }
  }
}

// As the header writes it, by all pairs.
double Prediction(Model* model, absl::Span<const float> x) {
  double y = model->values(0)[0];
  for (size_t i = 0; i < x.size(); ++i) {
    y += static_cast<double>(model->values(1)[i]) * x[i];
    for (size_t j = i + 1; j < x.size(); ++j) {
      double product = 0;
      for (size_t f = 0; f < 3; ++f) {
        product += static_cast<double>(model->values(2)[3 * i + f]) * model->values(2)[3 * j + f];
      }
      y += product * x[i] * x[j];
    }
  }
  return y;
}

// The mean loss, in float64.
double Loss(Model* model, const Batch& batch) {
  double sum = 0;
  for (size_t row = 0; row < batch.size; ++row) {
    const absl::Span<const float> x(batch.features[0].floats.data() + 4 * row, 4);
    const double error = Prediction(model, x) - static_cast<double>(batch.labels[0].ids[row]);
    sum += error * error;
  }
  return sum / static_cast<double>(batch.size);
}

TEST(FactorizationMachineTest, LossIsThatOfTheFormula) {
  const auto model = *Make("", "", worker::FloatsAndClass({4}, 5));
  FillValues(model.get());
  Gradients gradients(*model);
  const auto result = model->Train(SmallBatch(), 0, &gradients);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->loss_sum / 2, Loss(model.get(), SmallBatch()), 1e-5);
  worker::EvaluationSums sums;
  ASSERT_TRUE(model->Evaluate(SmallBatch(), &sums).ok());
  EXPECT_EQ(sums.examples, 2u);
  EXPECT_EQ(sums.loss_sum, result->loss_sum);
}

TEST(FactorizationMachineTest, GradientsAreThoseOfCentralDifferences) {
  const auto model = *Make("", "", worker::FloatsAndClass({4}, 5));
  FillValues(model.get());
  Gradients gradients(*model);
  ASSERT_TRUE(model->Train(SmallBatch(), 0, &gradients).ok());
  EXPECT_EQ(gradients.finished, 3u);
  constexpr float kStep = 1.0f / 256;
  for (size_t v = 0; v < 3; ++v) {
    for (size_t i = 0; i < gradients.all[v].size(); ++i) {
      float& value = model->values(v)[i];
      const float middle = value;
      value = middle + kStep;
      const double above = Loss(model.get(), SmallBatch());
      value = middle - kStep;
      const double below = Loss(model.get(), SmallBatch());
      value = middle;
      EXPECT_NEAR(gradients.all[v][i], (above - below) / (2 * kStep), 2e-3) << v << ", " << i;
    }
  }
}

TEST(FactorizationMachineTest, DecayAddsToTheGradientOfTheFactors) {
  const auto plain = *Make("", "", worker::FloatsAndClass({4}, 5));
  const auto decayed = *Make("decay", "0.5", worker::FloatsAndClass({4}, 5));
  FillValues(plain.get());
  FillValues(decayed.get());
  Gradients without(*plain);
  Gradients with(*decayed);
  ASSERT_TRUE(plain->Train(SmallBatch(), 0, &without).ok());
  ASSERT_TRUE(decayed->Train(SmallBatch(), 0, &with).ok());
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(with.all[2][i], without.all[2][i] + 0.5f * plain->values(2)[i], 1e-6);
  }
  EXPECT_EQ(with.all[1], without.all[1]);
}

TEST(FactorizationMachineTest, LossThatIsNotFiniteIsToldBeforeAnyGradientLeaves) {
  const auto model = *Make("", "", worker::FloatsAndClass({4}, 5));
  model->values(0)[0] = std::numeric_limits<float>::infinity();
  Gradients gradients(*model);
  EXPECT_TRUE(absl::IsOutOfRange(model->Train(SmallBatch(), 0, &gradients).status()));
  EXPECT_EQ(gradients.finished, 0u);
}

TEST(FactorizationMachineTest, WrongOptionsAndExamplesAreNamed) {
  const ExampleSpec rows = worker::FloatsAndClass({4}, 5);
  EXPECT_THAT(Make("factor", "3", rows).status().ToString(),
              HasSubstr("model.custom.options[1].name: 'factor'; must be one of factors, decay"));
  EXPECT_THAT(Make("decay", "2", rows).status().ToString(), HasSubstr("options[1].value: '2'"));
  EXPECT_THAT(Make("", "", worker::FloatsAndClass({28, 28, 1}, 10)).status().ToString(),
              HasSubstr("data.train: model.custom 'factorization_machine' takes"));
}

}  // namespace
}  // namespace millrace::examples
