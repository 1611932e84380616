// What a trainer does with its jobs when its session ends and another one begins.
#include "absl/time/time.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"
#include "worker/training/fakes.h"
#include "worker/training/trainer_fixture.h"

namespace millrace::worker {
namespace {

using ::testing::SizeIs;

class SessionsTest : public TrainerFixture {
 protected:
  SessionsTest() { clock_ = &simulated_clock_; }
  ~SessionsTest() override { trainer_.reset(); }  // Before the clock.

  SimulatedClock simulated_clock_;
};

// It may have ended while this worker had no session.
TEST_F(SessionsTest, JobThatANewSessionDoesNotRouteIsForgotten) {
  StartJob(FakeJob());
  CoordinatorMessage other = RouteMessage(FakeJob(), 1);
  other.mutable_set_route()->set_job_id("job-2");
  Route(other);
  trainer_->DropWork();
  Route(other);
  simulated_clock_.Advance(absl::Minutes(2));
  world_.log.Await("model gone");
  Route(other);  // Goes on.
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(2));
}

// The time of the session before is over while the new one still has some.
TEST_F(SessionsTest, JobThatANewSessionMayStillRouteIsKept) {
  StartJob(FakeJob());
  trainer_->DropWork();
  trainer_->Handle(PlanMessage(5, FakeJob(/*replicas=*/2)));
  said_.Next();
  simulated_clock_.Advance(absl::Seconds(30));
  trainer_->DropWork();
  simulated_clock_.Advance(absl::Seconds(30));
  world_.log.Await("model gone");  // The planned one's, whose time came after the session's.
  Route(RouteMessage(FakeJob(), 1));
  EXPECT_THAT(world_.log.EventsWith("make model"), SizeIs(2)) << "the job's stayed";
}

}  // namespace
}  // namespace millrace::worker
