// A whole worker against a coordinator on loopback; the data, the model and the ps servers are
// fakes.
#include "worker/worker.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/membership/fake_coordinator.h"
#include "common/version.h"
#include "gmock/gmock.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"
#include "worker/training/fakes.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::FakeCoordinator;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class WorkerTest : public ::testing::Test {
 protected:
  WorkerOptions Options() {
    WorkerOptions options;
    options.name = "worker-5";
    options.coordinator_address = coordinator_.address();
    options.model_factory = world_.make_model();
    options.open_dataset = world_.open_dataset();
    options.parameter_client_factory = world_.make_client();
    return options;
  }

  void StartWelcome() {
    absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(Options());
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    coordinator_.AwaitRegistration();
    coordinator_.SendWelcome();
  }

  std::string StartError(const WorkerOptions& options) {
    const auto worker = Worker::Start(options);
    EXPECT_TRUE(absl::IsInvalidArgument(worker.status())) << worker.status();
    return std::string(worker.status().message());
  }

  FakeWorld world_;
  FakeCoordinator coordinator_;
  std::unique_ptr<Worker> worker_;  // Last: ends first.
};

TEST_F(WorkerTest, RegistersWithWhatItIs) {
  WorkerOptions options = Options();
  options.lease_slots = 3;
  options.threads = 2;
  auto worker = Worker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const RegisterWorker registration = coordinator_.AwaitRegistration();
  EXPECT_EQ(registration.name(), "worker-5");
  EXPECT_EQ(registration.lease_slots(), 3);
  EXPECT_THAT(registration.device(), StartsWith("cpu/2 ("));
  EXPECT_EQ(registration.version(), Version());
}

TEST_F(WorkerTest, SaysThatItWasWelcomed) {
  WorkerOptions options = Options();
  std::promise<void> welcomed;
  options.on_welcomed = [&welcomed, told = false]() mutable {
    if (!std::exchange(told, true)) welcomed.set_value();
  };
  worker_ = Worker::Start(options).value();
  coordinator_.AwaitRegistration();
  coordinator_.SendWelcome();
  welcomed.get_future().wait();
  worker_.reset();  // It uses `welcomed`.
}

TEST_F(WorkerTest, EachLifeHasAnIncarnationOfItsOwn) {
  auto worker = Worker::Start(Options());
  const uint64_t first = coordinator_.AwaitRegistration().incarnation();
  worker = absl::CancelledError();  // Destroys it.
  worker = Worker::Start(Options());
  EXPECT_NE(coordinator_.AwaitRegistration().incarnation(), first);
}

TEST_F(WorkerTest, PlansTrainsAndEvaluates) {
  StartWelcome();
  coordinator_.Send(PlanMessage(1, FakeJob()));
  EXPECT_EQ(coordinator_.Next().plan_result().plan().train_examples(), 8);
  coordinator_.Send(RouteMessage(FakeJob(), 1));
  EXPECT_EQ(coordinator_.Next().job_prepared().job_id(), "job-1");
  coordinator_.Send(LeaseMessage(1, 0, 2));
  EXPECT_EQ(coordinator_.Next().step_result().step(), 0);
  EXPECT_EQ(coordinator_.Next().step_result().step(), 1);
  coordinator_.Send(EvaluateMessage(1, "cut-1"));
  EXPECT_EQ(coordinator_.Next().evaluation_result().examples(), 5);
  EXPECT_THAT(world_.log.EventsWith("open data.train"), SizeIs(1));
}

TEST_F(WorkerTest, HeartbeatsTellWhatItDoes) {
  world_.on_pull = [](const FakePull& pull) {
    pull.wait_for_cancel();
    return absl::CancelledError("no longer wanted");
  };
  worker_ = Worker::Start(Options()).value();
  coordinator_.AwaitRegistration();
  coordinator_.SendWelcome(/*heartbeat_period=*/absl::Milliseconds(10));
  coordinator_.Send(RouteMessage(FakeJob(), 1));
  coordinator_.Send(LeaseMessage(1, 5, 6));
  for (;;) {
    const MemberMessage message = coordinator_.Next();
    if (message.heartbeat().activities_size() != 1) continue;
    const Activity& activity = message.heartbeat().activities(0);
    if (activity.kind() != Activity::PULLING) continue;
    EXPECT_EQ(activity.job_id(), "job-1");
    EXPECT_EQ(activity.step(), 5u);
    break;
  }
}

