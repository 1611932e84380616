// Dense layers against plain loops in double precision.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/kernels/testing/gpu_fixture.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using worker::DeviceMemory;
using worker::FromNarrow;
using worker::OnDevice;
using worker::OnRealGpu;
using worker::ToNarrow;

constexpr int kKernel = 3;  // Variables of the model.
constexpr int kBias = 8;
// Of a sum of one term. The emulation adds up in float64, a GPU in float32.
double Tolerance() { return OnRealGpu() ? 2e-6 : 5e-7; }

// Row-major.
struct Matrix {
  Matrix(size_t row_count, size_t column_count)
      : rows(row_count), columns(column_count), values(rows * columns) {}

  double& operator()(size_t row, size_t column) { return values[row * columns + column]; }
  double operator()(size_t row, size_t column) const { return values[row * columns + column]; }
  std::vector<float> Floats() const { return {values.begin(), values.end()}; }

  size_t rows;
  size_t columns;
  std::vector<double> values;
};

Matrix RandomMatrix(size_t rows, size_t columns, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  Matrix matrix(rows, columns);
  for (double& value : matrix.values) value = distribution(random);
  return matrix;
}

Matrix Transpose(const Matrix& matrix) {
  Matrix transposed(matrix.columns, matrix.rows);
  for (size_t i = 0; i < matrix.rows; ++i) {
    for (size_t j = 0; j < matrix.columns; ++j) transposed(j, i) = matrix(i, j);
  }
  return transposed;
}

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t k = 0; k < a.columns; ++k) {
      for (size_t j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

double Apply(Function function, double z) {
  switch (function) {
    case Function::kRelu:
      return z < 0 ? 0 : z;
    case Function::kTanh:
      return std::tanh(z);
    case Function::kSigmoid:
      return 1 / (1 + std::exp(-z));
    default:
      return z;
  }
}

// By z, from y.
double Slope(Function function, double y) {
  switch (function) {
    case Function::kRelu:
      return y > 0;
    case Function::kTanh:
      return 1 - y * y;
    case Function::kSigmoid:
      return y * (1 - y);
    default:
      return 1;
  }
}

// What a layer says of its gradients.
class GradientMemory final : public Gradients {
 public:
  explicit GradientMemory(Gpu* gpu) : gpu_(gpu) {}

  void Add(int variable, size_t count) {
    memory_[variable] = std::make_unique<DeviceMemory>(gpu_, count * sizeof(float));
  }
  float* Buffer(int variable) override { return memory_.at(variable)->As(); }
  void Finished(int variable) override { finished_.push_back(variable); }

  std::vector<float> Values(int variable) { return memory_.at(variable)->Values(); }
  const std::vector<int>& finished() const { return finished_; }

 private:
  Gpu* const gpu_;
  std::map<int, std::unique_ptr<DeviceMemory>> memory_;
  std::vector<int> finished_;
};

struct DenseCase {
  DenseDescription description;
  size_t batch = 0;
  bool input_gradient = true;

  bool has_bias() const { return description.variables[1] >= 0; }
  size_t rows() const { return batch * static_cast<size_t>(description.rows); }
};

DenseCase MakeCase(size_t batch, int64_t rows, int64_t inputs, int64_t units, Function function) {
  DenseCase of;
  of.batch = batch;
  of.description.rows = rows;
  of.description.inputs = inputs;
  of.description.units = units;
  of.description.function = function;
  of.description.variables = {kKernel, kBias};
  of.description.trained = true;
  return of;
}

class DenseTest : public GpuTest {
 protected:
  // Values for the case.
  void Set(const DenseCase& of) {
    case_ = of;
    const size_t inputs = of.description.inputs;
    const size_t units = of.description.units;
    x_ = RandomMatrix(of.rows(), inputs, 1);
    kernel_ = RandomMatrix(inputs, units, 2);
    bias_ = RandomMatrix(1, units, 3);
    dy_ = RandomMatrix(of.rows(), units, 4);
  }

  Matrix ExpectedOutput() const {
    Matrix y = Product(x_, kernel_);
    for (size_t i = 0; i < y.rows; ++i) {
      for (size_t j = 0; j < y.columns; ++j) {
        if (case_.has_bias()) y(i, j) += bias_(0, j);
        y(i, j) = Apply(case_.description.function, y(i, j));
      }
    }
    return y;
  }

  Matrix ExpectedInnerGradient(const Matrix& y) const {
    Matrix dz = dy_;
    for (size_t i = 0; i < dz.values.size(); ++i) {
      dz.values[i] *= Slope(case_.description.function, y.values[i]);
    }
    return dz;
  }

  // Each of the expected values is a sum of so many terms.
  static void ExpectNear(const std::vector<float>& values, const Matrix& expected, size_t terms,
                         const std::string& name) {
    ASSERT_EQ(values.size(), expected.values.size()) << name;
    const double tolerance = Tolerance() * std::sqrt(static_cast<double>(terms));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], expected.values[i], tolerance) << name << " " << i;
    }
  }

  std::unique_ptr<DeviceMemory> Placed(const Matrix& matrix, bool narrow) {
    return narrow ? OnDevice(gpu_.get(), ToNarrow(matrix.Floats()))
                  : OnDevice(gpu_.get(), matrix.Floats());
  }
  static std::vector<float> ValuesOf(DeviceMemory* memory, bool narrow) {
    return narrow ? FromNarrow(memory->Values<uint16_t>()) : memory->Values();
  }

  void Run() {
    const bool narrow_input = case_.description.narrow_input;
    const bool narrow_output = case_.description.narrow_output;
    layer_ = gpu_->Make(case_.description);
    layer_->Prepare(case_.batch, /*training=*/true);
    const auto x = Placed(x_, narrow_input);
    const auto kernel = OnDevice(gpu_.get(), kernel_.Floats());
    const auto bias = OnDevice(gpu_.get(), bias_.Floats());
    const auto dy = Placed(dy_, narrow_output);
    DeviceMemory y(gpu_.get(), dy->bytes()), dx(gpu_.get(), x->bytes());
    DeviceMemory workspace(gpu_.get(), layer_->WorkspaceBytes(case_.batch));
    DeviceMemory carried(gpu_.get(), layer_->CarriedBytes(case_.batch));
    gradients_ = std::make_unique<GradientMemory>(gpu_.get());
    gradients_->Add(kKernel, kernel_.values.size());
    gradients_->Add(kBias, bias_.values.size());
    const float* const parameters[] = {kernel->As(), case_.has_bias() ? bias->As() : nullptr};
    const float* const inputs[] = {x->As()};
    float* const input_gradients[] = {case_.input_gradient ? dx.As() : nullptr};
    Pass pass;
    pass.batch = case_.batch;
    pass.training = true;
    pass.parameters = parameters;
    pass.workspace = workspace.As<void>();
    pass.gradients = gradients_.get();
    layer_->Forward(pass, inputs, y.As());  // As for an evaluation.
    evaluated_ = ValuesOf(&y, narrow_output);
    workspace.Spoil();
    pass.carried = carried.As<void>();
    const uint64_t before = cuda_emulation::Counted().launches;
    layer_->Forward(pass, inputs, y.As());
    output_ = ValuesOf(&y, narrow_output);
    workspace.Spoil();
    if (!case_.description.trained) x->Spoil();  // LayerTraits::keeps_inputs
    layer_->Backward(pass, inputs, y.As(), dy->As(), input_gradients);
    launches_ = cuda_emulation::Counted().launches - before;
    input_gradient_ = ValuesOf(&dx, narrow_input);
  }

  // The output and all gradients, of values that are eighths; 0 for those that are not there.
  std::vector<std::vector<float>> ExactResults(const DenseCase& of) {
    Set(of);
    for (Matrix* const matrix : {&x_, &kernel_, &bias_, &dy_}) {
      for (double& value : matrix->values) value = std::round(8 * value) / 8;
    }
    Run();
    if (!case_.input_gradient) input_gradient_.clear();  // What was never written may be a number.
    std::vector<std::vector<float>> results = {output_, evaluated_, input_gradient_,
                                               gradients_->Values(kKernel),
                                               gradients_->Values(kBias)};
    for (std::vector<float>& values : results) {
      for (float& value : values) value = std::isnan(value) ? 0 : value;
    }
    return results;
  }

  // ExactResults. A real cuBLASLt may have no bias for narrow rows of such a length: the product is
  // rounded then before it is added, units near 0 pass or do not, and outputs alone are compared.
  void ExpectExactResults(const DenseCase& of, const std::vector<std::vector<float>>& expected) {
    const std::vector<std::vector<float>> results = ExactResults(of);
    if (!OnRealGpu() || !of.description.narrow_output || !of.has_bias()) {
      EXPECT_EQ(results, expected);
      return;
    }
    for (const size_t output : {0, 1}) {
      float largest = 0;
      for (const float value : expected[output]) largest = std::max(largest, std::abs(value));
      EXPECT_THAT(results[output], Pointwise(FloatNear(0x1p-7f * largest), expected[output]));
    }
  }

  void ExpectRuns(const DenseCase& of) {
    Set(of);
    Run();
    const Matrix y = ExpectedOutput();
    EXPECT_EQ(evaluated_, output_);
    const Matrix dz = ExpectedInnerGradient(y);
    ExpectNear(output_, y, kernel_.rows, "y");
    if (of.input_gradient)
      ExpectNear(input_gradient_, Product(dz, Transpose(kernel_)), dz.columns, "dx");
    if (!of.description.trained) return;
    ExpectNear(gradients_->Values(kKernel), Product(Transpose(x_), dz), dz.rows, "kernel");
    if (!of.has_bias()) return;
    Matrix ones(1, dz.rows);
    for (double& one : ones.values) one = 1;
    ExpectNear(gradients_->Values(kBias), Product(ones, dz), dz.rows, "bias");
  }

  DenseCase case_;
  Matrix x_{0, 0}, kernel_{0, 0}, bias_{0, 0}, dy_{0, 0};
  std::unique_ptr<Layer> layer_;
  std::unique_ptr<GradientMemory> gradients_;
  std::vector<float> evaluated_, output_, input_gradient_;
  uint64_t launches_ = 0;  // Of a forward and a backward pass.
};

