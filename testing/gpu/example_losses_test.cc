// Every example has the same losses on a GPU as on a processor, step by step: its model, its
// optimizer, its data's formats, as one replica of a synchronous job computes them (LocalTraining).
//
// On a real GPU (MILLRACE_TEST_GPU) 50 steps of the example's own batch size, and on the emulation
// fewer and smaller ones: as many as take seconds, or MILLRACE_TEST_STEPS. Data are those of
// MILLRACE_TEST_DATA where it has the example's, otherwise generated.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/digits/digit_set.h"
#include "testing/example_data/example_data.h"
#include "testing/example_data/write_file.h"
#include "testing/gpu/local_training.h"
#include "worker/device/cuda/test_library.h"
#include "worker/devices.h"

namespace millrace::testing {
namespace {

constexpr int kStepsOnRealGpu = 50;
constexpr int kRepeatsOnRealGpu = 100;
// How far losses may be apart: this share of them, or of kLeastLoss where they are less. One that
// training brings towards 0 is the rest of a difference of larger numbers, which rounding decides.
constexpr double kTolerance = 1e-4;
constexpr double kLeastLoss = 0.1;

absl::Status WriteDigits(const std::string& directory, uint64_t seed) {
  DigitFilesOptions options;
  options.train = 500;
  options.evaluate = 500;
  options.seed = seed;
  return WriteDigitFiles(directory, options);
}

// Rows of ones and zeros, the label the sign of a sum.
absl::Status WriteA9a(const std::string& directory, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  for (int row = 0; row < 500; ++row) {
    std::string features;
    int sum = 0;
    for (int column = 1; column <= 123; ++column) {
      if (random() % 9 > 0) continue;
      absl::StrAppend(&features, " ", column, ":1");
      sum += column % 3 - 1;
    }
    absl::StrAppend(&text, sum > 0 ? "+1" : "-1", features, "\n");
  }
  absl::Status status = MakeFolder(directory);
  if (status.ok()) status = WriteBytes(absl::StrCat(directory, "/a9a"), text);
  return status;
}

// Pictures of noise around a brightness of their class.
absl::Status WriteCifar(const std::string& directory, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string records;
  for (int picture = 0; picture < 200; ++picture) {
    const int label = static_cast<int>(random() % 10);
    records.push_back(static_cast<char>(label));
    for (int i = 0; i < 3072; ++i) {
      records.push_back(static_cast<char>(random() % 128 + static_cast<unsigned>(label) * 12));
    }
  }
  absl::Status status = MakeFolder(directory);
  if (status.ok()) status = WriteBytes(absl::StrCat(directory, "/data_batch_1.bin"), records);
  return status;
}

// The emulation adds up in float64, so that there less has to grow; where Adam divides small
// gradients by small roots it matters on a real GPU alone, in a deep network always.
enum class FromOneState { kNever, kOnRealGpu, kAlways };

struct Example {
  const char* name;
  absl::Status (*write_data)(const std::string& directory, uint64_t seed);
  const char* real_data;  // A folder of MILLRACE_TEST_DATA; null: there are none.
  // On the emulation.
  uint32_t batch_size;
  int steps;
  // Where rounding grows from step to step, on processors too (docs/performance.md): each step is
  // begun on the GPU with what the processor has come to.
  FromOneState from_one_state = FromOneState::kNever;
};

const Example kExamples[] = {
    {"a9a_logistic", WriteA9a, "a9a", 32, 50},
    {"census_csv", WriteCensus, "census", 32, 50},
    {"census_wide_deep", WriteCensus, "census", 32, 50},
    {"cifar10_resnet", WriteCifar, "cifar-10-batches-bin", 2, 50, FromOneState::kAlways},
    {"digits", WriteDigits, nullptr, 4, 50, FromOneState::kOnRealGpu},
    {"image_folder", WriteShapes, nullptr, 2, 50, FromOneState::kOnRealGpu},
    {"mnist_cnn", WriteDigits, "mnist", 2, 3},
    {"mnist_cnn_sync", WriteDigits, "mnist", 2, 3},
    {"movielens_mf", WriteRatings, nullptr, 32, 50},
    {"regression_csv", WriteRegressionData, nullptr, 32, 50},
    {"two_inputs", WriteTwoInputs, nullptr, 4, 50},
    {"wide_mlp", WriteDigits, "mnist", 2, 1, FromOneState::kOnRealGpu},
};

bool BeginsEachStepAnew(const Example& example) {
  return example.from_one_state == FromOneState::kAlways ||
         (example.from_one_state == FromOneState::kOnRealGpu && worker::OnRealGpu());
}

int StepsOf(const Example& example) {
  if (worker::OnRealGpu()) return kStepsOnRealGpu;
  const char* const steps = std::getenv("MILLRACE_TEST_STEPS");
  if (steps == nullptr || *steps == 0) return example.steps;
  int number = 0;
  CHECK(absl::SimpleAtoi(steps, &number) && number > 0) << "MILLRACE_TEST_STEPS is " << steps;
  return number;
}

std::string RealData(const Example& example) {
  const char* const root = std::getenv("MILLRACE_TEST_DATA");
  if (root == nullptr || *root == 0 || example.real_data == nullptr) return "";
  const std::string directory = absl::StrCat(root, "/", example.real_data);
  return std::filesystem::is_directory(directory) ? directory : "";
}

JobSpec SpecOf(const Example& example) {
  std::ifstream file(absl::StrCat("examples/", example.name, ".textproto"));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  JobSpec spec = *ParseJobSpec(text, example.name);
  DataSpec& data = *spec.mutable_data();
  data.set_directory(RealData(example));
  if (data.directory().empty()) {
    data.set_directory(absl::StrCat(::testing::TempDir(), "/", example.name));
    EXPECT_EQ(example.write_data(data.directory(), /*seed=*/1), absl::OkStatus());
    data.mutable_train()->clear_range();
  }
  if (!worker::OnRealGpu()) spec.set_batch_size(std::min(spec.batch_size(), example.batch_size));
  return spec;
}

// Stops the process where the device or the job is refused.
std::unique_ptr<LocalTraining> StartOn(const std::string& device_name, const JobSpec& spec) {
  const auto lost = [](const absl::Status& why) { ADD_FAILURE() << why; };
  const auto device =
      worker::OpenDevice({.name = device_name}, lost, [] { return worker::TestLibrary(); });
  CHECK(device.ok()) << device.status();
  auto training = LocalTraining::Start(spec, *device);
  CHECK(training.ok()) << training.status();
  return *std::move(training);
}

double LossOf(LocalTraining* training) {
  const auto loss = training->Step();
  EXPECT_TRUE(loss.ok()) << loss.status();
  return loss.value_or(NAN);
}

class ExampleLossesTest : public ::testing::TestWithParam<Example> {};

TEST_P(ExampleLossesTest, AreTheSameOnAGpuAndOnAProcessor) {
  const Example& example = GetParam();
  const JobSpec spec = SpecOf(example);
  const int steps = StepsOf(example);
  const auto gpu = StartOn("cuda", spec);
  const auto cpu = StartOn("cpu", spec);
  double first = 0;
  double last = 0;
  double largest = 0;
  for (int step = 0; step < steps; ++step) {
    const double on_gpu = LossOf(gpu.get());
    last = LossOf(cpu.get());
    if (step == 0) first = last;
    const double difference = std::abs(on_gpu - last) / std::max(std::abs(last), kLeastLoss);
    largest = std::max(largest, difference);
    EXPECT_LE(difference, kTolerance) << "step " << step << ": " << on_gpu << " and " << last;
    if (BeginsEachStepAnew(example)) gpu->GoOnFrom(*cpu);
  }
  RecordProperty("largest_difference", absl::StrCat(largest));
  std::cout << example.name << ": " << steps << " steps of " << spec.batch_size()
            << " examples, losses from " << first << " to " << last << ", differ by at most "
            << largest << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Examples, ExampleLossesTest, ::testing::ValuesIn(kExamples),
                         [](const auto& instance) { return instance.param.name; });

const Example& ExampleOf(const std::string& name) {
  return *std::find_if(std::begin(kExamples), std::end(kExamples),
                       [&](const Example& example) { return example.name == name; });
}

// On the emulation with threads and streams in another order each time.
TEST(ExampleBitsTest, AreTheSameInEveryRepeat) {
  for (const char* name : {"cifar10_resnet", "movielens_mf", "two_inputs"}) {
    const JobSpec spec = SpecOf(ExampleOf(name));
    const int steps = worker::OnRealGpu() ? 5 : 1;
    const int repeats = worker::OnRealGpu() ? kRepeatsOnRealGpu : 2;
    std::vector<float> first;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      cuda_emulation::SetOrder(repeat);
      const auto training = StartOn("cuda", spec);
      for (int step = 0; step < steps; ++step) LossOf(training.get());
      const std::vector<float> values = training->Values();
      if (repeat == 0) first = values;
      ASSERT_EQ(std::memcmp(values.data(), first.data(), first.size() * sizeof(float)), 0)
          << name << ", repeat " << repeat;
    }
    std::cout << name << ": " << repeats << " repeats of " << steps
              << " steps end with the same bits" << std::endl;
  }
  cuda_emulation::Reset();
}

TEST(ExampleLossesOfAllTest, AllExamplesAreNamedHere) {
  for (const auto& entry : std::filesystem::directory_iterator("examples")) {
    if (entry.path().extension() != ".textproto") continue;
    EXPECT_TRUE(
        std::any_of(std::begin(kExamples), std::end(kExamples),
                    [&](const Example& example) { return entry.path().stem() == example.name; }))
        << entry.path();
  }
}

}  // namespace
}  // namespace millrace::testing
