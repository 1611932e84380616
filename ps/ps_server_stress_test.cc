// Pushers and pullers over the wire at once: every pull sees whole steps.
#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "common/net/channel.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/ps_server.h"
#include "ps/ps_test_util.h"
#include "testing/directory/test_directory.h"
#include "testing/seed/test_seed.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakePush;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::Pulled;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::testing::Each;

constexpr uint64_t kSteps = 60;
constexpr uint64_t kElements = kBlockElements + 1000;
constexpr uint64_t kPieceElements = 70'000;

class PsServerStressTest : public ::testing::Test {
 protected:
  PsServerStressTest() : spec_(MakeSpec({kElements, 3}, /*replicas=*/0, kSteps)) {
    PsServerOptions options;
    options.data_dir = TestDirectory("data");
    server_ = *PsServer::Start(options);
    CreateShardRequest request;
    *request.mutable_spec() = spec_;
    request.mutable_spec()->mutable_cut_period()->set_nanos(20'000'000);  // Flushes all the time.
    request.set_generation(1);
    grpc::ClientContext context;
    ShardStatus status;
    const auto admin = ParameterServerAdmin::NewStub(CreateChannel(server_->address()));
    EXPECT_TRUE(admin->CreateShard(&context, request, &status).ok());
  }

  // Pushes a step of ones over two streams, or leaves one of them with a part of it.
  void PushStep(ParameterServer::Stub* stub, uint64_t step, uint64_t push_id, bool break_off) {
    Pusher first(stub);
    Pusher second(stub);
    for (uint64_t offset = 0; offset < kElements; offset += kPieceElements) {
      const uint64_t count = std::min(kPieceElements, kElements - offset);
      Pusher& stream = offset / kPieceElements % 2 == 0 ? first : second;
      stream.Write(MakePush(spec_, step, push_id, {{0, offset, count}}, 1));
    }
    if (!break_off) second.Write(MakePush(spec_, step, push_id, {{1, 0, 3}}, 1));
    if (!break_off) ReadAnswer(&first, &second);
    first.Cancel();
    second.Cancel();
    first.Finish();
    second.Finish();
  }

  // The answer comes on the stream that completed the push.
  static void ReadAnswer(Pusher* first, Pusher* second) {
    std::thread reader([&] {
      if (first->Read().has_value()) second->Cancel();
    });
    if (second->Read().has_value()) first->Cancel();
    reader.join();
  }

  const ShardSpec spec_;
  std::unique_ptr<PsServer> server_;
};

TEST_F(PsServerStressTest, EveryPullSeesWholeSteps) {
  const auto seed = static_cast<unsigned>(TestSeed());
  std::atomic<uint64_t> next_step = 0;
  std::atomic<uint64_t> push_id = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> pushers;
  for (unsigned i = 0; i < 3; ++i) {
    pushers.emplace_back([&, i] {
      std::mt19937 random(seed + i);
      const auto stub = ParameterServer::NewStub(CreateChannel(server_->address(), true));
      for (uint64_t step; (step = next_step++) < kSteps;) {
        if (random() % 5 == 0) PushStep(stub.get(), step, ++push_id, /*break_off=*/true);
        PushStep(stub.get(), step, ++push_id, /*break_off=*/false);
        if (random() % 5 == 0) PushStep(stub.get(), step, ++push_id, /*break_off=*/false);
      }
    });
  }
  std::vector<std::thread> pullers;
  for (int i = 0; i < 2; ++i) {
    pullers.emplace_back([&] {
      const auto stub = ParameterServer::NewStub(CreateChannel(server_->address(), true));
      Puller puller(stub.get(), spec_);
      uint64_t version = 0;
      while (!done) {
        const Pulled pulled = puller.Pull();
        ASSERT_EQ(pulled.code, 0) << pulled.message;
        ASSERT_GE(pulled.version, version) << "versions went back";
        version = pulled.version;
        for (const std::vector<float>& slice : pulled.slices) {
          ASSERT_THAT(slice, Each(-static_cast<float>(version)));
        }
      }
    });
  }
  for (std::thread& pusher : pushers) pusher.join();
  done = true;
  for (std::thread& puller : pullers) puller.join();
  const auto stub = ParameterServer::NewStub(CreateChannel(server_->address()));
  Puller puller(stub.get(), spec_);
  EXPECT_EQ(puller.Pull().version, kSteps);
  EXPECT_TRUE(server_->Stop().ok());
}

}  // namespace
}  // namespace millrace::ps