TEST_F(DenseTest, AppliesItsFunction) {
  for (const Function function :
       {Function::kLinear, Function::kRelu, Function::kTanh, Function::kSigmoid}) {
    ExpectRuns(MakeCase(5, 1, 7, 3, function));
  }
}

TEST_F(DenseTest, TakesAnySizes) {
  ExpectRuns(MakeCase(1, 1, 1, 1, Function::kLinear));
  ExpectRuns(MakeCase(3, 4, 17, 33, Function::kRelu));
  ExpectRuns(MakeCase(64, 1, 100, 10, Function::kRelu));
}

TEST_F(DenseTest, ManyRowsAreSummed) { ExpectRuns(MakeCase(3000, 2, 5, 3, Function::kTanh)); }

TEST_F(DenseTest, WithoutBias) {
  DenseCase of = MakeCase(6, 2, 5, 9, Function::kRelu);
  of.description.variables[1] = -1;
  ExpectRuns(of);
  EXPECT_THAT(gradients_->finished(), ElementsAre(kKernel));
}

TEST_F(DenseTest, FinishesBothGradients) {
  ExpectRuns(MakeCase(6, 2, 5, 9, Function::kLinear));
  EXPECT_THAT(gradients_->finished(), ElementsAre(kBias, kKernel));
}

