// What ParameterServerAdmin promises of generations, of steps and of a killed server, asked of the
// real ps server (without an arena) and of the one that the coordinator's tests use.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/net/channel.h"
#include "coordinator/testing/fake_ps.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/crashable_ps.h"
#include "ps/ps_test_util.h"
#include "testing/directory/test_directory.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kTooMany = uint64_t{1} << 32;

// A server, and workers' pushes to it.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void Start() = 0;
  virtual void Kill() = 0;
  virtual std::string address() = 0;
  // A whole gradient of `spec`; `generation` and `step` as in PushRequest.
  virtual absl::StatusCode Push(const ShardSpec& spec, uint64_t generation, uint64_t step) = 0;
};

class RealPs final : public Subject {
 public:
  RealPs() : ps_(TestDirectory("data")) {}
  void Start() override { ps_.Start(); }
  void Kill() override { ps_.Kill(); }
  std::string address() override { return ps_.address(); }
  absl::StatusCode Push(const ShardSpec& spec, uint64_t generation, uint64_t step) override {
    const auto stub = ParameterServer::NewStub(CreateChannel(address()));
    PushRequest push = MakePush(spec, step, ++last_push_id_, WholeShard(spec), 1);
    push.set_generation(generation);
    return static_cast<absl::StatusCode>(Pusher(stub.get()).Push(push).code());
  }

 private:
  CrashablePs ps_;
  uint64_t last_push_id_ = 0;
};

class FakePs final : public Subject {
 public:
  void Start() override { ps_.Serve(); }
  void Kill() override { ps_.Kill(); }
  std::string address() override { return ps_.address(); }
  absl::StatusCode Push(const ShardSpec& spec, uint64_t generation, uint64_t step) override {
    return ps_.Push(spec.job_id(), spec.shard(), generation, step).code();
  }

 private:
  coordinator::FakePs ps_{"ps-0"};
};

class PsAdminContractTest : public ::testing::TestWithParam<bool> {
 protected:
  PsAdminContractTest() {
    if (GetParam()) {
      subject_ = std::make_unique<RealPs>();
    } else {
      subject_ = std::make_unique<FakePs>();
    }
    Start();
  }

  void Start() {
    subject_->Start();
    admin_ = ParameterServerAdmin::NewStub(CreateChannel(subject_->address()));
  }

  void KillAndStart() {
    subject_->Kill();
    Start();
  }

  // A call of ParameterServerAdmin for the shard of `spec_`.
  template <typename Request, typename Response>
  grpc::StatusCode Call(grpc::Status (ParameterServerAdmin::Stub::*method)(grpc::ClientContext*,
                                                                           const Request&,
                                                                           Response*),
                        Request request, Response* response) {
    request.set_job_id(spec_.job_id());
    request.set_shard(spec_.shard());
    grpc::ClientContext context;
    return (admin_.get()->*method)(&context, request, response).error_code();
  }

  // Of the newest state, or of a pinned one; the checkpoint's folder is made.
  grpc::StatusCode Checkpoint(uint64_t generation, uint64_t number,
                              const std::string& cut_id = "") {
    WriteCheckpointRequest request = At<WriteCheckpointRequest>(generation);
    request.set_directory(checkpoints_);
    request.set_checkpoint(number);
    if (!cut_id.empty()) request.set_cut_id(cut_id);
    std::filesystem::create_directories(absl::StrFormat("%s/%06d", checkpoints_, number));
    return Call(&ParameterServerAdmin::Stub::WriteCheckpoint, request, &written_);
  }

  grpc::StatusCode Create(uint64_t generation) {
    CreateShardRequest request;
    *request.mutable_spec() = spec_;
    request.set_generation(generation);
    grpc::ClientContext context;
    return admin_->CreateShard(&context, request, &status_).error_code();
  }

