// Checkpoints over the wire, while others train; and how a server stops whose jobs have some.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/membership/fake_coordinator.h"
#include "common/net/channel.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/ps_server.h"
#include "ps/ps_test_util.h"
#include "ps/shard_admin.h"
#include "ps/store/checkpoint_test_util.h"
#include "rocksdb/file_system.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::BeginCheckpoint;
using ::millrace::testing::FakeCoordinator;
using ::millrace::testing::MakeCheckpointRequest;
using ::millrace::testing::MakePush;
using ::millrace::testing::Pulled;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::millrace::testing::TestJob;
using ::millrace::testing::WholeShard;
using ::testing::Each;

constexpr absl::Duration kRpcPatience = absl::Seconds(60);

OptimizerSpec UnitSgd() {
  OptimizerSpec spec;
  spec.mutable_sgd()->set_learning_rate(1);
  return spec;
}

// A server and its clients.
class ServedPs : public ShardAdmin {
 public:
  explicit ServedPs(const std::string& name, PsServerOptions options = {})
      : options_(std::move(options)) {
    options_.data_dir = TestDirectory(name);
    Restart();
  }

  void Restart() {
    server_.reset();
    absl::StatusOr<std::unique_ptr<PsServer>> server;
    do {  // Until the last call of the one before has let go of the directory.
      server = PsServer::Start(options_);
    } while (absl::IsUnavailable(server.status()));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const auto channel = CreateChannel(server_->address());
    data_ = ParameterServer::NewStub(channel);
    ConnectAdmin(channel);
  }

  PsServer* server() { return server_.get(); }
  ParameterServer::Stub* data() { return data_.get(); }

  grpc::Status Write(const WriteCheckpointRequest& request, WriteCheckpointResponse* response,
                     absl::Duration timeout = kRpcPatience) {
    grpc::ClientContext context;
    context.set_deadline(SystemDeadline(timeout));
    return admin_->WriteCheckpoint(&context, request, response);
  }

 private:
  PsServerOptions options_;
  std::unique_ptr<PsServer> server_;
  std::unique_ptr<ParameterServer::Stub> data_;
};

class PsCheckpointTest : public ::testing::Test {
 protected:
  PsCheckpointTest() : checkpoints_(TestDirectory("checkpoints")) {
    std::filesystem::create_directories(checkpoints_);
  }

  // Its values are minus its version.
  ShardSpec Spec() const {
    ShardSpec spec = job_.Shards(1)[0];
    for (ShardSlice& slice : *spec.mutable_slices()) {
      slice.mutable_initial_value()->set_constant(0);
    }
    spec.mutable_cut_period()->set_seconds(0);
    spec.mutable_cut_period()->set_nanos(5'000'000);  // Cuts come and go all the time.
    return spec;
  }