TEST_F(DenseTest, FrozenLayerGivesTheGradientByItsInputAlone) {
  DenseCase of = MakeCase(6, 2, 5, 9, Function::kTanh);
  of.description.trained = false;
  ExpectRuns(of);
  EXPECT_THAT(gradients_->finished(), IsEmpty());
}

TEST_F(DenseTest, FirstLayerGivesNoGradientByItsInput) {
  DenseCase of = MakeCase(6, 2, 5, 9, Function::kRelu);
  of.input_gradient = false;
  ExpectRuns(of);
  for (const float value : input_gradient_) EXPECT_TRUE(std::isnan(value));
}

// Values that bfloat16 has, of which all sums are exact: rounding changes nothing.
TEST_F(DenseTest, InBfloat16AllSizesGiveWhatTheyDoInFloat32) {
  for (const DenseCase& sizes :
       {MakeCase(1, 1, 1, 1, Function::kLinear), MakeCase(1, 1, 7, 3, Function::kRelu),
        MakeCase(3, 4, 17, 33, Function::kRelu), MakeCase(64, 1, 100, 10, Function::kLinear)}) {
    for (const bool trained : {true, false}) {
      for (const bool input_gradient : {true, false}) {
        DenseCase of = sizes;
        of.description.trained = trained;
        of.input_gradient = input_gradient;
        const std::vector<std::vector<float>> expected = ExactResults(of);
        of.description.precision = Precision::kBfloat16;
        EXPECT_EQ(ExactResults(of), expected) << of.batch << " " << trained << input_gradient;
      }
    }
  }
}

