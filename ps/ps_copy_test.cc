// Shards that one server has from another, over the wire.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/net/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/crashable_ps.h"
#include "ps/ps_server_fixture.h"
#include "ps/ps_test_util.h"
#include "ps/service/shard_transfer.h"
#include "ps/store/shard_store.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::CrashablePs;
using ::millrace::testing::MakePush;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::millrace::testing::PushWhole;
using ::millrace::testing::WholeShard;
using ::testing::HasSubstr;

// A server that has a shard, and sends of it what a test wants. Its calls go on for a while after
// the client has given them up, so each has its own copy of that.
class LyingPs final : public ParameterServerAdmin::Service {
 public:
  LyingPs() {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    server_ = *RpcServer::Start(options, {this});
  }
  ~LyingPs() override { server_->Shutdown(absl::ZeroDuration()); }

  const std::string& address() const { return server_->address(); }
  void SetAnswers(std::vector<ReadShardResponse> answers, const grpc::Status& end = {}) {
    MutexLock lock(&mutex_);
    answers_ = std::move(answers);
    end_ = end;
  }

  grpc::Status ReadShard(grpc::ServerContext*, const ReadShardRequest*,
                         grpc::ServerWriter<ReadShardResponse>* writer) override {
    std::vector<ReadShardResponse> answers;
    grpc::Status end;
    {
      MutexLock lock(&mutex_);
      answers = answers_;
      end = end_;
    }
    for (const ReadShardResponse& answer : answers) writer->Write(answer);
    return end;
  }

 private:
  Mutex mutex_;
  std::vector<ReadShardResponse> answers_ ABSL_GUARDED_BY(mutex_);
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<RpcServer> server_;
};

class PsCopyTest : public PsServerTest {
 protected:
  PsCopyTest() : source_(TestDirectory("source")) {
    source_.Start();
    const auto channel = CreateChannel(source_.address());
    there_.ConnectAdmin(channel);
    pushes_ = ParameterServer::NewStub(channel);
  }

  CopyShardRequest CopyOf(const ShardSpec& spec) const {
    CopyShardRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    request.set_generation(2);
    request.set_source_generation(1);
    request.set_source_address(source_.address());
    return request;
  }

  grpc::Status Copy(const CopyShardRequest& request, ShardStatus* status = nullptr) {
    grpc::ClientContext context;
    ShardStatus made;
    return admin_->CopyShard(&context, request, status == nullptr ? &made : status);
  }

  // Of the server that is to have the copy.
  grpc::StatusCode CodeOfGet(const ShardSpec& spec) {
    grpc::ClientContext context;
    GetShardRequest request;
    request.set_job_id(spec.job_id());
    ShardStatus status;
    return admin_->GetShard(&context, request, &status).error_code();
  }

  // The answers of a server that has the shard, as it would send them.
  std::vector<ReadShardResponse> WhatIsSent(const ShardSpec& spec) {
    const auto stub = ParameterServerAdmin::NewStub(CreateChannel(source_.address()));
    grpc::ClientContext context;
    ReadShardRequest request;
    request.set_job_id(spec.job_id());
    request.set_generation(1);
    const auto reader = stub->ReadShard(&context, request);
    std::vector<ReadShardResponse> answers;
    for (ReadShardResponse answer; reader->Read(&answer);) answers.push_back(answer);
    EXPECT_TRUE(reader->Finish().ok());
    return answers;
  }

  CrashablePs source_;
  ShardAdmin there_;
  std::unique_ptr<ParameterServer::Stub> pushes_;  // To the source.
};

TEST_F(PsCopyTest, ShardGoesOnElsewhereAsItWould) {
  ShardSpec spec = MakeSpec({4, 300000});
  spec.mutable_optimizer()->mutable_adam()->set_learning_rate(0.5);
  ASSERT_TRUE(there_.Create(spec).ok());
  Pusher pusher(pushes_.get());
  ASSERT_EQ(pusher.Push(MakePush(spec, 0, 1, WholeShard(spec), 0.25)).code(), 0);
  ASSERT_EQ(pusher.Push(MakePush(spec, 2, 2, WholeShard(spec), 0.75)).code(), 0);
  ShardStatus status;
  const grpc::Status copied = Copy(CopyOf(spec), &status);
  ASSERT_TRUE(copied.ok()) << copied.error_message();
  EXPECT_EQ(status.generation(), 2u);
  EXPECT_EQ(status.version(), 2u);
  EXPECT_EQ(status.applied().SerializeAsString(), there_.Get(spec).applied().SerializeAsString());
  ASSERT_TRUE(there_.SetGeneration(spec, 2).ok());
  PushRequest next = MakePush(spec, 1, 3, WholeShard(spec), -0.5);
  next.set_generation(2);
  Pusher here(data_.get());
  EXPECT_EQ(pusher.Push(next).code(), 0);
  EXPECT_EQ(here.Push(next).code(), 0);
  PullRequest pull = millrace::testing::MakePull(spec);
  pull.set_generation(2);
  Puller of_source(pushes_.get(), spec);
  Puller of_copy(data_.get(), spec);
  EXPECT_EQ(of_source.Pull(pull).slices, of_copy.Pull(pull).slices);
}

