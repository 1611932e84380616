#include "common/wire/tensor_codec.h"

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/wire/wire_test_util.h"
#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.pb.h"

namespace millrace {
namespace {

using ::millrace::testing::Bytes;
using ::millrace::testing::CutAt;
using ::millrace::testing::CutInto;
using ::millrace::testing::ToBuffer;
using ::millrace::testing::ToString;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Floats(const FloatSlices& slices) {
  std::vector<float> values(slices.size());
  slices.CopyTo(absl::MakeSpan(values));
  return values;
}

std::vector<float> Sequence(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.5f);
  return values;
}

PushRequest Header() {
  PushRequest header;
  header.set_job_id("job-1");
  header.set_shard(3);
  header.set_generation(uint64_t{1} << 40);
  header.set_step(17);
  header.set_push_id(~uint64_t{0});
  header.set_examples(32);
  return header;
}

// With pieces of two floats, of none, and with every field at its default.
PushRequest SmallPush() {
  PushRequest push = Header();
  Piece* piece = push.add_pieces();
  piece->set_slice(2);
  piece->set_offset(300);
  piece->set_data(Bytes({1, 2}));
  piece = push.add_pieces();
  piece->set_offset(1);
  push.add_pieces();
  return push;
}

OutgoingPiece Outgoing(uint32_t slice, uint64_t offset,
                       std::shared_ptr<std::vector<float>> values) {
  return {slice, offset, *values, values};
}

// The message that generated code would have parsed.
PushRequest ToProto(const DecodedPush& decoded) {
  PushRequest push = decoded.header;
  for (const WirePiece& piece : decoded.pieces) {
    Piece* proto = push.add_pieces();
    proto->set_slice(piece.slice);
    proto->set_offset(piece.offset);
    if (piece.data.size() > 0) proto->set_data(Bytes(Floats(piece.data)));
  }
  return push;
}

TEST(TensorCodecTest, EncodedPushIsTheMessageThatProtobufReads) {
  const auto large = std::make_shared<std::vector<float>>(Sequence(1000));
  const auto small = std::make_shared<std::vector<float>>(Sequence(3));
  const auto empty = std::make_shared<std::vector<float>>();
  const std::vector<OutgoingPiece> pieces = {Outgoing(1, 2, large), Outgoing(0, 0, small),
                                             Outgoing(4, 5, empty)};
  PushRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(ToString(EncodePush(Header(), pieces))));
  PushRequest expected = Header();
  for (const OutgoingPiece& piece : pieces) {
    Piece* proto = expected.add_pieces();
    proto->set_slice(piece.slice);
    proto->set_offset(piece.offset);
    if (piece.values.size() == 0) continue;
    proto->set_data(std::string(piece.values.bytes(), piece.values.byte_size()));
  }
  EXPECT_EQ(parsed.SerializeAsString(), expected.SerializeAsString());
}

TEST(TensorCodecTest, EncodedPullIsTheMessageThatProtobufReads) {
  PullResponse header;
  header.set_pull_id(9);
  header.set_last(true);
  header.set_version(12);
  const auto values = std::make_shared<std::vector<float>>(Sequence(kBlockElements));
  const grpc::ByteBuffer buffer = EncodePull(header, {Outgoing(0, kBlockElements, values)});
  PullResponse parsed;
  ASSERT_TRUE(parsed.ParseFromString(ToString(buffer)));
  ASSERT_EQ(parsed.pieces_size(), 1);
  EXPECT_EQ(parsed.pieces(0).offset(), kBlockElements);
  EXPECT_EQ(parsed.pieces(0).data(), Bytes(*values));
  const auto decoded = DecodePull(buffer);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.SerializeAsString(), header.SerializeAsString());
  ASSERT_EQ(decoded->pieces.size(), 1u);
  EXPECT_EQ(Floats(decoded->pieces[0].data), *values);
}

TEST(TensorCodecTest, EmptyMessagesPass) {
  const grpc::ByteBuffer buffer = EncodePush(PushRequest(), {});
  EXPECT_EQ(buffer.Length(), 0u);
  const auto decoded = DecodePush(buffer);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->pieces.empty());
}