  size_t FilesIn(uint64_t number) const {
    const std::string folder = absl::StrFormat("%s/%06d", checkpoints_, number);
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

  const TestJob job_ = TestJob({kBlockElements + 1000, 3}, UnitSgd());
  const std::string checkpoints_;
};

TEST_F(PsCheckpointTest, EachCheckpointIsOneMomentOfATrainingThatGoesOn) {
  constexpr int kCheckpoints = 6;
  ServedPs ps("trained");
  const ShardSpec spec = Spec();
  ASSERT_TRUE(ps.Create(spec).ok());
  std::atomic<bool> done = false;
  std::atomic<uint64_t> next_step = 0;
  std::vector<std::thread> pushers;
  for (int i = 0; i < 2; ++i) {
    pushers.emplace_back([&] {
      Pusher pusher(ps.data());
      while (!done) {
        const uint64_t step = next_step++;
        ASSERT_EQ(pusher.Push(MakePush(spec, step, step + 1, WholeShard(spec), 1)).code(), 0);
      }
    });
  }
  uint64_t base = 0;
  std::vector<CheckpointShard> written;
  for (int i = 0; i < kCheckpoints; ++i) {
    WriteCheckpointRequest request =
        MakeCheckpointRequest(0, checkpoints_, BeginCheckpoint(checkpoints_));
    request.set_base(base);
    WriteCheckpointResponse response;
    const grpc::Status status = ps.Write(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    job_.Commit(checkpoints_, request.checkpoint(), {response.shard()});
    written.push_back(response.shard());
    base = request.checkpoint();
  }
  done = true;
  for (std::thread& pusher : pushers) pusher.join();
  for (size_t i = 0; i < written.size(); ++i) {
    ServedPs restored("restored");
    const ShardSpec from = TestJob::Restored({spec}, checkpoints_, i + 1)[0];
    const grpc::Status status = restored.Create(from);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const Pulled pulled = Puller(restored.data(), from).Pull();
    EXPECT_EQ(pulled.version, written[i].version());
    for (const std::vector<float>& slice : pulled.slices) {
      EXPECT_THAT(slice, Each(-static_cast<float>(pulled.version)));
    }
    const StepSet& applied = written[i].applied();
    EXPECT_EQ(applied.watermark() + static_cast<uint64_t>(applied.above_size()), pulled.version);
    EXPECT_EQ(restored.server()->Stop(), absl::OkStatus());
  }
}

TEST_F(PsCheckpointTest, ClientThatGoesEndsTheWriting) {
  PsServerOptions options;
  options.checkpoint_bandwidth = 1;  // It would take days.
  ServedPs ps("slow", options);
  ASSERT_TRUE(ps.Create(Spec()).ok());
  const uint64_t number = BeginCheckpoint(checkpoints_);
  const WriteCheckpointRequest request = MakeCheckpointRequest(0, checkpoints_, number);
  WriteCheckpointResponse response;
  for (int i = 0; i < 2; ++i) {
    grpc::Status status;
    do {  // The server hears of it soon, not at once.
      status = ps.Write(request, &response, absl::Milliseconds(200));
    } while (status.error_code() == grpc::StatusCode::ALREADY_EXISTS);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  }
  EXPECT_EQ(ps.server()->Stop(), absl::OkStatus());
  EXPECT_EQ(FilesIn(number), 0);
}

// Hangs wherever a checkpoint's file of values is to be made, and, when told so, where one of the
// server's own is to be read.
class HangingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  HangingFileSystem() : rocksdb::FileSystemWrapper(RealFileSystem()) {}
  const char* Name() const override { return "HangingFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    if (absl::EndsWith(path, ".safetensors")) Hang();
    return FileSystemWrapper::NewWritableFile(path, options, file, debug);
  }

  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    if (reads_hang_) Hang();
    return FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
  }

  void HangReads() { reads_hang_ = true; }
  void WaitUntilItHangs() { hangs_.get_future().wait(); }
  void Mend() {
    reads_hang_ = false;
    mended_.set_value();
  }

 private:
  void Hang() {
    hangs_.set_value();
    mended_.get_future().wait();
  }

  std::atomic<bool> reads_hang_ = false;
  std::promise<void> hangs_;
  std::promise<void> mended_;
};

// Once it is told so, its time flies while somebody waits for calls that wait for files.
class ImpatientClock final : public Clock {
 public:
  absl::Time Now() override { return clock_.Now(); }
  bool WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (!impatient_ || deadline != Now() + PsServer::kFilesTimeout) {
      return clock_.WaitUntil(condition, mutex, deadline);
    }
    clock_.Advance(PsServer::kFilesTimeout);
    return true;
  }

  void SetImpatient(bool impatient) { impatient_ = impatient; }

 private:
  SimulatedClock clock_;
  std::atomic<bool> impatient_ = false;
};

// It waited for that for ever.
TEST_F(PsCheckpointTest, DirectoryThatHangsKeepsNoServerFromStopping) {
  const auto files = std::make_shared<HangingFileSystem>();
  ImpatientClock clock;
  PsServerOptions options;
  options.clock = &clock;
  options.file_system = files;
  ServedPs ps("hanging", options);
  ASSERT_TRUE(ps.Create(Spec()).ok());
  Pusher pusher(ps.data());
  ASSERT_EQ(pusher.Push(MakePush(Spec(), 0, 0, WholeShard(Spec()), 1)).code(), 0);
  auto written = std::async(std::launch::async, [&] {
    WriteCheckpointResponse response;
    return ps.Write(MakeCheckpointRequest(0, checkpoints_, BeginCheckpoint(checkpoints_)),
                    &response);
  });
  files->WaitUntilItHangs();
  clock.SetImpatient(true);
  EXPECT_EQ(ps.server()->Stop(), absl::OkStatus());
  EXPECT_FALSE(written.get().ok());
  clock.SetImpatient(false);
  files->Mend();
  ps.Restart();
  const Pulled pulled = Puller(ps.data(), Spec()).Pull();
  EXPECT_EQ(pulled.version, 1) << pulled.message;
}

