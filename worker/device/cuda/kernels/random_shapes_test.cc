// Layers of shapes that nobody thought of, against the CPU. MILLRACE_SEED has others tried.
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {
namespace {

constexpr int kCases = 12;  // Of each test.
const Tolerance kRandomTolerance(/*of_y=*/1e-5, /*of_gradients=*/1e-4);

class RandomShapesTest : public ::testing::Test {
 protected:
  RandomShapesTest() {
    if (const char* const text = std::getenv("MILLRACE_SEED"); text != nullptr) {
      EXPECT_TRUE(absl::SimpleAtoi(text, &seed_)) << text;
    }
    random_.seed(seed_);
  }

  size_t From(size_t least, size_t most) { return least + random_() % (most - least + 1); }
  bool Perhaps() { return From(0, 1) == 1; }
  const char* OneOf(const std::vector<const char*>& names) {
    return names[From(0, names.size() - 1)];
  }
  // `last` is the most of the last dimension.
  Shape RandomShape(size_t dimensions, size_t last) {
    Shape shape;
    for (size_t i = 1; i < dimensions; ++i) shape.push_back(From(1, 9));
    shape.push_back(From(1, last));
    return shape;
  }
  // One that can be repeated to `shape`: dimensions are 1, or missing from the front.
  Shape Repeated(const Shape& shape) {
    Shape part(shape.begin() + static_cast<int64_t>(From(0, shape.size() - 1)), shape.end());
    for (auto& dimension : part) dimension = Perhaps() ? 1 : dimension;
    return part;
  }

  void ExpectCaseLikeCpu(const LayerCase& c) {
    std::string shapes;
    for (const Shape& input : c.plan.inputs) {
      absl::StrAppend(&shapes, " [", absl::StrJoin(input, ", "), "]");
    }
    SCOPED_TRACE(absl::StrCat("MILLRACE_SEED=", seed_, ": batch ", c.batch, " of", shapes));
    ExpectLikeCpu(c, kRandomTolerance);
  }

 private:
  uint32_t seed_ = 20261124;
  std::mt19937 random_;
};

TEST_F(RandomShapesTest, Normalizations) {
  for (int i = 0; i < kCases; ++i) {
    const std::string scale = Perhaps() ? "no_scale: true " : "";
    const std::string center = Perhaps() ? "no_center: true " : "";
    const char* const kind = OneOf({"batch_normalization", "layer_normalization"});
    ExpectCaseLikeCpu(MakeLayerCase(absl::StrCat(kind, " { ", scale, center, "}"),
                                    {RandomShape(From(1, 3), 70)}, From(2, 20),
                                    /*trainable=*/Perhaps()));
  }
}

TEST_F(RandomShapesTest, Dense) {
  for (int i = 0; i < kCases; ++i) {
    const std::string fields = absl::StrCat(
        "units: ", From(1, 70), " activation: ", OneOf({"LINEAR", "TANH", "SIGMOID", "SOFTMAX"}),
        Perhaps() ? " no_bias: true" : "");
    ExpectCaseLikeCpu(MakeLayerCase(absl::StrCat("dense { ", fields, " }"),
                                    {RandomShape(From(1, 3), 70)}, From(1, 20),
                                    /*trainable=*/Perhaps()));
  }
}

TEST_F(RandomShapesTest, Merges) {
  for (int i = 0; i < 2 * kCases; ++i) {
    const std::string kind = OneOf({"add", "subtract", "multiply", "average", "maximum"});
    const Shape whole = RandomShape(From(1, 4), 40);
    std::vector<Shape> inputs = {whole};
    const size_t count = kind == "subtract" ? 2 : From(2, 11);
    while (inputs.size() < count) inputs.push_back(Perhaps() ? whole : Repeated(whole));
    ExpectCaseLikeCpu(MakeLayerCase(kind + " {}", inputs, From(1, 5)));
  }
}

TEST_F(RandomShapesTest, Embeddings) {
  for (int i = 0; i < 2 * kCases; ++i) {
    const std::string pooling = OneOf({"NONE", "SUM", "MEAN"});
    const std::string spec =
        absl::StrCat("embedding { input_dim: ", From(1, 60), " output_dim: ", From(1, 70),
                     " pooling: ", pooling, " }");
    const size_t batch = From(1, 30);
    std::vector<size_t> lengths(pooling != "NONE" && Perhaps() ? batch : 0);
    for (size_t& length : lengths) length = From(0, 40);
    ExpectCaseLikeCpu(MakeEmbeddingCase(spec, RandomShape(From(1, 2), 9), batch, lengths,
                                        /*trainable=*/Perhaps()));
  }
}

}  // namespace
}  // namespace millrace::worker
