// One body of tests against a ps server and against the fake one that the worker's tests use: what
// they promise of the data plane is the same.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/net/channel.h"
#include "common/wire/encoding.h"
#include "common/wire/piece_elements.h"
#include "common/wire/tensor_codec.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/ps_server.h"
#include "ps/ps_test_util.h"
#include "testing/directory/test_directory.h"
#include "worker/parameters/fake_parameter_server.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

constexpr Encoding::Kind kEncodings[] = {Encoding::FLOAT16, Encoding::BFLOAT16, Encoding::FLOAT32};

float RoundedTo(Encoding::Kind encoding, float value) {
  if (encoding == Encoding::FLOAT32) return value;
  char bytes[sizeof(float)];
  EXPECT_EQ(Narrow({&value, 1}, encoding, bytes), 1u);
  Widen(encoding, bytes, {&value, 1});
  return value;
}

constexpr int Code(absl::StatusCode code) { return static_cast<int>(code); }

// Blocks of 2^18, 3 and 5 elements.
const std::vector<uint64_t> kLengths = {kBlockElements + 3, 5};
constexpr uint64_t kElements = kBlockElements + 8;

// Shard 1, whose slices are frozen but for the second one; and shard 2, which has no other.
const std::vector<uint64_t> kPartlyFrozen = {3, 2, 4};

// Shard 3, whose gradients must be BFLOAT16; the second slice is a moving average.
const std::vector<uint64_t> kRounded = {3, 2};

ShardSpec RoundedSpec() {
  ShardSpec spec = MakeSpec(kRounded, /*replicas=*/1);
  spec.set_shard(3);
  spec.set_wire(Encoding::BFLOAT16);
  spec.mutable_slices(1)->mutable_update()->mutable_moving_average()->set_momentum(0.5);
  return spec;
}

ShardSpec SpecOf(uint32_t shard) {
  if (shard == 3) return RoundedSpec();
  ShardSpec spec = MakeSpec(shard == 0   ? kLengths
                            : shard == 1 ? kPartlyFrozen
                                         : std::vector<uint64_t>{6});
  spec.set_shard(shard);
  for (int i = 0; shard > 0 && i < spec.slices_size(); ++i) {
    if (i != 1) spec.mutable_slices(i)->mutable_update()->mutable_frozen();
  }
  return spec;
}

class RealServer {
 public:
  RealServer() {
    ps::PsServerOptions options;
    options.data_dir = TestDirectory("contract");
    options.server.listen = "127.0.0.1:0";
    auto server = ps::PsServer::Start(options);
    CHECK(server.ok()) << server.status();
    server_ = *std::move(server);
    for (const uint32_t shard : {0, 1, 2, 3}) Create(SpecOf(shard));
  }

  const std::string& address() const { return server_->address(); }

 private:
  void Create(const ShardSpec& spec) {
    CreateShardRequest request;
    *request.mutable_spec() = spec;
    request.set_generation(1);
    grpc::ClientContext context;
    ShardStatus status;
    const auto admin = ParameterServerAdmin::NewStub(CreateChannel(address()));
    const grpc::Status created = admin->CreateShard(&context, request, &status);
    CHECK(created.ok()) << created.error_message();
  }

  std::unique_ptr<ps::PsServer> server_;
};

class FakeServer {
 public:
  FakeServer() {
    for (const size_t slice : {0, 2}) server_.Freeze(1, slice);
    server_.Freeze(2, 0);
    server_.TakeOnly(3, 0, Encoding::BFLOAT16);
    server_.TakeOnly(3, 1, Encoding::FLOAT32);
  }

  const std::string& address() const { return server_.address(); }

 private:
  FakeParameterServer server_{{{0, kLengths}, {1, kPartlyFrozen}, {2, {6}}, {3, kRounded}}};
};

template <typename Server>
class ParameterServerContractTest : public ::testing::Test {
 protected:
  PushRequest Message(uint64_t step, uint64_t push_id, const std::vector<PieceRange>& ranges,
                      float value = 1) {
    return MakePush(spec_, step, push_id, ranges, value);
  }
  PushRequest Whole(uint64_t step, uint64_t push_id, float value = 1) {
    return Message(step, push_id, WholeShard(spec_), value);
  }

