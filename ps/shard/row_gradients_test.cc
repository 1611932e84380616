// Gradients of some rows: what a shard makes of them is what it makes of a gradient with zeros
// elsewhere, to the bit, whatever the optimizer and the mode; and where a zero changes nothing, it
// takes no more memory than the rows.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_fixture.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeMessage;
using ::millrace::testing::MakeRowsPiece;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::millrace::testing::Values;
using ::testing::HasSubstr;

// A table of rows that divide neither blocks nor slices, in which it is cut twice; and a vector.
constexpr uint64_t kWidth = 7;
constexpr uint64_t kFirstOfSlice = 2 * kWidth + 3;
const std::vector<uint64_t> kTableLengths = {2 * kBlockElements + 77, 5};
constexpr size_t kTogether = 2 * kBlockElements + 82;

// A step's gradient: of some rows of the table, and of all of the vector.
struct RowGradient {
  std::vector<WirePiece> pieces;
  std::vector<float> all;  // The same with zeros.
};

class RowGradientsTest : public ShardTest {
 protected:
  static ShardSpec TableSpec(const std::string& optimizer, uint32_t replicas) {
    ShardSpec spec = MakeSpec(kTableLengths, replicas, /*total_steps=*/1000);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(optimizer, spec.mutable_optimizer()));
    for (ShardSlice& slice : *spec.mutable_slices()) {
      slice.mutable_initial_value()->mutable_uniform()->set_low(-1);
      slice.mutable_initial_value()->mutable_uniform()->set_high(1);
    }
    return spec;
  }

  float Random() { return static_cast<float>(random_()) * 0x1p-31f - 1; }

  // `first`: of the table's slice, in its variable.
  RowGradient MakeGradient(uint64_t first, size_t rows) {
    RowGradient gradient;
    gradient.all.resize(kTogether);
    const uint64_t last_row = (first + kTableLengths[0] - 1) / kWidth;
    std::set<uint64_t> numbers;
    // Some lie together, so that blocks without any are among the others.
    while (numbers.size() < rows) numbers.insert(first / kWidth + random_() % 50);
    if (rows > 2) numbers.insert(last_row);
    if (rows > 2) numbers.insert((first + kBlockElements) / kWidth);  // Cut by two blocks.
    for (const uint64_t row : numbers) {
      for (uint64_t element = row * kWidth; element < (row + 1) * kWidth; ++element) {
        if (element < first || element - first >= kTableLengths[0]) continue;
        gradient.all[element - first] = Random();
      }
    }
    AddPieces(first, {numbers.begin(), numbers.end()}, &gradient);
    for (size_t i = kTableLengths[0]; i < kTogether; ++i) gradient.all[i] = Random();
    gradient.pieces.push_back(
        MakeWirePiece(1, 0, absl::MakeConstSpan(gradient.all).subspan(kTableLengths[0])));
    return gradient;
  }

  // In one piece, or in one for the first block and one for the others.
  void AddPieces(uint64_t first, const std::vector<uint64_t>& numbers, RowGradient* gradient) {
    const uint64_t cut = random_() % 2 == 0 ? kTableLengths[0] : kBlockElements;
    for (uint64_t offset = 0; offset < kTableLengths[0];) {
      const uint64_t end = offset == 0 ? cut : kTableLengths[0];
      std::vector<uint64_t> rows;
      std::vector<float> values;
      for (const uint64_t row : numbers) {
        const size_t before = values.size();
        for (uint64_t element = row * kWidth; element < (row + 1) * kWidth; ++element) {
          if (element < first + offset || element >= first + end) continue;
          values.push_back(gradient->all[element - first]);
        }
        if (values.size() > before) rows.push_back(row);
      }
      gradient->pieces.push_back(MakeRowsPiece(0, offset, end - offset, kWidth, rows, values));
      offset = end;
    }
  }

  absl::optional<PushResponse> PushPieces(const std::vector<WirePiece>& pieces, uint64_t step) {
    absl::optional<PushResponse> answer;
    for (const WirePiece& piece : pieces) {
      answer = PushPiece(/*stream=*/1, step, /*push_id=*/step + 1, piece, 1 + step % 3);
    }
    return answer;
  }

  // The message of the refusal of a piece.
  std::string Refused(const WirePiece& piece) {
    const auto answer = PushPiece(/*stream=*/1, /*step=*/0, /*push_id=*/++push_id_, piece);
    if (!answer.has_value()) return "no answer";
    EXPECT_EQ(answer->code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
    return answer->message();
  }

  std::mt19937 random_{1};
  uint64_t push_id_ = 0;
};

