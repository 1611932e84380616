// Which jobs' data a worker opens, and how far.
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"
#include "worker/training/fakes.h"
#include "worker/training/trainer_fixture.h"

namespace millrace::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A worker that was told to end read gigabytes first.
class OpeningTest : public TrainerFixture {
 protected:
  OpeningTest() { world_.opens_until_stopped = true; }
};

TEST_F(OpeningTest, WorkerThatStopsOpensNoDataForAPlanAndLeavesThePlanToOthers) {
  Start();
  trainer_->Handle(PlanMessage(5, FakeJob()));
  world_.log.Await("open data.train");
  trainer_->Stop();
  const PlanResult result = said_.Next().plan_result();
  EXPECT_EQ(result.request_id(), 5);
  EXPECT_EQ(result.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_EQ(result.message(), "it leaves the cluster");
}

TEST_F(OpeningTest, WorkerThatStopsOpensNoDataForAJob) {
  Start();
  trainer_->Handle(RouteMessage(FakeJob(), /*generation=*/1));
  world_.log.Await("open data.train");
  trainer_->Stop();
  EXPECT_THAT(world_.log.events(), ElementsAre("open data.train", "stopped"));
  EXPECT_TRUE(said_.empty());
}

TEST_F(OpeningTest, DataOfAJobThatIsForgottenAreOpenedNoFurther) {
  Start();
  trainer_->Handle(RouteMessage(FakeJob(), /*generation=*/1));
  world_.log.Await("open data.train");
  trainer_->Handle(ForgetMessage());
  world_.log.Await("stopped");
}

TEST_F(OpeningTest, FilesThatWereNotThoseOfThePlanAreOpenedAgain) {
  world_.opens_until_stopped = false;
  int opened = 0;
  world_.on_open = [&](const std::string& field) {
    if (field == "data.train") world_.train_examples = opened++ == 0 ? 9 : kFakeTrainExamples;
    return absl::OkStatus();
  };
  Start();
  EXPECT_THAT(RouteError(RouteMessage(FakeJob(), 1)), HasSubstr("has 9 examples"));
  Route(RouteMessage(FakeJob(), 1));
  trainer_.reset();  // Before the count.
}

TEST_F(OpeningTest, PlanOfAJobIsAnsweredEachTime) {
  world_.opens_until_stopped = false;
  Start();
  for (const uint64_t request : {5, 6}) {
    trainer_->Handle(PlanMessage(request, FakeJob()));
    const PlanResult result = said_.Next().plan_result();
    EXPECT_EQ(result.request_id(), request);
    EXPECT_EQ(result.code(), 0) << result.message();
  }
  EXPECT_THAT(world_.log.EventsWith("open "), ElementsAre("open data.train", "open data.evaluate"));
}

// While a cluster is given another version: what an older worker left out changed the job.
TEST_F(OpeningTest, JobThatAsksForWhatTheWorkerDoesNotKnowIsLeftToOthers) {
  JobSpec spec = FakeJob();
  LayerSpec* const layer = spec.mutable_model()->add_layers();
  layer->GetReflection()->MutableUnknownFields(layer)->AddVarint(/*number=*/999, 1);
  Start();
  trainer_->Handle(PlanMessage(5, spec));
  const PlanResult refused = said_.Next().plan_result();
  EXPECT_EQ(refused.code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_THAT(refused.message(), AllOf(StartsWith("job has unknown field 999 in model.layers[0]"),
                                       EndsWith("; a newer worker may know it")));
  trainer_->Handle(RouteMessage(spec, 1));
  EXPECT_EQ(NextPrepared().code(), Code(absl::StatusCode::kUnavailable));
  EXPECT_THAT(world_.log.events(), IsEmpty());
}

}  // namespace
}  // namespace millrace::worker
