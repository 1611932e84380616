#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {
namespace {

constexpr double kEmbeddingTolerance = 2e-6;

std::string SpecOf(size_t rows, size_t dimension, const std::string& pooling) {
  return absl::StrCat("embedding { input_dim: ", rows, " output_dim: ", dimension,
                      " pooling: ", pooling, " }");
}

void ExpectExactSums(LayerCase c) {
  UseWholeNumbers(&c);
  ExpectLikeCpu(c, 0);
}

TEST(EmbeddingKernelTest, OneRowForEachId) {
  for (const size_t dimension : {1, 3, 31, 32, 33, 70}) {
    ExpectLikeCpu(MakeEmbeddingCase(SpecOf(1, dimension, "NONE"), {}, 1), kEmbeddingTolerance);
    ExpectLikeCpu(MakeEmbeddingCase(SpecOf(5, dimension, "NONE"), {}, 9), kEmbeddingTolerance);
    ExpectLikeCpu(MakeEmbeddingCase(SpecOf(50, dimension, "NONE"), {2, 3}, 4), kEmbeddingTolerance);
  }
}

TEST(EmbeddingKernelTest, RowsAreAddedUpOrAveraged) {
  for (const char* pooling : {"SUM", "MEAN"}) {
    for (const size_t dimension : {1, 16, 40}) {
      ExpectLikeCpu(MakeEmbeddingCase(SpecOf(5, dimension, pooling), {1}, 1), kEmbeddingTolerance);
      ExpectLikeCpu(MakeEmbeddingCase(SpecOf(7, dimension, pooling), {3}, 5), kEmbeddingTolerance);
      ExpectLikeCpu(MakeEmbeddingCase(SpecOf(100, dimension, pooling), {4, 5}, 6),
                    kEmbeddingTolerance);
    }
  }
}

TEST(EmbeddingKernelTest, AnyNumberOfIdsAndNone) {
  for (const char* pooling : {"SUM", "MEAN"}) {
    for (const std::vector<size_t>& lengths : std::vector<std::vector<size_t>>{
             {1}, {0}, {0, 0, 0}, {3, 0, 1, 7}, {0, 2, 0}, {100, 0, 1}}) {
      const std::string spec = SpecOf(6, 5, pooling);
      ExpectLikeCpu(MakeEmbeddingCase(spec, {}, lengths.size(), lengths), kEmbeddingTolerance);
    }
  }
}

TEST(EmbeddingKernelTest, NoIdsGiveZeros) {
  const LayerCase c = MakeEmbeddingCase(SpecOf(3, 4, "MEAN"), {}, 2, {0, 0});
  const LayerResult result = RunOnGpu(c);
  EXPECT_EQ(result.y, std::vector<float>(8));
  EXPECT_EQ(result.gradients[0], std::vector<float>(12));
}

// Runs up to 32 ids are added up by one warp, longer ones by a block.
TEST(EmbeddingKernelTest, IdsThatComeOften) {
  for (const size_t batch : {31, 32, 33, 34, 63, 64, 65, 300}) {
    for (const size_t dimension : {1, 33}) {
      ExpectExactSums(MakeEmbeddingCase(SpecOf(1, dimension, "NONE"), {}, batch));
      ExpectExactSums(MakeEmbeddingCase(SpecOf(3, dimension, "MEAN"), {2}, batch));
    }
  }
}

TEST(EmbeddingKernelTest, LongAndShortRunsSideBySide) {
  LayerCase c = MakeEmbeddingCase(SpecOf(40, 3, "SUM"), {10}, 60);
  for (size_t i = 0; i < c.ids.ids.size(); i += 2) c.ids.ids[i] = i % 3 == 0 ? 0 : 17;
  ExpectExactSums(c);
}

// The last ids are in runs that begin where blocks look at their second positions.
TEST(EmbeddingKernelTest, MoreIdsThanAGridHasWarps) {
  LayerCase c = MakeEmbeddingCase(SpecOf(20000, 2, "SUM"), {10}, 3500);
  for (size_t i = 0; i < c.ids.ids.size(); i += 10) c.ids.ids[i] = 19990 + i / 10 % 10;
  ExpectExactSums(c);
}

TEST(EmbeddingKernelTest, RowsFarDownATable) {
  LayerCase c = MakeEmbeddingCase(SpecOf(1000000, 3, "SUM"), {2}, 2);
  c.ids.ids = {999999, 0, 500000, 999999};
  ExpectLikeCpu(c, kEmbeddingTolerance);
}

TEST(EmbeddingKernelTest, GradientsAreSummedUpInAnyOrder) {
  for (const char* pooling : {"SUM", "MEAN"}) {
    LayerCase ragged = MakeEmbeddingCase(SpecOf(6, 33, pooling), {}, 5, {3, 0, 1, 70, 0});
    LayerCase even = MakeEmbeddingCase(SpecOf(9, 5, pooling), {3}, 40);
    for (LayerCase* c : {&ragged, &even}) {
      c->deterministic = false;
      ExpectLikeCpu(*c, kEmbeddingTolerance);
      UseWholeNumbers(c);
      ExpectLikeCpu(*c, pooling == std::string("SUM") ? 0 : kEmbeddingTolerance);
    }
  }
  LayerCase none = MakeEmbeddingCase(SpecOf(6, 5, "SUM"), {}, 2, {0, 0});
  none.deterministic = false;
  ExpectLikeCpu(none, 0);
}

TEST(EmbeddingKernelTest, FrozenTablesHaveNoGradient) {
  const LayerCase c = MakeEmbeddingCase(SpecOf(5, 3, "SUM"), {2}, 4, {}, /*trainable=*/false);
  ExpectLikeCpu(c, kEmbeddingTolerance);
  EXPECT_TRUE(RunOnGpu(c).gradients[0].empty());
}

}  // namespace
}  // namespace millrace::worker