  grpc::StatusCode Get() {
    return Call(&ParameterServerAdmin::Stub::GetShard, GetShardRequest(), &status_);
  }
  grpc::StatusCode SetGeneration(uint64_t generation) {
    return Call(&ParameterServerAdmin::Stub::SetGeneration, At<SetGenerationRequest>(generation),
                &status_);
  }
  grpc::StatusCode Pin(uint64_t generation) {
    PinCutRequest request = At<PinCutRequest>(generation);
    request.set_cut_id("cut");
    return Call(&ParameterServerAdmin::Stub::PinCut, request, &status_);
  }
  grpc::StatusCode Unpin(uint64_t generation) {
    UnpinCutRequest request = At<UnpinCutRequest>(generation);
    request.set_cut_id("cut");
    UnpinCutResponse response;
    return Call(&ParameterServerAdmin::Stub::UnpinCut, request, &response);
  }
  grpc::StatusCode Flush(uint64_t generation) {
    return Call(&ParameterServerAdmin::Stub::FlushCut, At<FlushCutRequest>(generation), &status_);
  }
  grpc::StatusCode Retire(uint64_t generation) {
    return Call(&ParameterServerAdmin::Stub::RetireShard, At<RetireShardRequest>(generation),
                &status_);
  }
  grpc::StatusCode Drop(uint64_t generation) {
    DropShardResponse response;
    return Call(&ParameterServerAdmin::Stub::DropShard, At<DropShardRequest>(generation),
                &response);
  }
  absl::StatusCode Push(uint64_t generation, uint64_t step) {
    return subject_->Push(spec_, generation, step);
  }
  grpc::StatusCode Measure(uint64_t generation, uint64_t version, uint64_t epoch = 0) {
    MeasureVersionRequest request = At<MeasureVersionRequest>(generation);
    request.set_version(version);
    request.set_epoch(epoch);
    return Call(&ParameterServerAdmin::Stub::MeasureVersion, request, &measured_);
  }
  grpc::StatusCode Apply(uint64_t generation, uint64_t version, double norm) {
    ApplyVersionRequest request = At<ApplyVersionRequest>(generation);
    request.set_version(version);
    request.set_norm(norm);
    ApplyVersionResponse response;
    return Call(&ParameterServerAdmin::Stub::ApplyVersion, request, &response);
  }

  const std::string checkpoints_ = TestDirectory("checkpoints");
  ShardSpec spec_ = MakeSpec({4}, /*replicas=*/0, /*total_steps=*/100);
  std::unique_ptr<Subject> subject_;
  std::unique_ptr<ParameterServerAdmin::Stub> admin_;
  ShardStatus status_;  // Of the last call.
  WriteCheckpointResponse written_;
  MeasureVersionResponse measured_;

 private:
  template <typename Request>
  static Request At(uint64_t generation) {
    Request request;
    request.set_generation(generation);
    return request;
  }
};

