// Models that nobody thought of on GPUs, against the processor. MILLRACE_SEED has others tried, and
// MILLRACE_TEST_MODELS so many of them.
#include "worker/device/model_tests/random_models.h"

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/seed/test_seed.h"
#include "worker/device/cuda/random_model_check.h"
#include "worker/device/cuda/test_library.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {
namespace {

// A model of each variation, and some more.
uint64_t ModelCount() {
  uint64_t count = 28;
  const char* const text = std::getenv("MILLRACE_TEST_MODELS");
  CHECK(text == nullptr || absl::SimpleAtoi(text, &count)) << "MILLRACE_TEST_MODELS: " << text;
  return count;
}

TEST(RandomModelsTest, GpusDoWhatTheProcessorDoes) {
  MILLRACE_NEEDS_EMULATION();
  const uint64_t first = TestSeedOr(1);
  for (uint64_t seed = first; seed < first + ModelCount(); ++seed) {
    const RandomModel model = MakeRandomModel(seed);
    const auto variation = static_cast<ModelVariation>(seed % kModelVariations);
    EXPECT_EQ(absl::StrJoin(CheckRandomModel(model, variation, seed), "\n"), "")
        << "MILLRACE_SEED=" << seed << ": " << model.spec.ShortDebugString();
  }
  cuda_emulation::Reset();
}

// What is written is what the plan takes, and has every layer that there is.
TEST(RandomModelsTest, AllKindsOfLayersAreThere) {
  constexpr uint64_t kModels = 500;
  std::set<int> kinds;
  for (uint64_t seed = 0; seed < kModels; ++seed) {
    const RandomModel model = MakeRandomModel(seed);
    const auto plan = PlanModel(model.spec, model.examples);
    EXPECT_TRUE(plan.ok()) << seed << ": " << plan.status() << model.spec.ShortDebugString();
    for (const LayerSpec& layer : model.spec.layers()) kinds.insert(layer.kind_case());
  }
  const auto* const layers = LayerSpec::descriptor()->FindOneofByName("kind");
  EXPECT_EQ(kinds.size(), static_cast<size_t>(layers->field_count()));
}

}  // namespace
}  // namespace millrace::worker