  // All values, which must be equal.
  float Value() {
    Puller puller(stub_.get(), spec_);
    const Pulled pulled = puller.Pull();
    EXPECT_EQ(pulled.code, 0) << pulled.message;
    EXPECT_EQ(pulled.elements, kElements);
    for (const auto& slice : pulled.slices) {
      for (const float value : slice) EXPECT_EQ(value, pulled.slices[0][0]);
    }
    return pulled.slices[0][0];
  }

  int CodeOfPull(const PullRequest& request) {
    Puller puller(stub_.get(), spec_);
    return puller.Pull(request).code;
  }

  Server server_;
  const ShardSpec spec_ = SpecOf(0);
  const std::unique_ptr<ParameterServer::Stub> stub_ =
      ParameterServer::NewStub(CreateChannel(server_.address()));
};

using Servers = ::testing::Types<RealServer, FakeServer>;
TYPED_TEST_SUITE(ParameterServerContractTest, Servers);

TYPED_TEST(ParameterServerContractTest, StepIsAppliedOnce) {
  Pusher pusher(this->stub_.get());
  const PushResponse first = pusher.Push(this->Whole(/*step=*/3, /*push_id=*/1));
  EXPECT_EQ(first.push_id(), 1u);
  EXPECT_EQ(first.outcome(), PushResponse::APPLIED);
  EXPECT_EQ(first.version(), 1u);
  EXPECT_EQ(pusher.Push(this->Whole(3, 2)).outcome(), PushResponse::ALREADY_APPLIED);
  EXPECT_EQ(this->Value(), -1);
}