TEST_P(PsAdminContractTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(Get(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(SetGeneration(1), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Pin(1), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Unpin(1), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Flush(1), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Drop(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 0), absl::StatusCode::kNotFound);
}

TEST_P(PsAdminContractTest, NewShardIsOpenAndEmpty) {
  ASSERT_EQ(Create(3), grpc::StatusCode::OK);
  EXPECT_EQ(status_.generation(), 3);
  EXPECT_EQ(status_.version(), 0);
  EXPECT_EQ(status_.applied().watermark(), 0);
  EXPECT_FALSE(status_.closed());
  EXPECT_EQ(status_.origin(), ShardStatus::CREATED);
}

TEST_P(PsAdminContractTest, CreatingAgainSetsTheGeneration) {
  ASSERT_EQ(Create(3), grpc::StatusCode::OK);
  EXPECT_EQ(Push(3, 0), absl::StatusCode::kOk);
  EXPECT_EQ(Create(4), grpc::StatusCode::OK);
  EXPECT_EQ(status_.generation(), 4);
  EXPECT_EQ(status_.version(), 1) << "it is as it was";
  EXPECT_EQ(Create(3), grpc::StatusCode::FAILED_PRECONDITION);
  spec_.set_seed(7);
  EXPECT_EQ(Create(4), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_P(PsAdminContractTest, CallsOfOtherGenerationsAreRefused) {
  ASSERT_EQ(Create(3), grpc::StatusCode::OK);
  for (const uint64_t other : {2, 4}) {
    EXPECT_EQ(Pin(other), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(Unpin(other), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(Flush(other), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(Push(other, 0), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(SetGeneration(2), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Drop(2), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_EQ(Drop(4), grpc::StatusCode::OK);
  EXPECT_EQ(Get(), grpc::StatusCode::NOT_FOUND);
}

TEST_P(PsAdminContractTest, GenerationsAreBelowTwoToTheThirtyTwo) {
  EXPECT_EQ(Create(kTooMany), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  EXPECT_EQ(SetGeneration(kTooMany), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Pin(kTooMany), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Unpin(kTooMany), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Flush(kTooMany), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Drop(kTooMany), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(SetGeneration(kTooMany - 1), grpc::StatusCode::OK);
}

TEST_P(PsAdminContractTest, StepIsAppliedOnce) {
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  for (const uint64_t step : {0, 2, 0, 2}) EXPECT_EQ(Push(1, step), absl::StatusCode::kOk);
  EXPECT_EQ(Push(1, 100), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_EQ(status_.version(), 2);
  EXPECT_EQ(status_.applied().watermark(), 1);
  EXPECT_THAT(status_.applied().above(), ElementsAre(2));
}

TEST_P(PsAdminContractTest, PinAnswersWithWhatIsPinned) {
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 0), absl::StatusCode::kOk);
  ASSERT_EQ(Pin(1), grpc::StatusCode::OK);
  EXPECT_EQ(status_.version(), 1);
  EXPECT_EQ(Push(1, 1), absl::StatusCode::kOk);
  ASSERT_EQ(Pin(1), grpc::StatusCode::OK) << "again";
  EXPECT_EQ(status_.version(), 1);
  ASSERT_EQ(Unpin(1), grpc::StatusCode::OK);
  ASSERT_EQ(Unpin(1), grpc::StatusCode::OK) << "again";
  ASSERT_EQ(Pin(1), grpc::StatusCode::OK);
  EXPECT_EQ(status_.version(), 2);
}

TEST_P(PsAdminContractTest, NewGenerationUnpins) {
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  ASSERT_EQ(Pin(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 0), absl::StatusCode::kOk);
  ASSERT_EQ(SetGeneration(2), grpc::StatusCode::OK);
  ASSERT_EQ(Pin(2), grpc::StatusCode::OK);
  EXPECT_EQ(status_.version(), 1);
}

TEST_P(PsAdminContractTest, KillLosesWhatWasNotFlushed) {
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 0), absl::StatusCode::kOk);
  ASSERT_EQ(Flush(1), grpc::StatusCode::OK);
  EXPECT_EQ(status_.flushed_version(), 1);
  EXPECT_EQ(Push(1, 1), absl::StatusCode::kOk);
  ASSERT_EQ(SetGeneration(2), grpc::StatusCode::OK);
  KillAndStart();
  ASSERT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_EQ(status_.version(), 1);
  EXPECT_EQ(status_.applied().watermark(), 1);
  EXPECT_EQ(status_.flushed_version(), 1);
  EXPECT_EQ(status_.origin(), ShardStatus::CUT);
  EXPECT_EQ(status_.generation(), 2) << "a generation is stored when it is set";
}

TEST_P(PsAdminContractTest, ShardThatMayLackStepsIsClosedUntilAGreaterGenerationIsSet) {
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  KillAndStart();
  ASSERT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_TRUE(status_.closed());
  EXPECT_EQ(status_.origin(), ShardStatus::INITIAL_VALUES);
  EXPECT_EQ(Push(1, 0), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Pin(1), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Flush(1), grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_EQ(SetGeneration(1), grpc::StatusCode::OK);
  EXPECT_TRUE(status_.closed());
  ASSERT_EQ(SetGeneration(2), grpc::StatusCode::OK);
  EXPECT_FALSE(status_.closed());
  EXPECT_EQ(Push(2, 0), absl::StatusCode::kOk);
  EXPECT_EQ(Flush(2), grpc::StatusCode::OK);
}

TEST_P(PsAdminContractTest, ShardWithAllStepsIsOpenAfterAKill) {
  spec_.set_total_steps(1);
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 0), absl::StatusCode::kOk);
  ASSERT_EQ(Flush(1), grpc::StatusCode::OK);
  KillAndStart();
  ASSERT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_FALSE(status_.closed());
}

TEST_P(PsAdminContractTest, SynchronousShardLosesHeldContributionsAndTheVersionBefore) {
  spec_.set_replicas(2);
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 2), absl::StatusCode::kOutOfRange);
  for (const uint64_t step : {1, 1, 0, 3, 2, 5}) EXPECT_EQ(Push(1, step), absl::StatusCode::kOk);
  ASSERT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_EQ(status_.version(), 2);
  EXPECT_EQ(status_.applied().watermark(), 4);
  EXPECT_THAT(status_.held().above(), ElementsAre(5));
  EXPECT_TRUE(status_.has_previous());
  ASSERT_EQ(Flush(1), grpc::StatusCode::OK);
  KillAndStart();
  ASSERT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_EQ(status_.version(), 2);
  EXPECT_EQ(status_.held().watermark(), 0);
  EXPECT_THAT(status_.held().above(), IsEmpty());
  EXPECT_FALSE(status_.has_previous());
}

TEST_P(PsAdminContractTest, VersionThatAwaitsANormIsMadeOnceWithOneNorm) {
  spec_.set_replicas(2);
  spec_.mutable_optimizer()->set_global_clip_norm(1);
  EXPECT_EQ(Measure(1, 0), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Apply(1, 0, 7), grpc::StatusCode::NOT_FOUND);
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 0), absl::StatusCode::kOk);
  ASSERT_EQ(Measure(1, 0), grpc::StatusCode::OK);
  EXPECT_EQ(measured_.state(), MeasureVersionResponse::INCOMPLETE);
  EXPECT_EQ(Apply(1, 0, 7), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Push(1, 1), absl::StatusCode::kOk);
  ASSERT_EQ(Measure(1, 0), grpc::StatusCode::OK);
  EXPECT_EQ(measured_.state(), MeasureVersionResponse::MEASURED);
  ASSERT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_EQ(status_.version(), 0);
  EXPECT_EQ(status_.held().watermark(), 2);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Apply(1, 0, 7), grpc::StatusCode::OK);
  EXPECT_EQ(Apply(1, 0, 8), grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_EQ(Measure(1, 0), grpc::StatusCode::OK);
  EXPECT_EQ(measured_.state(), MeasureVersionResponse::NORM_KNOWN);
  EXPECT_EQ(measured_.norm(), 7);
  ASSERT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_EQ(status_.version(), 1);
  EXPECT_TRUE(status_.has_previous());
}

TEST_P(PsAdminContractTest, StaleCallsForVersionsAreRefused) {
  spec_.set_replicas(1);
  spec_.mutable_optimizer()->set_global_clip_norm(1);
  ASSERT_EQ(Create(3), grpc::StatusCode::OK);
  for (const uint64_t other : {2, 4}) {
    EXPECT_EQ(Measure(other, 0), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(Apply(other, 0, 7), grpc::StatusCode::FAILED_PRECONDITION);
  }
  EXPECT_EQ(Measure(3, 0, /*epoch=*/1), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Measure(3, 1), grpc::StatusCode::OUT_OF_RANGE);
  for (const uint64_t version : {0, 1}) {
    EXPECT_EQ(Push(3, version), absl::StatusCode::kOk);
    EXPECT_EQ(Apply(3, version, 7), grpc::StatusCode::OK);
  }
  EXPECT_EQ(Measure(3, 0), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Apply(3, 0, 7), grpc::StatusCode::FAILED_PRECONDITION);
  KillAndStart();
  EXPECT_EQ(Measure(3, 0), grpc::StatusCode::FAILED_PRECONDITION) << "it is closed";
}

TEST_P(PsAdminContractTest, ShardThatAwaitsNoNormsSaysSo) {
  spec_.set_replicas(1);
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  EXPECT_EQ(Measure(1, 0), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Apply(1, 0, 7), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_P(PsAdminContractTest, RetiredShardKeepsItsStateAndTakesNoSteps) {
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 0), absl::StatusCode::kOk);
  EXPECT_EQ(Retire(2), grpc::StatusCode::FAILED_PRECONDITION);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Retire(1), grpc::StatusCode::OK);
    EXPECT_TRUE(status_.retired());
    EXPECT_EQ(status_.version(), 1);
  }
  EXPECT_EQ(Push(1, 1), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Pin(1), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Flush(1), grpc::StatusCode::OK);
  KillAndStart();
  ASSERT_EQ(Get(), grpc::StatusCode::OK);
  EXPECT_TRUE(status_.retired());
  EXPECT_FALSE(status_.closed());
  EXPECT_EQ(status_.version(), 1);
  EXPECT_EQ(status_.applied().watermark(), 1);
}

TEST_P(PsAdminContractTest, CheckpointIsOfTheNewestStateOrOfAPinnedOne) {
  EXPECT_EQ(Checkpoint(1, 1), grpc::StatusCode::NOT_FOUND);
  ASSERT_EQ(Create(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 0), absl::StatusCode::kOk);
  EXPECT_EQ(Pin(1), grpc::StatusCode::OK);
  EXPECT_EQ(Push(1, 1), absl::StatusCode::kOk);
  ASSERT_EQ(Checkpoint(1, 1), grpc::StatusCode::OK);
  EXPECT_EQ(written_.shard().version(), 2);
  EXPECT_EQ(written_.shard().applied().watermark(), 2);
  EXPECT_TRUE(std::filesystem::exists(absl::StrCat(checkpoints_, "/", written_.shard().record())));
  ASSERT_EQ(Checkpoint(1, 2, "cut"), grpc::StatusCode::OK);
  EXPECT_EQ(written_.shard().version(), 1);
  EXPECT_EQ(Checkpoint(1, 3, "other"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Checkpoint(1, 1), grpc::StatusCode::ALREADY_EXISTS) << "its files are there";
  for (const uint64_t other : {0, 2}) {
    EXPECT_EQ(Checkpoint(other, 4), grpc::StatusCode::FAILED_PRECONDITION);
  }
}

INSTANTIATE_TEST_SUITE_P(Twins, PsAdminContractTest, ::testing::Values(true, false),
                         [](const auto& parameter) { return parameter.param ? "Real" : "Fake"; });

}  // namespace
}  // namespace millrace::testing
