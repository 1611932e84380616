#include "ps/membership.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "common/mutex.h"
#include "common/net/server.h"
#include "common/proto_duration.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/cluster.grpc.pb.h"

namespace millrace::ps {
namespace {

// A coordinator that keeps what members say, and ends streams when it is told to.
class FakeCoordinator final : public millrace::Membership::Service {
 public:
  using Stream = grpc::ServerReaderWriter<CoordinatorMessage, MemberMessage>;

  // How the next streams end, right after the registration; OK: they go on.
  void RefuseNext(std::vector<grpc::Status> statuses) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    refusals_.assign(statuses.begin(), statuses.end());
  }

  grpc::Status Join(grpc::ServerContext* /*context*/, Stream* stream) override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    MemberMessage message;
    if (!stream->Read(&message)) return grpc::Status::OK;
    Keep(message);
    {
      MutexLock lock(&mutex_);
      if (!refusals_.empty()) {
        const grpc::Status status = refusals_.front();
        refusals_.pop_front();
        if (!status.ok()) return status;
      }
    }
    CoordinatorMessage welcome;
    *welcome.mutable_welcome()->mutable_heartbeat_period() = ToProto(absl::Milliseconds(10));
    stream->Write(welcome);
    while (stream->Read(&message)) Keep(message);
    return grpc::Status::OK;
  }

  // Waits for the next message.
  MemberMessage Next() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (messages_.empty()) changed_.Wait(&mutex_);
    MemberMessage message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

  // The kind of the next message that is no heartbeat.
  MemberMessage::KindCase NextKind() {
    while (true) {
      const MemberMessage message = Next();
      if (!message.has_heartbeat()) return message.kind_case();
    }
  }

 private:
  void Keep(const MemberMessage& message) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    messages_.push_back(message);
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<MemberMessage> messages_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::Status> refusals_ ABSL_GUARDED_BY(mutex_);
};

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() { Serve("127.0.0.1:0"); }

  void Serve(const std::string& address) {
    ServerOptions options;
    options.listen = address;
    auto server = RpcServer::Start(options, {&coordinator_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  MembershipOptions Options() {
    MembershipOptions options;
    options.coordinator_address = server_->address();
    options.name = "ps-7";
    options.directory_id = "directory";
    options.incarnation = 5;
    options.address = "host:1";
    options.shards = [] {
      ShardStatus status;
      status.set_job_id("job");
      status.set_version(3);
      return std::vector<ShardStatus>{status};
    };
    return options;
  }

  FakeCoordinator coordinator_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(MembershipTest, RegistersSendsHeartbeatsAndLeaves) {
  Membership membership(Options());
  const MemberMessage first = coordinator_.Next();
  EXPECT_EQ(first.register_ps().name(), "ps-7");
  EXPECT_EQ(first.register_ps().directory_id(), "directory");
  EXPECT_EQ(first.register_ps().incarnation(), 5);
  EXPECT_EQ(first.register_ps().address(), "host:1");
  ASSERT_EQ(first.register_ps().shards_size(), 1);
  EXPECT_EQ(first.register_ps().shards(0).version(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(coordinator_.Next().has_heartbeat());
  membership.Leave();
  EXPECT_EQ(coordinator_.NextKind(), MemberMessage::kLeaving);
}

TEST_F(MembershipTest, DialsAgainWhenItIsRefusedForNow) {
  coordinator_.RefuseNext({grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "the old stream lives"),
                           grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping")});
  Membership membership(Options());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(coordinator_.Next().has_register_ps());
  EXPECT_TRUE(coordinator_.Next().has_heartbeat());
}

TEST_F(MembershipTest, FindsTheCoordinatorWhenItComesBack) {
  const std::string address = server_->address();
  Membership membership(Options());
  EXPECT_TRUE(coordinator_.Next().has_register_ps());
  server_->Shutdown(absl::ZeroDuration());
  server_.reset();
  Serve(address);
  EXPECT_EQ(coordinator_.NextKind(), MemberMessage::kRegisterPs);
}

TEST_F(MembershipTest, SaysWhenItIsRefusedForGood) {
  coordinator_.RefuseNext({grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no address")});
  Mutex mutex;
  CondVar changed;
  absl::optional<absl::Status> rejected;
  MembershipOptions options = Options();
  options.on_rejected = [&](const absl::Status& status) {
    MutexLock lock(&mutex);
    rejected = status;
    changed.SignalAll();
  };
  Membership membership(std::move(options));
  MutexLock lock(&mutex);
  while (!rejected.has_value()) changed.Wait(&mutex);
  EXPECT_EQ(rejected->message(), "no address");
}

TEST_F(MembershipTest, LeavesWithoutACoordinator) {
  MembershipOptions options = Options();
  server_->Shutdown(absl::ZeroDuration());
  Membership membership(std::move(options));
  membership.Leave();
}

}  // namespace
}  // namespace millrace::ps