// All sums are exact; what is narrow is rounded at last.
TEST_F(DenseTest, NarrowValuesAreThoseOfFloatsRounded) {
  const auto round = [](std::vector<float>* values) { *values = FromNarrow(ToNarrow(*values)); };
  for (const DenseCase& sizes :
       {MakeCase(1, 1, 7, 3, Function::kRelu), MakeCase(3, 4, 17, 33, Function::kRelu),
        MakeCase(600, 1, 40, 10, Function::kLinear)}) {
    for (const auto& [trained, bias] :
         {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
      DenseCase of = sizes;
      of.description.trained = trained;
      if (!bias) of.description.variables[1] = -1;
      const std::vector<std::vector<float>> with_floats = ExactResults(of);
      of.description.precision = Precision::kBfloat16;
      for (const auto& [input, output] : {std::pair{true, false}, {false, true}, {true, true}}) {
        std::vector<std::vector<float>> expected = with_floats;
        of.description.narrow_input = input;
        of.description.narrow_output = output;
        if (output) round(&expected[0]);
        if (output) round(&expected[1]);
        if (input) round(&expected[2]);
        SCOPED_TRACE(::testing::Message() << of.batch << trained << bias << input << output);
        ExpectExactResults(of, expected);
      }
    }
  }
}

TEST_F(DenseTest, ReluOfNarrowValuesIsAppliedAfterTheProductWhereCublasDoesNotKeepNan) {
  cuda_emulation::SetReluKeepsNan(false);
  DenseCase of = MakeCase(70, 1, 33, 65, Function::kRelu);
  std::vector<std::vector<float>> expected = ExactResults(of);
  of.description.precision = Precision::kBfloat16;
  of.description.narrow_output = true;
  for (size_t i = 0; i < 2; ++i) expected[i] = FromNarrow(ToNarrow(expected[i]));
  ExpectExactResults(of, expected);
  x_(69, 32) = NAN;
  Run();
  for (size_t i = 0; i < output_.size(); ++i) {
    ASSERT_EQ(std::isnan(output_[i]), i >= size_t{69} * 65) << i;
  }
}

// Three products and the sums of the gradient's columns. In bfloat16 two factors are rounded
// forwards, by a kernel each; the gradient is while its columns are summed.
TEST_F(DenseTest, ValuesAreRoundedAndReadNoMoreOftenThanTheyMustBe) {
  MILLRACE_NEEDS_EMULATION();
  for (const Function function : {Function::kLinear, Function::kRelu}) {
    DenseCase of = MakeCase(6, 2, 5, 9, function);
    ExpectRuns(of);
    EXPECT_EQ(launches_, 3 + 1);
    of.description.precision = Precision::kBfloat16;
    Set(of);
    Run();
    EXPECT_EQ(launches_, 3 + 1 + 2);
    of.description.narrow_input = of.description.narrow_output = true;
    Set(of);
    Run();
    EXPECT_EQ(launches_, 3 + 1 + 2) << "the kernel is rounded, and the bias";
  }
}

TEST_F(DenseTest, NothingButWhatIsRoundedIsCarriedToTheBackwardPass) {
  const auto bytes = [&](const DenseCase& of) {
    return gpu_->Make(of.description)->CarriedBytes(of.batch);
  };
  DenseCase of = MakeCase(64, 2, 256, 512, Function::kRelu);
  EXPECT_EQ(bytes(of), 0);
  of.description.precision = Precision::kTf32;
  EXPECT_EQ(bytes(of), 0);
  of.description.precision = Precision::kBfloat16;
  EXPECT_EQ(bytes(of), (256 * 512 + 64 * 2 * 256) * sizeof(uint16_t));
  of.description.narrow_output = true;
  EXPECT_EQ(bytes(of), (256 * 512 + 64 * 2 * 256) * sizeof(uint16_t));
  of.description.narrow_input = true;
  EXPECT_EQ(bytes(of), 256 * 512 * sizeof(uint16_t)) << "the input is rounded already";
  of.description.narrow_input = false;
  of.description.trained = false;
  EXPECT_EQ(bytes(of), 256 * 512 * sizeof(uint16_t));
}

// So a loss that is not a number is seen, whoever applies ReLU.
TEST_F(DenseTest, WhatIsNoNumberStaysSoThroughRelu) {
  for (const bool keeps : {true, false}) {
    cuda_emulation::SetReluKeepsNan(keeps);
    layer_.reset();
    gradients_.reset();
    gpu_ = worker::OpenTestGpu();  // The one before knows how ReLU was when it tried.
    for (const Precision precision :
         {Precision::kFloat32, Precision::kTf32, Precision::kBfloat16}) {
      DenseCase of = MakeCase(70, 1, 33, 65, Function::kRelu);
      of.description.precision = precision;
      Set(of);
      x_(69, 32) = NAN;
      Run();
      for (size_t i = 0; i < output_.size(); ++i) {
        ASSERT_EQ(std::isnan(output_[i]), i >= size_t{69} * 65) << i;
      }
    }
  }
}

TEST_F(DenseTest, GradientsHaveTheSameBitsInEveryOrderOfThreads) {
  Set(MakeCase(500, 4, 20, 40, Function::kSoftmax));
  Run();
  const std::vector<float> kernel = gradients_->Values(kKernel);
  const std::vector<float> bias = gradients_->Values(kBias);
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    cuda_emulation::SetOrder(seed);
    Run();
    EXPECT_EQ(gradients_->Values(kKernel), kernel);
    EXPECT_EQ(gradients_->Values(kBias), bias);
  }
}

}  // namespace
}  // namespace millrace::cuda