TEST(TensorCodecTest, LargeValuesAreSentFromWhereTheyStand) {
  auto values = std::make_shared<std::vector<float>>(Sequence(1000));
  const std::weak_ptr<std::vector<float>> watch = values;
  const float* address = values->data();
  grpc::ByteBuffer buffer = EncodePush(Header(), {Outgoing(0, 0, std::move(values))});
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer.Dump(&slices).ok());
  EXPECT_EQ(slices.back().begin(), reinterpret_cast<const uint8_t*>(address));
  slices.clear();
  EXPECT_FALSE(watch.expired()) << "the buffer still refers to the values";
  buffer.Clear();
  EXPECT_TRUE(watch.expired()) << "nobody needs the values any more";
}

TEST(TensorCodecTest, DecodedValuesStayWhereTheyWereReceived) {
  PushRequest push = Header();
  push.add_pieces()->set_data(Bytes(Sequence(4096)));
  const std::vector<grpc::Slice> slices = CutInto(push.SerializeAsString(), 5000);
  const auto decoded = DecodePush(ToBuffer(slices));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  std::vector<const char*> runs;
  decoded->pieces[0].data.ForEachRun([&runs](size_t, const char* bytes, size_t count) {
    if (count > 1) runs.push_back(bytes);
  });
  ASSERT_EQ(runs.size(), slices.size());
  for (size_t i = 0; i < slices.size(); ++i) {
    EXPECT_GE(runs[i], reinterpret_cast<const char*>(slices[i].begin()));
    EXPECT_LT(runs[i], reinterpret_cast<const char*>(slices[i].end()));
  }
}

TEST(TensorCodecTest, EveryCutOfAMessageDecodesTheSame) {
  const PushRequest push = SmallPush();
  const std::string bytes = push.SerializeAsString();
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      const auto decoded = DecodePush(ToBuffer(CutAt(bytes, {first, second})));
      ASSERT_TRUE(decoded.ok()) << first << " " << second << " " << decoded.status();
      ASSERT_EQ(ToProto(*decoded).SerializeAsString(), bytes) << first << " " << second;
    }
  }
}

TEST(TensorCodecTest, EveryPrefixDecodesExactlyWhenProtobufReadsIt) {
  const std::string bytes = SmallPush().SerializeAsString();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string prefix = bytes.substr(0, length);
    PushRequest parsed;
    EXPECT_EQ(DecodePush(ToBuffer(CutInto(prefix, 1))).ok(), parsed.ParseFromString(prefix))
        << length;
  }
}