class EveryUpdateOfRowsTest : public RowGradientsTest,
                              public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(All, EveryUpdateOfRowsTest,
                         ::testing::Values("sgd { learning_rate: 0.1 }",
                                           "sgd { learning_rate: 0.1 momentum: 0.9 }",
                                           "sgd { learning_rate: 0.1 } clip_value: 0.5",
                                           "sgd { learning_rate: 0.1 } clip_norm: 3",
                                           "adagrad { learning_rate: 0.1 }", "adam {}", "ftrl {}",
                                           "lamb { learning_rate: 0.1 }"));

TEST_P(EveryUpdateOfRowsTest, IsThatOfAGradientWithZeros) {
  const std::string optimizer = GetParam();
  const bool whole_variables =
      optimizer.find("lamb") != std::string::npos || optimizer.find("norm") != std::string::npos;
  for (const uint64_t first : {uint64_t{0}, kFirstOfSlice}) {
    if (first > 0 && whole_variables) continue;
    for (const uint32_t replicas : {0, 1, 3}) {
      ShardSpec spec = TableSpec(optimizer, replicas);
      spec.mutable_slices(0)->mutable_slice()->set_offset(first);
      std::vector<RowGradient> gradients;
      for (const size_t rows : {20, 0, 3, 1, 50, 20}) {
        gradients.push_back(MakeGradient(first, rows));
      }
      Make(spec);
      for (uint64_t step = 0; step < gradients.size(); ++step) {
        ASSERT_EQ(PushWhole(shard_.get(), step, step + 1, gradients[step].all, 1 + step % 3).code(),
                  0);
      }
      const auto expected = AllArrays();
      Make(spec);
      for (uint64_t step = 0; step < gradients.size(); ++step) {
        const auto answer = PushPieces(gradients[step].pieces, step);
        ASSERT_TRUE(answer.has_value());
        ASSERT_EQ(answer->code(), 0) << answer->message();
      }
      EXPECT_EQ(AllArrays(), expected) << replicas << " replicas, from element " << first;
    }
  }
}

TEST_F(RowGradientsTest, NormOverAllShardsIsThatOfTheRows) {
  ShardSpec spec = TableSpec("sgd { learning_rate: 0.1 } global_clip_norm: 1", /*replicas=*/1);
  const RowGradient gradient = MakeGradient(0, 20);
  MeasureVersionRequest measure;
  measure.set_generation(1);
  std::vector<std::string> measured;
  for (const bool rows : {true, false}) {
    Make(spec);
    if (rows) {
      PushPieces(gradient.pieces, 0);
    } else {
      PushWhole(shard_.get(), 0, 1, gradient.all);
    }
    const auto response = shard_->MeasureVersion(measure);
    ASSERT_TRUE(response.ok()) << response.status();
    ASSERT_EQ(response->state(), MeasureVersionResponse::MEASURED);
    measured.push_back(response->SerializeAsString());
  }
  EXPECT_EQ(measured[0], measured[1]);
}

// Pulls, pinned cuts and cuts that are being written hold states for any time.
TEST_F(RowGradientsTest, StatesThatAreReadDoNotChange) {
  Make(TableSpec("adagrad { learning_rate: 0.1 }", /*replicas=*/0));
  std::vector<StatePtr> states;
  std::vector<std::vector<float>> values;
  for (uint64_t step = 0; step < 30; ++step) {
    ASSERT_EQ(PushPieces(MakeGradient(0, 5).pieces, step)->code(), 0);
    if (step % 3 == 0) states.push_back(Newest(shard_.get()));
    if (step % 3 == 0) values.push_back(Values(*states.back()));
    if (step % 7 == 6) states[step / 7].reset();  // Some are let go of, early or late.
  }
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] == nullptr) continue;
    EXPECT_EQ(Values(*states[i]), values[i]) << i;
  }
}

// The first push has the turn, and is overtaken by the second: it is computed again on its result.
TEST_F(RowGradientsTest, PushThatIsOvertakenIsAppliedOnTheOthersResult) {
  Make(TableSpec("sgd { learning_rate: 1 }", /*replicas=*/0));
  const std::vector<float> before = Values(*Newest(shard_.get()));
  const RowGradient slow = MakeGradient(0, 10);
  const RowGradient fast = MakeGradient(0, 10);
  EXPECT_FALSE(PushPiece(1, /*step=*/0, /*push_id=*/1, slow.pieces[0]).has_value());
  for (size_t i = 0; i + 1 < fast.pieces.size(); ++i) {
    EXPECT_FALSE(PushPiece(2, /*step=*/1, /*push_id=*/2, fast.pieces[i]).has_value());
  }
  EXPECT_EQ(PushPiece(2, 1, 2, fast.pieces.back())->outcome(), PushResponse::APPLIED);
  for (size_t i = 1; i + 1 < slow.pieces.size(); ++i) PushPiece(1, 0, 1, slow.pieces[i]);
  EXPECT_EQ(PushPiece(1, 0, 1, slow.pieces.back())->outcome(), PushResponse::APPLIED);
  std::vector<float> expected = before;
  for (size_t i = 0; i < expected.size(); ++i) expected[i] -= fast.all[i];
  for (size_t i = 0; i < expected.size(); ++i) expected[i] -= slow.all[i];
  EXPECT_EQ(Values(*Newest(shard_.get())), expected);
}