TEST_F(PsCopyTest, SynchronousShardGoesOnElsewhereAsItWould) {
  ShardSpec spec = MakeSpec({4, 300000}, /*replicas=*/2);
  spec.mutable_optimizer()->mutable_adam()->set_learning_rate(0.5);
  ASSERT_TRUE(there_.Create(spec).ok());
  Pusher pusher(pushes_.get());
  uint64_t push_id = 0;
  for (const float value : {0.25F, 0.75F, -1.5F, 0.5F}) {  // Two versions.
    const uint64_t step = push_id;
    ASSERT_EQ(pusher.Push(MakePush(spec, step, ++push_id, WholeShard(spec), value)).code(), 0);
  }
  ShardStatus status;
  const grpc::Status copied = Copy(CopyOf(spec), &status);
  ASSERT_TRUE(copied.ok()) << copied.error_message();
  EXPECT_EQ(status.version(), 2u);
  EXPECT_EQ(status.applied().watermark(), there_.Get(spec).applied().watermark());
  ASSERT_TRUE(there_.SetGeneration(spec, 2).ok());
  Pusher here(data_.get());
  for (const float value : {-0.5F, 2.0F}) {
    const uint64_t step = push_id;
    PushRequest next = MakePush(spec, step, ++push_id, WholeShard(spec), value);
    next.set_generation(2);
    EXPECT_EQ(pusher.Push(next).code(), 0);
    EXPECT_EQ(here.Push(next).code(), 0);
  }
  PullRequest pull = millrace::testing::MakePull(spec);
  pull.set_generation(2);
  pull.set_version(3);
  Puller of_source(pushes_.get(), spec);
  Puller of_copy(data_.get(), spec);
  const auto expected = of_source.Pull(pull);
  EXPECT_EQ(expected.version, 3u) << expected.message;
  const auto pulled = of_copy.Pull(pull);
  EXPECT_EQ(pulled.version, 3u) << pulled.message;
  EXPECT_EQ(pulled.slices, expected.slices);
}

TEST_F(PsCopyTest, ServersAreThoseThatTheDirectoriesSay) {
  const ShardSpec spec = MakeSpec({4});
  ASSERT_TRUE(Create(spec).ok());  // The source is the server of the fixture, for once.
  CrashablePs target(TestDirectory("target"));
  target.Start();
  const auto stub = ParameterServerAdmin::NewStub(CreateChannel(target.address()));
  CopyShardRequest request = CopyOf(spec);
  request.set_source_address(server_->address());
  request.set_source_directory_id(server_->directory_id());
  grpc::ClientContext context;
  ShardStatus status;
  const grpc::Status copied = stub->CopyShard(&context, request, &status);
  EXPECT_TRUE(copied.ok()) << copied.error_message();
  // And the other way: this server has it at the generation of the copy.
  CopyShardRequest back = CopyOf(spec);
  back.set_source_address(target.address());
  back.set_source_generation(2);
  back.set_generation(3);
  back.set_directory_id(server_->directory_id());
  EXPECT_TRUE(Copy(back, &status).ok());
  EXPECT_EQ(status.generation(), 3u);
}

TEST_F(PsCopyTest, ShardOfAJobThatHasEndedIsNotCopied) {
  const ShardSpec spec = MakeSpec({4});
  ASSERT_TRUE(there_.Create(spec).ok());
  const auto stub = ParameterServerAdmin::NewStub(CreateChannel(source_.address()));
  grpc::ClientContext context;
  ShardStatus status;
  ASSERT_TRUE(stub->RetireShard(&context, RequestFor<RetireShardRequest>(spec), &status).ok());
  const grpc::Status refused = Copy(CopyOf(spec));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("the job has ended"));
  EXPECT_EQ(CodeOfGet(spec), grpc::StatusCode::NOT_FOUND);
}