TEST(TensorCodecTest, FieldsMayComeInAnyOrder) {
  PushRequest pieces = SmallPush();
  const PushRequest header = Header();
  for (const char* field : {"job_id", "shard", "generation", "step", "push_id", "examples"}) {
    pieces.GetReflection()->ClearField(&pieces, pieces.GetDescriptor()->FindFieldByName(field));
  }
  // The pieces first, and data before the offset inside one of them.
  const std::string odd_piece =
      std::string("\x1a\x04") + Bytes({5}) + std::string("\x10\x07\x08\x06");
  const std::string bytes = pieces.SerializeAsString() + "\x7a" +
                            static_cast<char>(odd_piece.size()) + odd_piece +
                            header.SerializeAsString();
  const auto decoded = DecodePush(ToBuffer(CutInto(bytes, 7)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.SerializeAsString(), header.SerializeAsString());
  ASSERT_EQ(decoded->pieces.size(), 4u);
  EXPECT_EQ(decoded->pieces[3].slice, 6u);
  EXPECT_EQ(decoded->pieces[3].offset, 7u);
  EXPECT_THAT(Floats(decoded->pieces[3].data), ElementsAre(5));
}

TEST(TensorCodecTest, LastOfRepeatedFieldsWins) {
  // step 1, step 2; a piece whose data is [1], then [2, 3].
  std::string piece = "\x1a\x04" + Bytes({1}) + "\x1a\x08" + Bytes({2, 3});
  const std::string bytes =
      "\x20\x01\x20\x02\x7a" + std::string(1, static_cast<char>(piece.size())) + piece;
  const auto decoded = DecodePush(ToBuffer(CutInto(bytes, 3)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.step(), 2u);
  EXPECT_THAT(Floats(decoded->pieces[0].data), ElementsAre(2, 3));
}

TEST(TensorCodecTest, UnknownFieldsAreAllowedEverywhere) {
  PushRequest push = SmallPush();
  for (google::protobuf::UnknownFieldSet* unknown :
       {push.GetReflection()->MutableUnknownFields(&push),
        push.mutable_pieces(0)->GetReflection()->MutableUnknownFields(push.mutable_pieces(0))}) {
    unknown->AddVarint(1000, ~uint64_t{0});
    unknown->AddFixed32(1001, 1);
    unknown->AddFixed64(1002, 2);
    unknown->AddLengthDelimited(1003)->assign(300, 'u');
    unknown->AddGroup(1004)->AddGroup(1005)->AddVarint(15, 3);
    unknown->AddVarint(15, 4);  // The number of `pieces`, with another wire type.
  }
  const std::string bytes = push.SerializeAsString();
  for (size_t size = 1; size <= bytes.size(); ++size) {
    const auto decoded = DecodePush(ToBuffer(CutInto(bytes, size)));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->pieces.size(), 3u);
    EXPECT_THAT(Floats(decoded->pieces[0].data), ElementsAre(1, 2));
    EXPECT_EQ(decoded->header.step(), push.step());
  }
}

TEST(TensorCodecTest, ValuesThatAreNoWholeFloatsAreRefusedByPath) {
  PushRequest push = SmallPush();
  push.mutable_pieces(1)->set_data("12345");
  const auto decoded = DecodePush(ToBuffer(CutInto(push.SerializeAsString(), 9)));
  ASSERT_TRUE(decoded.ok()) << "whoever sent it is to be told which push it was";
  EXPECT_EQ(decoded->header.push_id(), push.push_id());
  EXPECT_TRUE(decoded->pieces.empty());
  EXPECT_EQ(decoded->refusal.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(decoded->refusal.ToString(), HasSubstr("PushRequest.pieces[1].data: 5 bytes"));
  PullResponse pull;
  pull.add_pieces()->set_data("12345");
  EXPECT_EQ(DecodePull(ToBuffer(CutInto(pull.SerializeAsString(), 9))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Millions of empty pieces fit in a message, and took a hundred times its size.
TEST(TensorCodecTest, TooManyPiecesAreRefused) {
  PushRequest push = Header();
  for (size_t i = 0; i < kMaxPieces; ++i) push.add_pieces();
  const auto allowed = DecodePush(ToBuffer(CutInto(push.SerializeAsString(), 65536)));
  ASSERT_TRUE(allowed.ok()) << allowed.status();
  EXPECT_EQ(allowed->pieces.size(), kMaxPieces);
  push.add_pieces();
  const auto refused = DecodePush(ToBuffer(CutInto(push.SerializeAsString(), 65536)));
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_TRUE(refused->pieces.empty());
  EXPECT_THAT(refused->refusal.ToString(), HasSubstr("more than 65536"));
}

TEST(TensorCodecTest, MalformedMessagesAreRefused) {
  for (const std::string& bytes :
       {std::string("\x0a\x01\xff"),             // job_id is no UTF-8.
        std::string("\x7a\x05\x1a\x7f"),         // A piece, and data, that pass the end.
        std::string("\x7a\x02\x1a\x01\x00", 5),  // Data that passes the end of its piece.
        std::string("\x7a\xff\xff\xff\xff\x0f"), std::string("\x7c"), std::string("\x7a")}) {
    const auto decoded = DecodePush(ToBuffer(CutInto(bytes, 1)));
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(decoded.status().ToString(), HasSubstr("not a valid PushRequest"));
  }
  EXPECT_EQ(DecodePull(grpc::ByteBuffer()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TensorCodecTest, DepthLimitIsProtobufs) {
  for (int depth : {98, 99, 100, 101, 100000}) {
    const std::string groups = std::string(depth, '\x0b') + std::string(depth, '\x0c');
    PushRequest parsed;
    EXPECT_EQ(DecodePush(ToBuffer(CutInto(groups, 64))).ok(), parsed.ParseFromString(groups))
        << depth;
    if (depth > 1000) continue;
    std::string piece = "\x7a";
    piece += static_cast<char>((groups.size() & 0x7f) | 0x80);
    piece += static_cast<char>(groups.size() >> 7);
    piece += groups;
    EXPECT_EQ(DecodePush(ToBuffer(CutInto(piece, 64))).ok(), parsed.ParseFromString(piece))
        << depth;
  }
}

// 1, -2 and 0.5, as the encodings have them.
const std::string kFloat16Bytes("\x00\x3c\x00\xc0\x00\x38", 6);
const std::string kBfloat16Bytes("\x80\x3f\x00\xc0\x00\x3f", 6);

// They were widened here, before anybody had looked whether there is memory for it.
TEST(TensorCodecTest, PushKeepsTheEncodingsThatItCameIn) {
  PushRequest push = Header();
  push.add_pieces()->set_float16(kFloat16Bytes);
  push.add_pieces()->set_bfloat16(kBfloat16Bytes);
  push.add_pieces()->set_data(Bytes({1, -2, 0.5}));
  for (const size_t size : {1, 3, 1000}) {
    const auto decoded = DecodePush(ToBuffer(CutInto(push.SerializeAsString(), size)));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_TRUE(decoded->refusal.ok()) << decoded->refusal;
    ASSERT_EQ(decoded->pieces.size(), 3u);
    EXPECT_EQ(decoded->pieces[0].data.encoding(), Encoding::FLOAT16);
    EXPECT_EQ(decoded->pieces[1].data.encoding(), Encoding::BFLOAT16);
    EXPECT_EQ(decoded->pieces[2].data.encoding(), Encoding::FLOAT32);
    for (const WirePiece& piece : decoded->pieces) {
      EXPECT_THAT(Floats(piece.data), ElementsAre(1, -2, 0.5)) << size;
    }
  }
}

TEST(TensorCodecTest, PullKeepsTheEncodingThatItCameIn) {
  PullResponse pull;
  pull.set_encoding(Encoding::FLOAT16);
  pull.add_pieces()->set_float16(kFloat16Bytes);
  pull.add_pieces()->set_data(Bytes({1, -2, 0.5}));
  const auto decoded = DecodePull(ToBuffer(CutInto(pull.SerializeAsString(), 3)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.encoding(), Encoding::FLOAT16);
  EXPECT_EQ(decoded->pieces[0].data.encoding(), Encoding::FLOAT16);
  EXPECT_THAT(Floats(decoded->pieces[0].data), ElementsAre(1, -2, 0.5));
  EXPECT_THAT(Floats(decoded->pieces[1].data), ElementsAre(1, -2, 0.5));
}

TEST(TensorCodecTest, EncodedNumbersAreTheFieldOfTheirName) {
  const auto float16 = std::make_shared<std::string>(kFloat16Bytes);
  // So many that they are referred to rather than copied.
  const auto bfloat16 = std::make_shared<std::string>(5000, 'b');
  PushRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(ToString(EncodePush(
      Header(), {{1, 2, EncodedNumbers(Encoding::FLOAT16, float16->data(), 3), float16},
                 {3, 4, EncodedNumbers(Encoding::BFLOAT16, bfloat16->data(), 2500), bfloat16}}))));
  EXPECT_EQ(parsed.pieces(0).float16(), *float16);
  EXPECT_EQ(parsed.pieces(0).offset(), 2u);
  EXPECT_EQ(parsed.pieces(1).bfloat16(), *bfloat16);
}

TEST(TensorCodecTest, BytesThatAreNoWholeNumbersAreRefusedByTheField) {
  PushRequest push = Header();
  push.add_pieces()->set_float16(kFloat16Bytes);
  push.add_pieces()->set_bfloat16("abc");
  const auto decoded = DecodePush(ToBuffer(CutInto(push.SerializeAsString(), 7)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->refusal.message(),
            "PushRequest.pieces[1].bfloat16: 3 bytes; expected a multiple of 2 (bfloat16)");
}

// A server that is older than the encodings: it refuses, and takes nothing for float32.
TEST(TensorCodecTest, OtherEncodingsAreNoDataForWhoDoesNotKnowThem) {
  PushRequest push = Header();
  push.add_pieces()->set_bfloat16(kBfloat16Bytes);
  EXPECT_TRUE(push.pieces(0).data().empty());
}

std::shared_ptr<const PieceRows> TwoRows(Encoding::Kind encoding) {
  PieceRows rows;
  rows.set_width(2);
  rows.add_rows(1);
  rows.add_rows(300);
  rows.set_count(700);
  rows.set_encoding(encoding);
  return std::make_shared<const PieceRows>(rows);
}

TEST(TensorCodecTest, PiecesWithRowsAreTheMessageThatProtobufReads) {
  const auto values = std::make_shared<std::vector<float>>(Sequence(4));
  OutgoingPiece piece = Outgoing(1, 2, values);
  piece.rows = TwoRows(Encoding::FLOAT32);
  OutgoingPiece none = Outgoing(2, 0, std::make_shared<std::vector<float>>());
  none.rows = std::make_shared<const PieceRows>();
  const grpc::ByteBuffer buffer = EncodePush(Header(), {piece, none});
  PushRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(ToString(buffer)));
  ASSERT_EQ(parsed.pieces_size(), 2);
  EXPECT_EQ(parsed.pieces(0).rows().SerializeAsString(), piece.rows->SerializeAsString());
  EXPECT_EQ(parsed.pieces(0).row_elements(), Bytes(*values));
  EXPECT_TRUE(parsed.pieces(1).has_rows());
  const auto decoded = DecodePush(buffer);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_TRUE(decoded->refusal.ok()) << decoded->refusal;
  ASSERT_EQ(decoded->pieces.size(), 2u);
  EXPECT_EQ(decoded->pieces[0].elements(), 700u);
  EXPECT_EQ(decoded->pieces[0].rows->SerializeAsString(), piece.rows->SerializeAsString());
  EXPECT_EQ(Floats(decoded->pieces[0].data), *values);
  EXPECT_EQ(decoded->pieces[1].elements(), 0u);
}

TEST(TensorCodecTest, EveryCutOfAPieceWithRowsDecodesTheSame) {
  PushRequest push = Header();
  Piece* piece = push.add_pieces();
  *piece->mutable_rows() = *TwoRows(Encoding::BFLOAT16);
  piece->set_row_elements("abcdefgh");
  const std::string bytes = push.SerializeAsString();
  for (size_t first = 0; first <= bytes.size(); ++first) {
    const auto decoded = DecodePush(ToBuffer(CutAt(bytes, {first})));
    ASSERT_TRUE(decoded.ok()) << first << " " << decoded.status();
    ASSERT_TRUE(decoded->refusal.ok()) << first << " " << decoded->refusal;
    ASSERT_EQ(decoded->pieces[0].data.encoding(), Encoding::BFLOAT16);
    ASSERT_EQ(decoded->pieces[0].data.size(), 4u);
    ASSERT_EQ(decoded->pieces[0].rows->rows_size(), 2);
  }
}

TEST(TensorCodecTest, RowsInTheWrongFieldAreRefusedByPath) {
  const auto refusal = [](const Piece& piece) {
    PushRequest push = Header();
    *push.add_pieces() = piece;
    return DecodePush(ToBuffer(CutInto(push.SerializeAsString(), 5)))->refusal.ToString();
  };
  Piece piece;
  piece.set_row_elements("abcd");
  EXPECT_THAT(refusal(piece), HasSubstr("pieces[0].row_elements: given without rows"));
  *piece.mutable_rows() = *TwoRows(Encoding::FLOAT32);
  EXPECT_EQ(refusal(piece), "OK");
  piece.set_row_elements("abc");
  EXPECT_THAT(refusal(piece), HasSubstr("pieces[0].row_elements: 3 bytes; expected a multiple"));
  piece.mutable_rows()->set_encoding(static_cast<Encoding::Kind>(9));
  EXPECT_THAT(refusal(piece), HasSubstr("pieces[0].rows.encoding: 9; must be one of"));
  piece.mutable_rows()->set_encoding(Encoding::FLOAT32);
  piece.set_bfloat16("ab");
  EXPECT_THAT(refusal(piece), HasSubstr("nothing in bfloat16"));
  piece.set_bfloat16("a");
  EXPECT_THAT(refusal(piece), HasSubstr("nothing in bfloat16"));
}

// Parsed, they took twenty times as much as the message.
TEST(TensorCodecTest, RowsInManyFieldsAreRefusedBeforeTheyAreParsed) {
  PieceRows rows;
  for (size_t row = 0; row < kMaxRows / 2; ++row) rows.add_rows(1);
  std::string piece;
  for (int i = 0; i < 20; ++i) {
    Piece part;
    *part.mutable_rows() = rows;
    part.AppendToString(&piece);  // Fields of one piece, which protobuf merges.
  }
  PushRequest push = Header();
  ASSERT_TRUE(push.add_pieces()->ParseFromString(piece));
  ASSERT_EQ(push.pieces(0).rows().rows_size(), static_cast<int>(10 * kMaxRows));
  const auto decoded = DecodePush(ToBuffer(CutInto(push.SerializeAsString(), 65536)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->refusal.ToString(), HasSubstr("more than 262144 in a message"));
}

TEST(TensorCodecTest, PullRequestsAreReadUnlessTheyHaveFarTooManyRows) {
  PullRequest request;
  request.set_job_id("job-1");
  request.set_pull_id(7);
  WantedRows* wanted = request.add_rows();
  wanted->set_width(3);
  for (size_t row = 0; row < kMaxRows; ++row) wanted->add_rows(row);
  const auto decode = [&request] {
    return DecodePullRequest(ToBuffer(CutInto(request.SerializeAsString(), 5000)));
  };
  const auto decoded = decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->SerializeAsString(), request.SerializeAsString());
  for (size_t row = 0; row < 2 * kMaxRows; ++row) wanted->add_rows(row);
  EXPECT_THAT(decode().status().ToString(), HasSubstr("PullRequest.rows: far more than 262144"));
  request.clear_rows();
  for (size_t i = 0; i < kMaxPieces; ++i) request.add_rows();
  EXPECT_TRUE(decode().ok());
  request.add_rows();
  EXPECT_THAT(decode().status().ToString(), HasSubstr("or 65536 slices"));
  EXPECT_THAT(DecodePullRequest(ToBuffer(CutInto("\x08", 1))).status().ToString(),
              HasSubstr("not a PullRequest"));
}

// A few numbers besides its rows come with each piece: they are no rows.
TEST(TensorCodecTest, ManyPiecesMayHaveAllRowsOfAMessageBetweenThem) {
  constexpr size_t kRowsOfEach = kMaxRows / kMaxPieces;
  PushRequest push = Header();
  PullRequest pull;
  for (size_t i = 0; i < kMaxPieces; ++i) {
    PieceRows* rows = push.add_pieces()->mutable_rows();
    rows->set_width(2);
    rows->set_count(100);
    rows->set_encoding(Encoding::FLOAT16);
    WantedRows* wanted = pull.add_rows();
    wanted->set_slice(static_cast<uint32_t>(i));
    wanted->set_width(2);
    for (uint64_t row = 0; row < kRowsOfEach; ++row) {
      rows->add_rows(row);
      wanted->add_rows(row);
    }
  }
  const auto pushed = DecodePush(ToBuffer(CutInto(push.SerializeAsString(), 65536)));
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_TRUE(pushed->refusal.ok()) << pushed->refusal;
  EXPECT_EQ(pushed->pieces.size(), kMaxPieces);
  const auto pulled = DecodePullRequest(ToBuffer(CutInto(pull.SerializeAsString(), 65536)));
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->SerializeAsString(), pull.SerializeAsString());
}

TEST(TensorCodecTest, TooManyRowsAreRefused) {
  PushRequest push = Header();
  for (int i = 0; i < 2; ++i) {
    PieceRows* rows = push.add_pieces()->mutable_rows();
    for (size_t row = 0; row < kMaxRows / 2; ++row) rows->add_rows(row);
  }
  const auto refusal = [&push] {
    return DecodePush(ToBuffer(CutInto(push.SerializeAsString(), 65536)))->refusal.ToString();
  };
  EXPECT_EQ(refusal(), "OK");
  push.mutable_pieces(1)->mutable_rows()->add_rows(kMaxRows);
  EXPECT_THAT(refusal(), HasSubstr("pieces[1].rows: more than 262144 in a message"));
  // So many that they are not even parsed.
  for (size_t row = 0; row < 10 * kMaxRows; ++row) {
    push.mutable_pieces(0)->mutable_rows()->add_rows(row);
  }
  EXPECT_THAT(refusal(), HasSubstr("pieces[0].rows: more than 262144 in a message"));
}

}  // namespace
}  // namespace millrace