TEST_F(RowGradientsTest, BlockWithoutARowStaysWhereItIs) {
  Make(MakeSpec({3 * kBlockElements}));
  const std::vector<float> values(4, 1);
  ASSERT_EQ(
      PushPieces({MakeRowsPiece(0, 0, 3 * kBlockElements, 4, {kBlockElements / 4}, values)}, 0)
          ->code(),
      0);
  const StatePtr before = Newest(shard_.get());
  ASSERT_EQ(
      PushPieces({MakeRowsPiece(0, 0, 3 * kBlockElements, 4, {kBlockElements / 4}, values)}, 1)
          ->code(),
      0);
  const StatePtr after = Newest(shard_.get());
  EXPECT_EQ(after->version, 2u);
  EXPECT_EQ(before->blocks[0], after->blocks[0]);
  EXPECT_NE(before->blocks[1], after->blocks[1]);
  EXPECT_EQ(before->blocks[2], after->blocks[2]);
  EXPECT_EQ(after->blocks[1]->values()[0], -2);
}

TEST_F(RowGradientsTest, RowsUnderWayTakeWhatTheyAre) {
  spare_.emplace(1 << 30);
  Make(MakeSpec({3 * kBlockElements, 1}));
  const std::vector<float> values(kWidth, 1);
  ASSERT_FALSE(
      PushPiece(1, 0, 1, MakeRowsPiece(0, 0, 3 * kBlockElements, kWidth, {3}, values)).has_value());
  const uint64_t state = (3 * kBlockElements + 1) * sizeof(float);
  EXPECT_LT(shard_->Status().memory_bytes(), state + 1000);
}

TEST_F(RowGradientsTest, RowsThatAreWrongAreRefusedByName) {
  ShardSpec spec = MakeSpec({kBlockElements + 8, 6});
  spec.mutable_slices(1)->mutable_update()->mutable_moving_average()->set_momentum(0.5);
  Make(spec);
  constexpr uint64_t kAll = kBlockElements + 8;
  const std::vector<float> four(4, 1);
  EXPECT_EQ(Refused(MakeRowsPiece(0, 0, kAll, 4, {2}, four)), "no answer");
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, kAll, 0, {2}, four)), HasSubstr("rows.width: 0"));
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, kAll, 4, {2, 2}, four)), HasSubstr("2 after 2"));
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, kAll, 4, {kAll / 4}, four)),
              HasSubstr("rows.rows[0]: 65538; must be from 0 to 65537"));
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, kAll, 4, {2, 3}, four)),
              HasSubstr("row_elements: 4 numbers; the rows have 8"));
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, 0, 4, {}, {})), HasSubstr("rows.count: 0"));
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, kAll - 1, 4, {2}, four)),
              HasSubstr("rows.count: 262151; a piece with rows ends at a multiple of 262144 or"));
  EXPECT_THAT(Refused(MakeRowsPiece(0, 4, kAll - 4, 4, {2}, four)),
              HasSubstr("offset: 4; a piece with rows begins at"));
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, kAll + 1, 4, {2}, four)), HasSubstr("has 262152"));
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, ~uint64_t{0}, 4, {2}, four)), HasSubstr("has 262152"));
  EXPECT_THAT(Refused(MakeRowsPiece(1, 0, 6, 2, {2}, {1, 1})),
              HasSubstr("variable 'variable_1' is a moving average"));
  const std::vector<float> bad = {1, 1, 1, 1, 1, NAN, 1, 1};
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, kAll, 4, {2, 65536}, bad)),
              HasSubstr("'variable_0' has nan at element 262145"));
}

TEST_F(RowGradientsTest, RowsMustComeInTheShardsEncodingToo) {
  ShardSpec spec = MakeSpec({8}, /*replicas=*/1);
  spec.set_wire(Encoding::BFLOAT16);
  Make(spec);
  const std::vector<float> two(2, 1);
  EXPECT_THAT(Refused(MakeRowsPiece(0, 0, 8, 2, {2}, two)),
              HasSubstr("piece.rows.encoding: FLOAT32, for the gradient"));
  const auto answer = PushPiece(1, 0, 99, MakeRowsPiece(0, 0, 8, 2, {2}, two, Encoding::BFLOAT16));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->outcome(), PushResponse::APPLIED) << answer->message();
}

}  // namespace
}  // namespace millrace::ps