// What it reads of its own may be of a shard that is to be written.
TEST_F(PsCheckpointTest, OwnDiskThatHangsEndsTheStopAsAKillWould) {
  const auto files = std::make_shared<HangingFileSystem>();
  ImpatientClock clock;
  PsServerOptions options;
  options.clock = &clock;
  options.file_system = files;
  ServedPs ps("hanging_disk", options);
  const ShardSpec spec = TestJob({10}, UnitSgd(), /*replicas=*/1).Shards(1)[0];
  ASSERT_TRUE(ps.Create(spec).ok());
  Pusher pusher(ps.data());
  ASSERT_EQ(pusher.Push(MakePush(spec, 0, 0, WholeShard(spec), 1)).code(), 0);
  ShardStatus status;
  ASSERT_TRUE(ps.Flush(spec, &status).ok());
  files->HangReads();
  auto stepped_back = std::async(std::launch::async, [&] { return ps.StepBack(spec, 1); });
  files->WaitUntilItHangs();
  clock.SetImpatient(true);
  EXPECT_EQ(ps.server()->Stop().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(stepped_back.get().ok());
  clock.SetImpatient(false);
  files->Mend();
  ps.Restart();
  status = ps.Get(spec);
  EXPECT_EQ(status.version(), 1);
  EXPECT_TRUE(status.closed()) << "more may have been acknowledged";
}

TEST_F(PsCheckpointTest, CallersInThisProcessKeepNoServerFromStoppingAndOnlyGetErrors) {
  ImpatientClock clock;
  PsServerOptions options;
  options.clock = &clock;
  ServedPs ps("called", options);
  ASSERT_TRUE(ps.Create(Spec()).ok());
  auto stub = ParameterServer::NewStub(ps.server()->InProcessChannel());
  clock.SetImpatient(true);
  EXPECT_EQ(ps.server()->Stop(), absl::OkStatus());
  for (int i = 0; i < 2; ++i) {
    Pusher late(stub.get());
    EXPECT_FALSE(late.Read().has_value());
    EXPECT_EQ(late.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  clock.SetImpatient(false);
  stub.reset();
  ps.Restart();
  EXPECT_EQ(Puller(ps.data(), Spec()).Pull().version, 0);
}

class DrainingPsTest : public PsCheckpointTest {
 protected:
  // Joined, with a heartbeat that says so.
  std::unique_ptr<ServedPs> Join() {
    PsServerOptions options;
    options.coordinator_address = coordinator_.address();
    auto ps = std::make_unique<ServedPs>("draining", options);
    coordinator_.AwaitMember();
    coordinator_.SendWelcome(absl::Milliseconds(10));
    EXPECT_TRUE(coordinator_.Next().has_heartbeat());
    return ps;
  }

  MemberMessage NextNews() {
    while (true) {
      MemberMessage message = coordinator_.Next();
      if (!message.has_heartbeat()) return message;
    }
  }

  FakeCoordinator coordinator_;
};

TEST_F(DrainingPsTest, ServesAndWritesCheckpointsUntilItMayLeave) {
  const std::unique_ptr<ServedPs> ps = Join();
  ASSERT_TRUE(ps->Create(Spec()).ok());
  auto stopped = std::async(std::launch::async, [&] { return ps->server()->Stop(); });
  ASSERT_TRUE(NextNews().has_draining());
  EXPECT_EQ(Puller(ps->data(), Spec()).Pull().code, 0);
  WriteCheckpointResponse response;
  const grpc::Status written =
      ps->Write(MakeCheckpointRequest(0, checkpoints_, BeginCheckpoint(checkpoints_)), &response);
  EXPECT_TRUE(written.ok()) << written.error_message();
  CoordinatorMessage may_leave;
  may_leave.mutable_may_leave();
  coordinator_.Send(may_leave);
  EXPECT_EQ(stopped.get(), absl::OkStatus());
  EXPECT_TRUE(NextNews().has_leaving());
}

TEST_F(DrainingPsTest, ServerWithoutJobsLeavesAtOnce) {
  const std::unique_ptr<ServedPs> ps = Join();
  EXPECT_EQ(ps->server()->Stop(), absl::OkStatus());
  EXPECT_TRUE(NextNews().has_leaving());
}

}  // namespace
}  // namespace millrace::ps
