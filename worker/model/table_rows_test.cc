#include "worker/model/table_rows.h"

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// Of a model with features of ids, "id" and "more", and labels of numbers.
std::vector<TableRows> TablesOf(const std::string& layers) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      layers + " layers { name: 'end' dense { units: 1 } } loss: MEAN_SQUARED_ERROR", &spec));
  ExampleSpec examples;
  for (const char* name : {"id", "more"}) {
    TensorSpec& feature = examples.features.emplace_back();
    feature.name = name;
    feature.type = ElementType::kId;
    feature.shape = {2};
  }
  examples.labels.emplace_back().name = "y";
  const absl::StatusOr<ModelPlan> plan = PlanModel(spec, examples);
  if (!plan.ok()) {
    ADD_FAILURE() << plan.status();
    return {};
  }
  return FindTableRows(*plan);
}

std::vector<size_t> WidthsOf(const std::string& layers) {
  std::vector<size_t> widths;
  for (const TableRows& table : TablesOf(layers)) widths.push_back(table.width);
  return widths;
}

TEST(TableRowsTest, LargeTableOfOneEmbeddingTravelsByRows) {
  EXPECT_THAT(
      WidthsOf("layers { inputs: 'more' embedding { input_dim: 65536 output_dim: 3 pooling: "
               "SUM } }"),
      ElementsAre(3, 0, 0));
  EXPECT_THAT(
      WidthsOf("layers { inputs: 'id' embedding { input_dim: 21845 output_dim: 3 pooling: SUM } }"),
      ElementsAre(0, 0, 0))
      << "65,535 elements";
}

TEST(TableRowsTest, RegularizedTableTravelsAsAWhole) {
  EXPECT_THAT(WidthsOf("layers { inputs: 'id' embedding { input_dim: 65536 output_dim: 3 pooling: "
                       "SUM embeddings_regularizer { l2: 0.1 } } }"),
              ElementsAre(0, 0, 0));
}

TEST(TableRowsTest, TableThatEmbeddingsShareHasTheRowsOfAllTheirFeatures) {
  const std::vector<TableRows> tables = TablesOf(
      "layers { name: 'a' inputs: 'more' embedding { input_dim: 65536 output_dim: 3 pooling: SUM } "
      "} layers { name: 'b' inputs: 'id' variables_of: 'a' embedding { input_dim: 65536 "
      "output_dim: 3 pooling: SUM } } layers { name: 'c' inputs: 'id' variables_of: 'a' embedding "
      "{ input_dim: 65536 output_dim: 3 pooling: MEAN } } layers { inputs: ['a', 'b', 'c'] add {} "
      "}");
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].width, 3u);
  EXPECT_EQ(tables[0].rows, 65536u);
  EXPECT_THAT(tables[0].features, ElementsAre(0, 1));
}

TEST(TableRowsTest, FrozenTableIsPulledByRows) {
  EXPECT_THAT(WidthsOf("layers { inputs: 'id' trainable: false embedding { input_dim: 65536 "
                       "output_dim: 3 pooling: SUM } }"),
              ElementsAre(3, 0, 0));
}

TEST(TableRowsTest, RowsAreTheDistinctIdsOfTheFeatures) {
  Batch batch;
  batch.size = 2;
  batch.features = {IdTensor({1, 5}), IdTensor({7, 300, 7, 2}), IdTensor({9, 2})};
  EXPECT_THAT(RowsOfBatch({1}, 65536, batch).rows(), ElementsAre(2, 7, 300));
  EXPECT_THAT(RowsOfBatch({1, 2}, 65536, batch).rows(), ElementsAre(2, 7, 9, 300));
}

// Both ways of finding them.
TEST(TableRowsTest, DistinctRowsAreThoseOfASet) {
  std::mt19937_64 random(1);
  for (const uint64_t rows : {1, 64, 65, 1000, 1000000}) {
    for (const size_t count : {0, 1, 50, 2000}) {
      std::vector<int64_t> ids(count);
      std::set<uint64_t> expected;
      for (int64_t& id : ids) {
        id = static_cast<int64_t>(random() % (rows + rows / 10 + 1)) - 1;
        if (id >= 0 && static_cast<uint64_t>(id) < rows) expected.insert(id);
      }
      const auto all = absl::MakeConstSpan(ids);
      const DistinctRows distinct({all.subspan(0, count / 3), all.subspan(count / 3)}, rows);
      ASSERT_THAT(distinct.rows(), ElementsAreArray(expected)) << rows << " " << count;
      for (size_t i = 0; i < distinct.rows().size(); ++i) {
        ASSERT_EQ(distinct.IndexOf(static_cast<int64_t>(distinct.rows()[i])), i);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::worker
