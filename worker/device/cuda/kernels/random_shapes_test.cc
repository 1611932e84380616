// Layers of shapes that nobody thought of, against the CPU and against float64. MILLRACE_SEED has
// others tried.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/kernels/testing/differences.h"
#include "worker/device/cuda/kernels/testing/random_choices.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {
namespace {

constexpr int kCases = 12;  // Of each test.
const Tolerance kRandomTolerance(/*of_y=*/1e-5, /*of_gradients=*/1e-4);
const Tolerance kRandomFloat64Tolerance(/*of_y=*/1e-5, /*of_gradients=*/2e-5);

class RandomShapesTest : public ::testing::Test, protected RandomChoices {
 protected:
  // One that can be repeated to `shape`: dimensions are 1, or missing from the front.
  Shape Repeated(const Shape& shape) {
    Shape part(shape.begin() + static_cast<int64_t>(From(0, shape.size() - 1)), shape.end());
    for (auto& dimension : part) dimension = Perhaps() ? 1 : dimension;
    return part;
  }

  // `least`: of height and width. `last`: the most of the channels.
  Shape Image(size_t least, size_t last) {
    return {From(least, least + 6), From(least, least + 6), From(1, last)};
  }

  // `cpu`: how close to the CPU's.
  void ExpectCase(LayerCase c, const Tolerance& cpu = kRandomTolerance) {
    std::string shapes;
    for (const Shape& input : c.plan.inputs) {
      absl::StrAppend(&shapes, " [", absl::StrJoin(input, ", "), "]");
    }
    SCOPED_TRACE(absl::StrCat(SeedString(), ": batch ", c.batch, " of", shapes));
    KeepFromKinks(&c);
    ExpectLikeCpu(c, cpu);
    ExpectLikeFloat64(c, Steps::kTogether, kRandomFloat64Tolerance);
  }
};

TEST_F(RandomShapesTest, Normalizations) {
  for (int i = 0; i < kCases; ++i) {
    const std::string scale = Perhaps() ? "no_scale: true " : "";
    const std::string center = Perhaps() ? "no_center: true " : "";
    const char* const kind = OneOf({"batch_normalization", "layer_normalization"});
    ExpectCase(MakeLayerCase(absl::StrCat(kind, " { ", scale, center, "}"),
                             {RandomShape(From(1, 3), 70)}, From(2, 20),
                             /*trainable=*/Perhaps()));
  }
}

TEST_F(RandomShapesTest, Dense) {
  for (int i = 0; i < kCases; ++i) {
    const std::string function = OneOf({"LINEAR", "TANH", "SIGMOID", "SOFTMAX", "RELU"});
    const std::string fields =
        absl::StrCat("units: ", From(1, 70), " activation: ", function,
                     function != "RELU" && Perhaps() ? " no_bias: true" : "");
    ExpectCase(MakeLayerCase(absl::StrCat("dense { ", fields, " }"), {RandomShape(From(1, 3), 70)},
                             From(1, 20),
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
    ExpectCase(MakeLayerCase(kind + " {}", inputs, From(1, 5)));
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
    ExpectCase(MakeEmbeddingCase(spec, RandomShape(From(1, 2), 9), batch, lengths,
                                 /*trainable=*/Perhaps()));
  }
}

TEST_F(RandomShapesTest, Activations) {
  for (int i = 0; i < 2 * kCases; ++i) {
    const char* const function = OneOf({"RELU", "SIGMOID", "SOFTMAX", "TANH", "RELU6", "ELU",
                                        "LEAKY_RELU", "SILU", "GELU", "GELU_TANH"});
    LayerCase c = MakeLayerCase(absl::StrCat("activation { function: ", function, " }"),
                                {RandomShape(From(1, 3), 300)}, From(1, 4));
    for (float& x : c.x[0]) x *= 8;
    ExpectCase(c, 2e-6);
  }
}

TEST_F(RandomShapesTest, Convolutions) {
  for (int i = 0; i < kCases; ++i) {
    const size_t groups = From(1, 2);
    const bool strided = Perhaps();
    const std::string spec = absl::StrCat(
        "conv2d { filters: ", groups * From(1, 9), " groups: ", groups, " kernel_size: [",
        From(1, 3), ", ", From(1, 3), "] strides: ", strided ? From(1, 3) : 1,
        " dilation_rate: ", strided ? 1 : From(1, 2), " padding: ", OneOf({"VALID", "SAME"}),
        " activation: ", OneOf({"LINEAR", "RELU", "TANH", "SOFTMAX", "ELU"}), " }");
    Shape image = Image(5, 9);
    image.back() *= groups;
    ExpectCase(MakeLayerCase(spec, {image}, From(1, 3), /*trainable=*/Perhaps()));
  }
}

TEST_F(RandomShapesTest, DepthwiseConvolutions) {
  for (int i = 0; i < kCases; ++i) {
    const std::string spec = absl::StrCat(
        "depthwise_conv2d { depth_multiplier: ", From(1, 3), " kernel_size: [", From(1, 4), ", ",
        From(1, 4), "] strides: ", From(1, 3), " padding: ", OneOf({"VALID", "SAME"}),
        " activation: ", OneOf({"LINEAR", "RELU6", "SIGMOID"}), " }");
    ExpectCase(MakeLayerCase(spec, {Image(4, 40)}, From(1, 3), /*trainable=*/Perhaps()));
  }
}

TEST_F(RandomShapesTest, ConvolutionsOfSequences) {
  for (int i = 0; i < kCases; ++i) {
    const std::string spec =
        absl::StrCat("conv1d { filters: ", From(1, 20), " kernel_size: ", From(1, 5),
                     " padding: ", OneOf({"VALID", "SAME", "CAUSAL"}),
                     Perhaps() ? absl::StrCat(" strides: ", From(1, 4))
                               : absl::StrCat(" dilation_rate: ", From(1, 2)),
                     " no_bias: ", Perhaps() ? "true" : "false", " }");
    ExpectCase(MakeLayerCase(spec, {{From(9, 30), From(1, 20)}}, From(1, 3)));
  }
}

TEST_F(RandomShapesTest, Poolings) {
  for (int i = 0; i < 2 * kCases; ++i) {
    const std::string kind = OneOf({"max_pool", "average_pooling"});
    const std::string rest = absl::StrCat(" padding: ", OneOf({"VALID", "SAME"}), " }");
    if (Perhaps()) {
      const std::string spec =
          absl::StrCat(kind, "1d { pool_size: ", From(1, 6), " strides: ", From(1, 6), rest);
      ExpectCase(MakeLayerCase(spec, {{From(6, 30), From(1, 40)}}, From(1, 3)), 1e-6);
    } else {
      const std::string spec =
          absl::StrCat(kind, "2d { pool_size: [", From(1, 4), ", ", From(1, 4), "] strides: [",
                       From(1, 5), ", ", From(1, 5), "]", rest);
      ExpectCase(MakeLayerCase(spec, {Image(4, 40)}, From(1, 3)), 1e-6);
    }
  }
}

TEST_F(RandomShapesTest, GlobalPoolings) {
  for (int i = 0; i < 2 * kCases; ++i) {
    const std::string kind = OneOf({"global_max_pooling", "global_average_pooling"});
    const size_t dimensions = From(1, 2);
    Shape shape = {From(1, 50), From(1, 70)};
    if (dimensions == 2) shape = RandomShape(3, 70);
    ExpectCase(MakeLayerCase(absl::StrCat(kind, dimensions, "d {}"), {shape}, From(1, 5)), 1e-6);
  }
}

TEST_F(RandomShapesTest, Dropouts) {
  for (int i = 0; i < kCases; ++i) {
    const double rate = static_cast<double>(From(0, 99)) / 100;
    LayerCase c = MakeLayerCase(absl::StrCat("dropout { rate: ", rate, " }"),
                                {RandomShape(From(1, 3), 300)}, From(1, 9));
    c.seed = uint64_t{(*random())()} << 32 | (*random())();
    c.index = From(0, 9999);
    ExpectCase(c, 0);
  }
}

TEST_F(RandomShapesTest, Concatenations) {
  for (int i = 0; i < kCases; ++i) {
    const Shape first = RandomShape(From(1, 4), 9);
    const size_t axis = From(1, first.size());
    std::vector<Shape> inputs(Perhaps() ? From(2, 5) : From(30, 40), first);
    for (Shape& input : inputs) input[axis - 1] = From(1, 9);
    ExpectCase(MakeLayerCase(absl::StrCat("concatenate { axis: ", axis, " }"), inputs, From(1, 3)),
               0);
  }
}

TEST_F(RandomShapesTest, Permutations) {
  for (int i = 0; i < kCases; ++i) {
    std::vector<size_t> dims(From(2, 5));
    std::iota(dims.begin(), dims.end(), 1);
    // In order it is a view.
    while (std::is_sorted(dims.begin(), dims.end())) {
      std::shuffle(dims.begin(), dims.end(), *random());
    }
    ExpectCase(MakeLayerCase(absl::StrCat("permute { dims: [", absl::StrJoin(dims, ", "), "] }"),
                             {RandomShape(dims.size(), 40)}, From(1, dims.size() > 4 ? 2 : 5)),
               0);
  }
}

TEST_F(RandomShapesTest, ZeroPaddings) {
  for (int i = 0; i < kCases; ++i) {
    const std::string sides = absl::StrJoin({From(0, 4), From(0, 4), From(0, 4), From(0, 4)}, ", ");
    ExpectCase(MakeLayerCase(absl::StrCat("zero_padding2d { padding: [", sides, "] }"),
                             {RandomShape(3, 40)}, From(1, 4)),
               0);
  }
}

TEST_F(RandomShapesTest, UpSamplings) {
  for (int i = 0; i < kCases; ++i) {
    const std::string spec =
        absl::StrCat("up_sampling2d { size: [", From(1, 5), ", ", From(1, 5), "] }");
    ExpectCase(MakeLayerCase(spec, {RandomShape(3, 20)}, From(1, 3)), 1e-6);
  }
}

TEST_F(RandomShapesTest, Rescalings) {
  for (int i = 0; i < kCases; ++i) {
    const std::string spec =
        absl::StrCat("rescaling { scale: ", 0.125 * static_cast<double>(From(0, 40)) - 2,
                     " offset: ", static_cast<double>(From(0, 9)) - 4, " }");
    ExpectCase(MakeLayerCase(spec, {RandomShape(From(1, 3), 300)}, From(1, 4)), 1e-6);
  }
}

}  // namespace
}  // namespace millrace::worker