TEST_F(WorkerTest, StopReturnsTheLeasesAndSaysGoodbye) {
  world_.on_pull = [](const FakePull& pull) {
    pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartWelcome();
  coordinator_.Send(RouteMessage(FakeJob(), 1));
  EXPECT_EQ(coordinator_.Next().job_prepared().job_id(), "job-1");
  coordinator_.Send(LeaseMessage(9, 4, 6));
  world_.log.Await("pull newest");
  worker_->Stop();
  EXPECT_TRUE(coordinator_.Next().has_draining());
  const MemberMessage returned = coordinator_.Next();
  EXPECT_EQ(returned.lease_returned().lease_id(), 9);
  EXPECT_EQ(returned.lease_returned().step(), 4);
  EXPECT_EQ(returned.lease_returned().code(), 0);
  EXPECT_TRUE(coordinator_.Next().has_leaving());
  EXPECT_TRUE(worker_->Wait().ok());
  worker_->Stop();  // Again, to no effect.
}

TEST_F(WorkerTest, WorksForACoordinatorThatComesBack) {
  // Not on the stack: only gRPC, which ThreadSanitizer does not see into, orders the pulls before
  // the end of this function.
  const auto pulls = std::make_shared<std::atomic<int>>(0);
  world_.on_pull = [pulls](const FakePull& pull) {
    if (pulls->fetch_add(1) == 0) pull.wait_for_cancel();
    return absl::OkStatus();
  };
  StartWelcome();
  coordinator_.Send(RouteMessage(FakeJob(), 1));
  EXPECT_EQ(coordinator_.Next().job_prepared().job_id(), "job-1");
  coordinator_.Send(LeaseMessage(1, 0, 2));
  world_.log.Await("pull newest");
  coordinator_.End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "stops"));
  coordinator_.AwaitRegistration();
  coordinator_.SendWelcome();  // The lease is void now.
  coordinator_.Send(RouteMessage(FakeJob(), 2));
  EXPECT_EQ(coordinator_.Next().job_prepared().job_id(), "job-1");
  coordinator_.Send(LeaseMessage(1, 6, 7, /*generation=*/2));
  const MemberMessage result = coordinator_.Next();
  EXPECT_EQ(result.step_result().step(), 6) << result.DebugString();
}

TEST_F(WorkerTest, RefusedWorkerEnds) {
  auto worker = Worker::Start(Options());
  ASSERT_TRUE(worker.ok()) << worker.status();
  coordinator_.AwaitRegistration();
  coordinator_.End(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "name: 'worker-5'"));
  const absl::Status end = (*worker)->Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("name: 'worker-5'"));
}

TEST_F(WorkerTest, WrongOptionsAreNamed) {
  WorkerOptions options = Options();
  options.name = "";
  EXPECT_THAT(StartError(options), StartsWith("name: "));
  options = Options();
  options.coordinator_address = "nowhere";
  EXPECT_THAT(StartError(options), StartsWith("coordinator: "));
  options = Options();
  options.lease_slots = 0;
  EXPECT_THAT(StartError(options), StartsWith("lease_slots: 0"));
  options = Options();
  options.device = "abacus";
  EXPECT_THAT(StartError(options), StartsWith("device: 'abacus'"));
  options = Options();
  options.threads = 0;
  EXPECT_THAT(StartError(options), StartsWith("threads: 0"));
  options.threads = 100000;
  EXPECT_EQ(StartError(options), "threads: 100000; must be from 1 to 1024");
  options = Options();
  options.data_memory = ~uint64_t{0};
  EXPECT_THAT(StartError(options),
              StartsWith("data_memory: 18446744073709551615; must be at most"));
  options = Options();
  options.device_timeout = absl::ZeroDuration();
  EXPECT_EQ(StartError(options), "device_timeout: 0; must be from 1ms to 24h");
  options = Options();
  options.step_timeout = absl::ZeroDuration();
  EXPECT_THAT(StartError(options), StartsWith("step_timeout: 0"));
  options.step_timeout = absl::Seconds(1);
  options.call_timeout = absl::ZeroDuration();
  EXPECT_THAT(StartError(options), StartsWith("call_timeout: 0"));
  options = Options();
  options.own_models.resize(1);
  EXPECT_THAT(StartError(options), StartsWith("own_models: "));
}

}  // namespace
}  // namespace millrace::worker
