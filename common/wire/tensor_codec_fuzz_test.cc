// Messages with random damage, in random slices: the codec must agree with protobuf's own parser on
// which of them are valid and on what they say. MILLRACE_SEED repeats a run.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "common/wire/encoding.h"
#include "common/wire/piece_elements.h"
#include "common/wire/tensor_codec.h"
#include "common/wire/wire_test_util.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.pb.h"
#include "testing/seed/test_seed.h"

namespace millrace {
namespace {

#ifdef MILLRACE_SANITIZER
constexpr int kRounds = 20'000;
#else
constexpr int kRounds = 200'000;
#endif

class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed) : random_(seed) {}

  size_t Below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }

  std::string Message() {
    PushRequest push;
    if (Below(2) == 0) push.set_job_id(std::string(Below(20), 'j'));
    if (Below(2) == 0) push.set_shard(static_cast<uint32_t>(random_()));
    if (Below(2) == 0) push.set_step(random_());
    if (Below(2) == 0) push.set_push_id(random_());
    for (size_t i = Below(4); i > 0; --i) {
      Piece* piece = push.add_pieces();
      if (Below(2) == 0) piece->set_slice(static_cast<uint32_t>(Below(300)));
      if (Below(2) == 0) piece->set_offset(random_() >> Below(64));
      switch (Below(5)) {
        case 4:
          AddRows(piece);
          break;
        case 0:
          piece->set_float16(std::string(2 * Below(50), 'd'));
          break;
        case 1:
          piece->set_bfloat16(std::string(2 * Below(50), 'd'));
          break;
        default:
          piece->set_data(std::string(4 * Below(50), 'd'));
      }
    }
    return push.SerializeAsString();
  }

  void AddRows(Piece* piece) {
    PieceRows* rows = piece->mutable_rows();
    rows->set_encoding(static_cast<Encoding::Kind>(Below(3)));
    rows->set_count(random_() >> Below(64));
    rows->set_width(Below(5));
    for (size_t i = Below(5); i > 0; --i) rows->add_rows(random_() >> Below(64));
    piece->set_row_elements(std::string(2 * Below(20), 'd'));
  }

  // One to four small changes, of the kinds that break parsers.
  void Damage(std::string* bytes) {
    static constexpr unsigned char kTelling[] = {0x00, 0x01, 0x0b, 0x0c, 0x1a, 0x1b, 0x32,
                                                 0x3a, 0x7a, 0x7b, 0x7c, 0x7f, 0x80, 0xff};
    for (size_t i = 1 + Below(4); i > 0; --i) {
      const size_t at = Below(bytes->size() + 1);
      const char telling = static_cast<char>(kTelling[Below(std::size(kTelling))]);
      switch (Below(6)) {
        case 0:
          bytes->resize(at);
          break;
        case 1:
          bytes->insert(at, 1 + Below(6), telling);
          break;
        case 2:
          bytes->erase(at, 1 + Below(6));
          break;
        case 3:
          bytes->insert(at, bytes->substr(Below(bytes->size() + 1), Below(40)));
          break;
        case 4:
          if (at < bytes->size()) (*bytes)[at] = telling;
          break;
        default:
          if (at < bytes->size()) (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1 << Below(8));
      }
    }
  }

  std::vector<grpc::Slice> Cut(const std::string& bytes) {
    std::vector<size_t> cuts(Below(8));
    for (size_t& cut : cuts) cut = Below(bytes.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    return testing::CutAt(bytes, cuts);
  }

 private:
  std::mt19937_64 random_;
};

void ExpectSame(const DecodedPush& decoded, const PushRequest& parsed) {
  ASSERT_EQ(decoded.pieces.size(), static_cast<size_t>(parsed.pieces_size()));
  for (int i = 0; i < parsed.pieces_size(); ++i) {
    const WirePiece& piece = decoded.pieces[i];
    ASSERT_EQ(piece.slice, parsed.pieces(i).slice());
    ASSERT_EQ(piece.offset, parsed.pieces(i).offset());
    ASSERT_EQ(piece.data.encoding(), EncodingOf(parsed.pieces(i)));
    std::string data;
    const size_t width = WidthOf(piece.data.encoding());
    piece.data.ForEachRun([&data, width](size_t offset, const char* bytes, size_t count) {
      ASSERT_EQ(offset * width, data.size());
      data.append(bytes, count * width);
    });
    ASSERT_EQ(data, ElementsOf(parsed.pieces(i)));
    ASSERT_EQ(piece.rows != nullptr, parsed.pieces(i).has_rows());
    if (piece.rows == nullptr) continue;
    ASSERT_EQ(piece.rows->SerializeAsString(), parsed.pieces(i).rows().SerializeAsString());
  }
  PushRequest header = parsed;
  header.clear_pieces();
  ASSERT_EQ(decoded.header.SerializeAsString(), header.SerializeAsString());
}

TEST(TensorCodecFuzzTest, DamagedMessagesAreJudgedAndReadAsByProtobuf) {
  const uint64_t seed = TestSeedOr(20240501);
  const google::protobuf::LogSilencer silencer;  // Protobuf reports each invalid string.
  Fuzzer fuzzer(seed);
  int valid = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = fuzzer.Message();
    fuzzer.Damage(&bytes);
    PushRequest parsed;
    const bool expected = parsed.ParseFromString(bytes);
    const auto decoded = DecodePush(testing::ToBuffer(fuzzer.Cut(bytes)));
    ASSERT_EQ(decoded.ok(), expected) << "round " << round << ": " << decoded.status();
    if (!expected) continue;
    ASSERT_EQ(decoded->refusal.ok(), testing::HasUsablePieces(parsed)) << "round " << round;
    if (!decoded->refusal.ok()) continue;
    ++valid;
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*decoded, parsed)) << "round " << round;
  }
  // Otherwise the damage is too great, or too small, to tell anything.
  EXPECT_GT(valid, kRounds / 20);
  EXPECT_LT(valid, kRounds - kRounds / 20);
}

}  // namespace
}  // namespace millrace
