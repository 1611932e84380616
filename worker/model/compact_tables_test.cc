#include "worker/model/compact_tables.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

constexpr double kFloat = sizeof(float);

// Of features "words" (lists of ids) and "pair" (two ids).
ModelPlan PlanOfIds(const std::string& layers) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      layers + " layers { dense { units: 1 no_bias: true } } loss: MEAN_SQUARED_ERROR", &spec));
  ExampleSpec examples;
  for (const char* name : {"words", "pair"}) {
    TensorSpec& feature = examples.features.emplace_back();
    feature.name = name;
    feature.type = ElementType::kId;
  }
  examples.features[0].ragged = true;
  examples.features[1].shape = {2};
  examples.labels.emplace_back().name = "y";
  absl::StatusOr<ModelPlan> plan = PlanModel(spec, examples);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::vector<uint64_t> RowsOf(const ModelPlan& plan) {
  std::vector<uint64_t> rows;
  for (const VariableSpec& variable : plan.variables) rows.push_back(variable.shape(0));
  return rows;
}

constexpr char kShared[] =
    "layers { name: 'history' inputs: 'words' embedding { input_dim: 30000 output_dim: 4 pooling: "
    "MEAN } } layers { name: 'next' inputs: 'pair' variables_of: 'history' embedding { input_dim: "
    "30000 output_dim: 4 pooling: SUM } } layers { name: 'other' inputs: 'pair' embedding { "
    "input_dim: 20000 output_dim: 7 pooling: SUM } } layers { name: 'small' inputs: 'pair' "
    "embedding { input_dim: 9 output_dim: 2 pooling: SUM } } layers { inputs: ['history', 'next', "
    "'other', 'small'] concatenate {} }";

TEST(CompactTablesTest, HaveRoomForTheRowsOfABatch) {
  const ModelPlan compact = PlanForDevice(PlanOfIds(kShared), {8, 20});
  EXPECT_THAT(RowsOf(compact), ElementsAre(8 * 16 + 8 * 2, 8 * 2, 9, 17));
  const double tables = 4 * 30000 + 7 * 20000;
  const double gradients = 4 * 144 + 7 * 16;
  const double others = 9 * 2 + 17;  // While the model is made anew.
  EXPECT_EQ(compact.host_bytes, kFloat * (tables + gradients + others));
}

TEST(CompactTablesTest, HaveNoMoreRoomThanRows) {
  const std::string table =
      "layers { inputs: 'pair' embedding { input_dim: 1000 output_dim: 100 pooling: SUM } }";
  const ModelPlan compact = PlanForDevice(PlanOfIds(table), {800, 0});
  EXPECT_THAT(RowsOf(compact), ElementsAre(1000, 100));
  EXPECT_EQ(compact.host_bytes, kFloat * (100 * 1000 + 100 * 1000));
}

TEST(CompactTablesTest, WhoHasNoneIsLeftAsItIs) {
  const std::string small =
      "layers { inputs: 'pair' embedding { input_dim: 9 output_dim: 2 pooling: SUM } }";
  const ModelPlan plan = PlanForDevice(PlanOfIds(small), {8, 0});
  EXPECT_THAT(RowsOf(plan), ElementsAre(9, 2));
  EXPECT_EQ(plan.host_bytes, 0);
  EXPECT_FALSE(CompactTables(PlanOfIds(small)).any());
}

TEST(CompactTablesTest, IdsAreNumberedInTheirTablesRows) {
  const CompactTables tables(PlanOfIds(kShared));
  Batch batch;
  batch.size = 2;
  batch.features = {IdTensor({500, 3, 500}), IdTensor({7, 3, 8, 7})};
  batch.features[0].ends = {0, 3};
  batch.labels.resize(1);
  batch.labels[0].floats = {1, 2};
  CompactBatch compact;
  for (int again = 0; again < 2; ++again) {
    tables.Translate(batch, &compact);
    EXPECT_THAT(compact.rows[0]->rows, ElementsAre(3, 7, 8, 500));
    EXPECT_THAT(compact.rows[1]->rows, ElementsAre(3, 7, 8));
    EXPECT_EQ(compact.rows[2], nullptr) << "it is small";
    const std::vector<Tensor>& features = compact.batch.features;
    ASSERT_EQ(features.size(), 4u);
    EXPECT_THAT(features[0].ids, ElementsAre(3, 0, 3)) << "of the shared table, in its place";
    EXPECT_THAT(features[0].ends, ElementsAre(0, 3));
    EXPECT_THAT(features[1].ids, ElementsAre(7, 3, 8, 7)) << "of the small table";
    EXPECT_THAT(features[2].ids, ElementsAre(1, 0, 2, 1)) << "of the shared table";
    EXPECT_THAT(features[3].ids, ElementsAre(1, 0, 2, 1)) << "of the other one";
    EXPECT_THAT(compact.batch.labels[0].floats, ElementsAre(1, 2));
  }
}

TEST(CompactTablesTest, GrowWhereABatchNeedsMore) {
  const CompactTables tables(PlanOfIds(kShared));
  CompactBatch batch;
  batch.rows.resize(4);
  batch.rows[0] = std::make_shared<VariableRows>(VariableRows{4, std::vector<uint64_t>(150)});
  batch.rows[1] = std::make_shared<VariableRows>(VariableRows{7, std::vector<uint64_t>(16)});
  const CompactTables::Rooms rooms = tables.RoomsFor(8);
  EXPECT_FALSE(CompactTables::Fits(rooms, batch));
  EXPECT_THAT(tables.Grown(rooms, batch, 1), ElementsAre(150, 16, 0, 0));
  EXPECT_THAT(tables.Grown(rooms, batch, 2), ElementsAre(300, 16, 0, 0));
  EXPECT_THAT(tables.Grown(rooms, batch, 1000), ElementsAre(30000, 16, 0, 0));
  EXPECT_TRUE(CompactTables::Fits(tables.Grown(rooms, batch, 1), batch));
}

}  // namespace
}  // namespace millrace::worker