TEST_F(PsCopyTest, WhatIsNotAtRestIsNotCopied) {
  const ShardSpec spec = MakeSpec({4}, /*replicas=*/2);
  const auto error = [&] { return Copy(CopyOf(spec)); };
  EXPECT_EQ(error().error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(there_.Create(spec).ok());
  Pusher pusher(pushes_.get());
  pusher.Push(MakePush(spec, 0, 1, WholeShard(spec), 1));
  EXPECT_THAT(error().error_message(), HasSubstr("holds contributions to the version under way"));
  pusher.Push(MakePush(spec, 1, 2, WholeShard(spec), 1));
  source_.Kill();  // Without what it had acknowledged.
  source_.Start();
  there_.ConnectAdmin(CreateChannel(source_.address()));
  EXPECT_THAT(error().error_message(), HasSubstr("is closed"));
  ASSERT_TRUE(there_.SetGeneration(spec, 2).ok());
  EXPECT_THAT(error().error_message(), HasSubstr("at generation 2, the request at 1"));
  CopyShardRequest request = CopyOf(spec);
  request.set_source_generation(2);
  request.set_generation(3);
  ShardStatus status;
  EXPECT_TRUE(Copy(request, &status).ok());
  EXPECT_EQ(status.version(), 0u);
}

// It was gone before it was read.
TEST_F(PsCopyTest, ServerDoesNotDropAShardToCopyItFromItself) {
  const ShardSpec spec = MakeSpec({4});
  ASSERT_TRUE(Create(spec).ok());
  CopyShardRequest request = CopyOf(spec);
  request.set_source_address(server_->address());
  const grpc::Status status = Copy(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("is this server the source?"));
  EXPECT_EQ(Get(spec).generation(), 1u);
}

TEST_F(PsCopyTest, RequestsThatMakeNoSenseAreNamed) {
  const ShardSpec spec = MakeSpec({4});
  ASSERT_TRUE(there_.Create(spec).ok());
  const auto error = [&](const std::function<void(CopyShardRequest&)>& change) {
    CopyShardRequest request = CopyOf(spec);
    change(request);
    const grpc::Status status = Copy(request);
    return absl::StrCat(static_cast<int>(status.error_code()), " ", status.error_message());
  };
  EXPECT_EQ(error([](auto& request) { request.set_generation(1); }),
            "3 generation: 1; must be above source_generation, 1");
  EXPECT_THAT(error([](auto& request) { request.set_generation(uint64_t{1} << 32); }),
              HasSubstr("generation: 4294967296; must be below"));
  EXPECT_EQ(error([](auto& request) { request.clear_source_address(); }),
            "3 source_address: is empty; must be that of a ps server");
  EXPECT_THAT(error([](auto& request) { request.set_job_id(std::string(201, 'j')); }),
              HasSubstr("job_id: has 201 bytes"));
  EXPECT_THAT(error([](auto& request) { request.clear_job_id(); }),
              HasSubstr("3 job_id: has 0 bytes"));
  EXPECT_THAT(error([](auto& request) { request.set_directory_id("other"); }),
              HasSubstr("directory_id: other; the server at this address has"));
  EXPECT_THAT(error([](auto& request) { request.set_source_directory_id("other"); }),
              HasSubstr("directory_id: other; the server at this address has"));
  EXPECT_THAT(error([](auto& request) { request.set_source_address("127.0.0.1:1"); }),
              HasSubstr("14 the ps server at 127.0.0.1:1: "));
  EXPECT_EQ(CodeOfGet(spec), grpc::StatusCode::NOT_FOUND) << "nothing was made";
}

TEST_F(PsCopyTest, WhatComesDamagedIsNotTaken) {
  ShardSpec spec = MakeSpec({4, 300000});
  spec.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
  ASSERT_TRUE(there_.Create(spec).ok());
  const std::vector<ReadShardResponse> sound = WhatIsSent(spec);
  ASSERT_EQ(sound.size(), 7u) << "three blocks of two arrays";
  LyingPs liar;
  CopyShardRequest request = CopyOf(spec);
  request.set_source_address(liar.address());
  const auto error = [&](const std::function<void(std::vector<ReadShardResponse>&)>& change) {
    std::vector<ReadShardResponse> answers = sound;
    change(answers);
    liar.SetAnswers(std::move(answers));
    const grpc::Status status = Copy(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS) << status.error_message();
    return status.error_message();
  };
  EXPECT_THAT(error([](auto& answers) { (*answers[3].mutable_array()->mutable_data())[5] ^= 1; }),
              HasSubstr("has another checksum"));
  EXPECT_THAT(error([](auto& answers) { answers.pop_back(); }), HasSubstr("has sent less than"));
  EXPECT_THAT(error([](auto& answers) { answers.push_back(answers.back()); }),
              HasSubstr("has sent more than"));
  EXPECT_THAT(error([](auto& answers) { std::swap(answers[2], answers[3]); }),
              HasSubstr("bytes, where the next one has"));
  EXPECT_THAT(error([](auto& answers) { answers[3] = answers[1]; }),
              HasSubstr("has sent an array of 16 bytes, where the next one has 1048576"));
  EXPECT_THAT(error([](auto& answers) { answers[3].clear_array(); }),
              HasSubstr("has sent an array of 0 bytes"));
  EXPECT_THAT(error([](auto& answers) { answers.erase(answers.begin()); }),
              HasSubstr("does not say what the shard is"));
  EXPECT_THAT(error([](auto& answers) { answers.clear(); }), HasSubstr("has sent less than"));
  liar.SetAnswers(sound);
  EXPECT_TRUE(Copy(request).ok()) << "nothing is left of those that failed";
}

TEST_F(PsCopyTest, SourceThatGoesAwayMidwayIsNamed) {
  const ShardSpec spec = MakeSpec({4, 300000});
  ASSERT_TRUE(there_.Create(spec).ok());
  std::vector<ReadShardResponse> sent = WhatIsSent(spec);
  ASSERT_EQ(sent.size(), 4u);
  sent.resize(2);
  LyingPs liar;
  liar.SetAnswers(sent, grpc::Status(grpc::StatusCode::UNAVAILABLE, "the ps server stops"));
  CopyShardRequest request = CopyOf(spec);
  request.set_source_address(liar.address());
  const grpc::Status status = Copy(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the ps server at " + liar.address() + ": the ps server stops");
  EXPECT_EQ(CodeOfGet(spec), grpc::StatusCode::NOT_FOUND);
}

// All values came, and then it said that they are not the shard's any more.
TEST_F(PsCopyTest, SourceThatTakesBackWhatItSentIsBelieved) {
  const ShardSpec spec = MakeSpec({4});
  ASSERT_TRUE(there_.Create(spec).ok());
  LyingPs liar;
  liar.SetAnswers(WhatIsSent(spec),
                  grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "is at generation 2"));
  CopyShardRequest request = CopyOf(spec);
  request.set_source_address(liar.address());
  EXPECT_EQ(Copy(request).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(CodeOfGet(spec), grpc::StatusCode::NOT_FOUND);
}

// Sends a shard of three blocks, each of which is one array.
class SendShardTest : public ::testing::Test {
 protected:
  SendShardTest() : store_(*ShardStore::Open(TestDirectory("sending"))) {
    EXPECT_TRUE(store_->Create(MakeSpec({4, 4, 8}), 1).ok());
    shard_ = *store_->shards().Find("job", 0);
  }

  // Calls `midway` before the message of that number, from 0.
  absl::Status Send(size_t number, const std::function<bool()>& midway) {
    return SendShard(*shard_, 1, [&](const ReadShardResponse& response) {
      const bool goes_on = sent_.size() != number || midway();
      if (goes_on) sent_.push_back(response);
      return goes_on;
    });
  }

  std::unique_ptr<ShardStore> store_;
  std::shared_ptr<Shard> shard_;
  std::vector<ReadShardResponse> sent_;
};

TEST_F(SendShardTest, GenerationThatGrowsMidwayEndsIt) {
  const absl::Status status = Send(1, [this] { return store_->SetGeneration("job", 0, 2).ok(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("at generation 2, the request at 1"));
  EXPECT_EQ(sent_.size(), 2u) << "and no more is sent";
}

TEST_F(SendShardTest, GenerationThatGrowsAtTheEndIsNoticed) {
  EXPECT_EQ(Send(3, [this] { return store_->SetGeneration("job", 0, 2).ok(); }).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(SendShardTest, NothingIsSentToThoseWhoAreGone) {
  EXPECT_EQ(Send(2, [] { return false; }).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(sent_.size(), 2u);
}

TEST_F(SendShardTest, StepThatComesMidwayChangesNothingOfWhatIsSent) {
  const auto push = [this] {
    return PushWhole(shard_.get(), 0, 1, std::vector<float>(16, 1)).code() == 0;
  };
  ASSERT_TRUE(Send(2, push).ok());
  EXPECT_EQ(shard_->Status().version(), 1u);
  ASSERT_EQ(sent_.size(), 4u);
  EXPECT_EQ(sent_[0].snapshot().version(), 0u);
  for (size_t i = 1; i < sent_.size(); ++i) {
    const std::string& data = sent_[i].array().data();
    EXPECT_EQ(data, std::string(data.size(), 0)) << i;  // As they began.
  }
}

}  // namespace
}  // namespace millrace::ps