TYPED_TEST(ParameterServerContractTest, PushTakesEffectWithItsLastElementWhereverThatComes) {
  Pusher one(this->stub_.get());
  Pusher other(this->stub_.get());
  one.Write(this->Message(0, 1, {{0, 0, kBlockElements}}));
  // Answered once the server has seen it; by then the other message has not made it complete.
  EXPECT_EQ(one.Push(this->Whole(9, 2)).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(this->Value(), -1);
  const PushResponse response =
      other.Push(this->Message(0, 1, {{1, 0, 5}, {0, kBlockElements, 3}}));
  EXPECT_EQ(response.push_id(), 1u);
  EXPECT_EQ(response.outcome(), PushResponse::APPLIED);
  EXPECT_EQ(this->Value(), -2);
}

TYPED_TEST(ParameterServerContractTest, PushWhoseStreamEndsLeavesNoTrace) {
  {
    Pusher gone(this->stub_.get());
    gone.Write(this->Message(0, 1, {{0, 0, kBlockElements}}));
    EXPECT_EQ(gone.Push(this->Whole(9, 2)).outcome(), PushResponse::APPLIED);
    gone.WritesDone();
    EXPECT_TRUE(gone.Finish().ok());
  }
  Pusher pusher(this->stub_.get());
  EXPECT_EQ(pusher.Push(this->Message(0, 1, {{0, kBlockElements, 3}, {1, 0, 5}})).code(),
            Code(absl::StatusCode::kAborted));
  EXPECT_EQ(pusher.Push(this->Whole(0, 3)).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(this->Value(), -2);
}

TYPED_TEST(ParameterServerContractTest, OverlapVoidsThePush) {
  Pusher pusher(this->stub_.get());
  pusher.Write(this->Message(0, 1, {{0, 0, 100}}));
  EXPECT_EQ(pusher.Push(this->Message(0, 1, {{0, 99, 2}})).code(),
            Code(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(pusher.Push(this->Message(0, 1, {{0, 200, 2}})).code(),
            Code(absl::StatusCode::kAborted));
  EXPECT_EQ(this->Value(), 0);
}

TYPED_TEST(ParameterServerContractTest, PiecesThatTheShardDoesNotHaveAreRefused) {
  Pusher pusher(this->stub_.get());
  const int invalid = Code(absl::StatusCode::kInvalidArgument);
  PushRequest message = this->Message(0, 1, {{1, 0, 5}});
  message.mutable_pieces(0)->set_slice(2);
  EXPECT_EQ(pusher.Push(message).code(), invalid);
  message = this->Message(0, 2, {{1, 0, 5}});
  message.mutable_pieces(0)->set_offset(1);
  EXPECT_EQ(pusher.Push(message).code(), invalid);
  message = this->Message(0, 3, {{1, 0, 5}});
  message.mutable_pieces(0)->set_data("");
  EXPECT_EQ(pusher.Push(message).code(), invalid);
  EXPECT_EQ(this->Value(), 0);
}

TYPED_TEST(ParameterServerContractTest, OtherShardsAndGenerationsAreRefused) {
  Pusher pusher(this->stub_.get());
  PushRequest push = this->Whole(0, 1);
  push.set_shard(7);
  EXPECT_EQ(pusher.Push(push).code(), Code(absl::StatusCode::kNotFound));
  push = this->Whole(0, 2);
  push.set_job_id("other");
  EXPECT_EQ(pusher.Push(push).code(), Code(absl::StatusCode::kNotFound));
  push = this->Whole(0, 3);
  push.set_generation(2);
  EXPECT_EQ(pusher.Push(push).code(), Code(absl::StatusCode::kFailedPrecondition));
  PullRequest pull = MakePull(this->spec_);
  pull.set_shard(7);
  EXPECT_EQ(this->CodeOfPull(pull), Code(absl::StatusCode::kNotFound));
  pull = MakePull(this->spec_);
  pull.set_generation(2);
  EXPECT_EQ(this->CodeOfPull(pull), Code(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(this->Value(), 0);
}

TYPED_TEST(ParameterServerContractTest, PushLeavesOutWhatIsFrozen) {
  Pusher pusher(this->stub_.get());
  const ShardSpec spec = SpecOf(1);
  const int invalid = Code(absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pusher.Push(MakePush(spec, 0, 1, WholeShard(spec), 1)).code(), invalid);
  EXPECT_EQ(pusher.Push(MakePush(spec, 0, 2, {}, 1)).code(), invalid);
  EXPECT_EQ(pusher.Push(MakePush(spec, 0, 3, {{1, 0, 2}}, 1)).outcome(), PushResponse::APPLIED);
  Puller puller(this->stub_.get(), spec);
  const Pulled pulled = puller.Pull();
  EXPECT_EQ(pulled.elements, 9u) << "all are pulled";
  EXPECT_EQ(pulled.slices[0], std::vector<float>(3, 0));
  EXPECT_EQ(pulled.slices[1], std::vector<float>(2, -1));
  EXPECT_EQ(pulled.slices[2], std::vector<float>(4, 0));
}

TYPED_TEST(ParameterServerContractTest, ShardThatIsAllFrozenTakesAMessageWithoutPieces) {
  Pusher pusher(this->stub_.get());
  const ShardSpec spec = SpecOf(2);
  const PushResponse first = pusher.Push(MakePush(spec, 5, 1, {}, 1));
  EXPECT_EQ(first.outcome(), PushResponse::APPLIED);
  EXPECT_EQ(first.version(), 1u);
  EXPECT_EQ(pusher.Push(MakePush(spec, 5, 2, {}, 1)).outcome(), PushResponse::ALREADY_APPLIED);
  EXPECT_EQ(pusher.Push(MakePush(spec, 6, 3, WholeShard(spec), 1)).code(),
            Code(absl::StatusCode::kInvalidArgument));
  Puller puller(this->stub_.get(), spec);
  const Pulled pulled = puller.Pull();
  EXPECT_EQ(pulled.version, 1u);
  EXPECT_EQ(pulled.slices[0], std::vector<float>(6, 0));
}

// 1.001 is no number of either encoding of two bytes.
TYPED_TEST(ParameterServerContractTest, PushesInAnyEncodingCountAsTheirNumbers) {
  Pusher pusher(this->stub_.get());
  float expected = 0;
  uint64_t step = 0;
  for (const Encoding::Kind encoding : kEncodings) {
    const PushRequest push = EncodedAs(encoding, this->Whole(step, step + 1, 1.001f));
    const PushResponse response = pusher.Push(push);
    EXPECT_EQ(response.outcome(), PushResponse::APPLIED) << response.message();
    expected -= RoundedTo(encoding, 1.001f);
    EXPECT_EQ(this->Value(), expected) << Encoding::Kind_Name(encoding);
    ++step;
  }
}

TYPED_TEST(ParameterServerContractTest, PiecesOfOnePushMayDifferInEncoding) {
  Pusher pusher(this->stub_.get());
  pusher.Write(EncodedAs(Encoding::FLOAT16, this->Message(0, 1, {{0, 0, kBlockElements}}, 2)));
  PushRequest rest = EncodedAs(Encoding::BFLOAT16, this->Message(0, 1, {{1, 0, 5}}, 2));
  rest.MergeFrom(this->Message(0, 1, {{0, kBlockElements, 3}}, 2));
  EXPECT_EQ(pusher.Push(rest).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(this->Value(), -2);
}

// A worker that did not round was not found out: a synchronous job's bits followed from whose steps
// they were.
TYPED_TEST(ParameterServerContractTest, ShardThatIsToldHowGradientsComeRefusesOthers) {
  Pusher pusher(this->stub_.get());
  const ShardSpec spec = SpecOf(3);
  const PushRequest gradient = MakePush(spec, 0, 1, {{0, 0, 3}}, 1);
  const PushRequest statistic = MakePush(spec, 0, 1, {{1, 0, 2}}, 1);
  uint64_t push_id = 1;
  const auto response_to = [&](PushRequest part, PushRequest other) {
    part.mutable_pieces()->MergeFrom(other.pieces());
    part.set_push_id(++push_id);
    return pusher.Push(part);
  };
  const auto rounded = [](Encoding::Kind encoding, const PushRequest& part) {
    return EncodedAs(encoding, part);
  };
  for (const Encoding::Kind encoding : {Encoding::FLOAT32, Encoding::FLOAT16}) {
    const PushResponse refused = response_to(rounded(encoding, gradient), statistic);
    EXPECT_EQ(refused.code(), Code(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(refused.message(), HasSubstr(Encoding::Kind_Name(encoding)));
    EXPECT_THAT(refused.message(), HasSubstr("; must be BFLOAT16"));
  }
  const PushRequest right = rounded(Encoding::BFLOAT16, gradient);
  EXPECT_THAT(response_to(right, rounded(Encoding::BFLOAT16, statistic)).message(),
              HasSubstr("piece.bfloat16: BFLOAT16"));
  const PushResponse applied = response_to(right, statistic);
  EXPECT_EQ(applied.outcome(), PushResponse::APPLIED) << applied.message();
}

TYPED_TEST(ParameterServerContractTest, PullsComeInTheEncodingThatTheyAskFor) {
  Pusher pusher(this->stub_.get());
  EXPECT_EQ(pusher.Push(this->Whole(0, 1, -1.001f)).outcome(), PushResponse::APPLIED);
  Puller puller(this->stub_.get(), this->spec_);
  for (const Encoding::Kind encoding : kEncodings) {
    PullRequest request = MakePull(this->spec_);
    request.set_encoding(encoding);
    const Pulled pulled = puller.Pull(request);
    EXPECT_EQ(pulled.code, 0) << pulled.message;
    EXPECT_EQ(pulled.encoding, encoding);
    EXPECT_EQ(pulled.bytes, kElements * WidthOf(encoding));
    for (const auto& slice : pulled.slices) {
      EXPECT_EQ(slice, std::vector<float>(slice.size(), RoundedTo(encoding, 1.001f)));
    }
  }
  EXPECT_EQ(this->Value(), 1.001f) << "the server has what it had";
}

TYPED_TEST(ParameterServerContractTest, BytesThatAreNoWholeNumbersAreRefusedByTheirField) {
  Pusher pusher(this->stub_.get());
  uint64_t push_id = 0;
  for (const ElementsField& field : kElementsFields) {
    PushRequest push = this->Message(0, ++push_id, {{1, 0, 5}});
    SetElements(field.encoding, "12345", push.mutable_pieces(0));
    const PushResponse response = pusher.Push(push);
    EXPECT_EQ(response.code(), Code(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(response.message(),
                HasSubstr(absl::StrCat(field.name, ": 5 bytes; expected a ", "multiple of ",
                                       WidthOf(field.encoding))));
  }
  EXPECT_EQ(this->Value(), 0);
}

// Of a client that is newer than the server.
TYPED_TEST(ParameterServerContractTest, EncodingsThatThereAreNotAreRefusedWithThoseThatThereAre) {
  Puller puller(this->stub_.get(), this->spec_);
  PullRequest pull = MakePull(this->spec_);
  pull.set_encoding(static_cast<Encoding::Kind>(3));
  const Pulled pulled = puller.Pull(pull);
  EXPECT_EQ(pulled.code, Code(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(pulled.message, "encoding: 3; must be one of FLOAT32, FLOAT16, BFLOAT16");
  Pusher pusher(this->stub_.get());
  PushRequest push = this->Message(0, 1, {{1, 0, 5}});
  Piece& piece = *push.mutable_pieces(0);
  piece.clear_data();
  Piece::GetReflection()->MutableUnknownFields(&piece)->AddLengthDelimited(100, "1234567890");
  const PushResponse response = pusher.Push(push);
  EXPECT_EQ(response.code(), Code(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(response.message(), HasSubstr("has no data as FLOAT32, FLOAT16 or BFLOAT16"));
  EXPECT_EQ(this->Value(), 0);
}

// The fake one had dealt out blocks in turns, and the client had been tested against that.
TYPED_TEST(ParameterServerContractTest, PartsAreRunsOfBlocks) {
  for (uint32_t part = 0; part < 2; ++part) {
    Puller puller(this->stub_.get(), this->spec_);
    PullRequest request = MakePull(this->spec_);
    request.set_parts(2);
    request.set_part(part);
    const Pulled pulled = puller.Pull(request);
    EXPECT_EQ(pulled.code, 0) << pulled.message;
    EXPECT_EQ(pulled.elements, part == 0 ? kBlockElements : 8u);
  }
  PullRequest request = MakePull(this->spec_);
  request.set_parts(2);
  request.set_part(2);
  EXPECT_EQ(this->CodeOfPull(request), Code(absl::StatusCode::kInvalidArgument));
}

// Rows of three elements: the one that two blocks share is 87381, with one element in the first.
TYPED_TEST(ParameterServerContractTest, PushOfRowsIsZeroElsewhere) {
  Pusher pusher(this->stub_.get());
  const PushRequest push = MakeRowsPush(this->spec_, 0, 1, /*width=*/3, {0, 87381}, 2);
  ASSERT_EQ(push.pieces(0).row_elements().size(), (3 + 3) * sizeof(float));
  ASSERT_EQ(push.pieces(1).row_elements().size(), 3 * sizeof(float));
  const PushResponse applied = pusher.Push(push);
  EXPECT_EQ(applied.outcome(), PushResponse::APPLIED) << applied.message();
  Puller puller(this->stub_.get(), this->spec_);
  const Pulled pulled = puller.Pull();
  EXPECT_TRUE(pulled.knows_rows);
  std::vector<float> first(kBlockElements + 3);
  for (const size_t i : {0, 1, 2}) first[i] = -2;
  for (size_t i = 87381 * 3; i < 87382 * 3; ++i) first[i] = -2;
  EXPECT_EQ(pulled.slices[0], first);
  EXPECT_EQ(pulled.slices[1], (std::vector<float>{-2, -2, -2, 0, 0}));
  EXPECT_EQ(pusher.Push(MakeRowsPush(this->spec_, 0, 2, 3, {1}, 2)).outcome(),
            PushResponse::ALREADY_APPLIED);
}

TYPED_TEST(ParameterServerContractTest, PullOfRowsBringsTheseAndOtherSlicesWhole) {
  Pusher pusher(this->stub_.get());
  EXPECT_EQ(pusher.Push(this->Whole(0, 1, -1.001f)).outcome(), PushResponse::APPLIED);
  Puller puller(this->stub_.get(), this->spec_);
  for (const Encoding::Kind encoding : kEncodings) {
    PullRequest request = MakePull(this->spec_);
    request.set_encoding(encoding);
    WantedRows* wanted = request.add_rows();
    wanted->set_width(3);
    wanted->add_rows(5);
    wanted->add_rows(87381);
    const Pulled pulled = puller.Pull(request);
    EXPECT_EQ(pulled.code, 0) << pulled.message;
    EXPECT_TRUE(pulled.knows_rows);
    EXPECT_EQ(pulled.elements, 6u + 5u);
    EXPECT_EQ(pulled.bytes, 11 * WidthOf(encoding));
    std::vector<float> first(kBlockElements + 3);
    for (const size_t i : {15, 16, 17}) first[i] = RoundedTo(encoding, 1.001f);
    for (size_t i = 87381 * 3; i < 87382 * 3; ++i) first[i] = RoundedTo(encoding, 1.001f);
    EXPECT_EQ(pulled.slices[0], first) << Encoding::Kind_Name(encoding);
    EXPECT_EQ(pulled.slices[1], std::vector<float>(5, RoundedTo(encoding, 1.001f)));
  }
}

TYPED_TEST(ParameterServerContractTest, PartOfAPullBringsTheRowsOfItsBlocks) {
  Puller puller(this->stub_.get(), this->spec_);
  PullRequest request = MakePull(this->spec_);
  request.set_parts(3);
  for (const uint32_t slice : {0, 1}) {
    request.add_rows()->set_slice(slice);
    request.mutable_rows(static_cast<int>(slice))->set_width(3);
  }
  for (const uint64_t row : {5, 87381}) request.mutable_rows(0)->add_rows(row);
  const uint64_t expected[] = {3 + 1, 2, 0};
  for (const uint32_t part : {0, 1, 2}) {
    request.set_part(part);
    const Pulled pulled = puller.Pull(request);
    EXPECT_EQ(pulled.code, 0) << pulled.message;
    EXPECT_EQ(pulled.elements, expected[part]) << part;
    EXPECT_TRUE(pulled.knows_rows);
  }
}

TYPED_TEST(ParameterServerContractTest, RowsThatAreWrongAreRefused) {
  Pusher pusher(this->stub_.get());
  const int invalid = Code(absl::StatusCode::kInvalidArgument);
  uint64_t push_id = 0;
  const auto code_of_push = [&](const std::function<void(Piece*)>& change) {
    PushRequest push = MakeRowsPush(this->spec_, 0, ++push_id, /*width=*/3, {0, 1}, 2);
    change(push.mutable_pieces(1));
    return pusher.Push(push).code();
  };
  EXPECT_EQ(code_of_push([](Piece* piece) { piece->mutable_rows()->set_width(0); }), invalid);
  EXPECT_EQ(code_of_push([](Piece* piece) { piece->mutable_rows()->set_rows(1, 0); }), invalid);
  EXPECT_EQ(code_of_push([](Piece* piece) { piece->mutable_rows()->set_rows(1, 2); }), invalid);
  EXPECT_EQ(code_of_push([](Piece* piece) { piece->mutable_rows()->set_count(4); }), invalid);
  EXPECT_EQ(code_of_push([](Piece* piece) { piece->mutable_rows()->set_count(6); }), invalid);
  EXPECT_EQ(code_of_push([](Piece* piece) { piece->mutable_row_elements()->resize(4); }), invalid);
  EXPECT_EQ(code_of_push([](Piece* piece) { piece->set_data("abcd"); }), invalid);
  const auto code_of_pull = [&](const std::function<void(WantedRows*)>& change) {
    PullRequest request = MakePull(this->spec_);
    WantedRows* wanted = request.add_rows();
    wanted->set_slice(1);
    wanted->set_width(3);
    for (const uint64_t row : {0, 1}) wanted->add_rows(row);
    change(wanted);
    return this->CodeOfPull(request);
  };
  EXPECT_EQ(code_of_pull([](WantedRows*) {}), 0);
  EXPECT_EQ(code_of_pull([](WantedRows* wanted) { wanted->set_slice(2); }), invalid);
  EXPECT_EQ(code_of_pull([](WantedRows* wanted) { wanted->set_width(0); }), invalid);
  EXPECT_EQ(code_of_pull([](WantedRows* wanted) { wanted->set_rows(0, 1); }), invalid);
  EXPECT_EQ(code_of_pull([](WantedRows* wanted) { wanted->set_rows(1, 2); }), invalid);
  EXPECT_EQ(this->Value(), 0);
}

}  // namespace
}  // namespace millrace::testing
