#include "coordinator/run/preparer.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/journal/new_journal.h"
#include "coordinator/membership/silent_link.h"
#include "coordinator/run/planner.h"
#include "coordinator/run/planning_link.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/spin/spin_until.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PreparerTest : public testing::Test {
 protected:
  PreparerTest() {
    JobRecord record = PendingJob();
    record.mutable_spec()->set_batch_size(1);
    record.mutable_spec()->set_steps(5);
    job_ = std::make_unique<Job>(record, /*last_event=*/0, journal_.get(), &clock_);
    environment_.registry = &registry_;
    environment_.planner = &planner_;
    environment_.clock = &clock_;
    reporter_ = std::make_unique<Reporter>(job_.get(), &environment_, &inbox_);
  }

  // Its answers are made by `answer`, when it is asked; it dies where that is not given.
  void AddWorker(const std::string& name, std::function<PlanResult()> answer = nullptr) {
    RegisterWorker registration;
    registration.set_name(name);
    registration.set_lease_slots(1);
    auto id = std::make_shared<uint64_t>(0);
    const auto added = registry_.AddWorker(
        registration, std::make_shared<PlanningLink>([=, this](const PlanJob& request) {
          asked_at_.push_back(clock_.Now());
          if (!answer) {
            registry_.Remove(*id, "it dies");
            return planner_.OnMembersChanged();
          }
          PlanResult result = answer();
          result.set_request_id(request.request_id());
          planner_.OnPlanResult({*id, registration}, result);
        }));
    ASSERT_TRUE(added.ok()) << added.status();
    *id = *added;
  }

  static PlanResult SomePlan() {
    PlanResult result;
    result.mutable_plan()->set_train_examples(7);
    VariableSpec& variable = *result.mutable_plan()->add_variables();
    variable.set_name("v");
    variable.add_shape(3);
    variable.mutable_initial_value()->set_constant(0);
    return result;
  }

  // Waits until there is a notice with `text`.
  std::string AwaitNotice(const std::string& text) {
    for (;;) {
      const auto read = job_->events().ReadAfter(last_event_, absl::Seconds(60));
      if (!read.ok() || !read->event) return "there is none";
      last_event_ = read->event->sequence();
      const std::string message = read->event->notice().message();
      if (absl::StrContains(message, text)) return message;
    }
  }

  // The preparer's thread pushes to asked_at_; others look at it when it has ended.
  std::vector<absl::Time> asked_at_;
  SimulatedClock clock_;
  MemberRegistry registry_{absl::Seconds(2), &clock_};
  Planner planner_{&registry_, &clock_};
  const std::unique_ptr<Journal> journal_ = OpenNewJournal();
  std::unique_ptr<Job> job_;
  uint64_t last_event_ = 0;
  RunnerEnvironment environment_;
  RunnerInbox inbox_{&clock_};
  std::unique_ptr<Reporter> reporter_;
};

// Two workers that were lost, by whatever cause, once ended a job that had been taken.
TEST_F(PreparerTest, JobWaitsForLongerAndLongerWhileWorkersAreLostPlanningIt) {
  for (const char* name : {"a", "b", "c"}) AddWorker(name);
  AddWorker("d", SomePlan);
  Preparer preparer(job_.get(), &environment_, &inbox_, reporter_.get());
  std::atomic<bool> done{false};
  std::thread runner([&] {
    const absl::Status status = preparer.Plan();
    EXPECT_TRUE(status.ok()) << status;
    done = true;
  });
  EXPECT_THAT(AwaitNotice("were lost"),
              AllOf(HasSubstr("a, b were lost"), HasSubstr("after 10s"), HasSubstr("cancelled")));
  EXPECT_THAT(job_->Status().message(), HasSubstr("waits for another try to plan it (a, b"));
  inbox_.Wake();
  SpinUntil("the plan", [&] {
    clock_.Advance(absl::Seconds(1));
    return done.load();
  });
  runner.join();
  EXPECT_THAT(AwaitNotice("were lost"), AllOf(HasSubstr("b, c were lost"), HasSubstr("after 20s")));
  EXPECT_EQ(job_->state(), PENDING);
  EXPECT_EQ(job_->record().plan().train_examples(), 7u);
  ASSERT_EQ(asked_at_.size(), 4u);
  EXPECT_EQ(asked_at_[1], asked_at_[0]);
  EXPECT_GE(asked_at_[2], asked_at_[1] + absl::Seconds(10));
  EXPECT_GE(asked_at_[3], asked_at_[2] + absl::Seconds(20));
}

TEST_F(PreparerTest, JobThatWaitsForAnotherTryCanBeCancelled) {
  for (const char* name : {"a", "b", "c"}) AddWorker(name);
  Preparer preparer(job_.get(), &environment_, &inbox_, reporter_.get());
  std::thread runner([&] { EXPECT_TRUE(absl::IsCancelled(preparer.Plan())); });
  AwaitNotice("were lost");
  inbox_.Interrupt(absl::CancelledError("by a client"));
  runner.join();
  EXPECT_EQ(asked_at_.size(), 2u);
}

// Workers joined again and again, each time they were sent the route.
TEST_F(PreparerTest, JobOfTooManyShardsForAMessageIsRefusedAndNotPlaced) {
  RegisterPs ps;
  ps.set_name(std::string(100, 'p'));
  ps.set_directory_id("directory-0");
  ps.set_address(std::string(255, 'h') + ":70");
  ASSERT_TRUE(registry_.AddPs(ps, std::make_shared<SilentLink>()).ok());
  environment_.elements_on = [](const std::string&) { return uint64_t{0}; };
  JobRecord record = job_->record();
  *record.mutable_plan() = SomePlan().plan();
  record.mutable_plan()->mutable_variables(0)->set_shape(0, 1 << 20);
  const auto place = [&](uint32_t shards) {
    record.mutable_spec()->mutable_placement()->set_shards(shards);
    job_ = std::make_unique<Job>(record, /*last_event=*/0, journal_.get(), &clock_);
    reporter_ = std::make_unique<Reporter>(job_.get(), &environment_, &inbox_);
    return Preparer(job_.get(), &environment_, &inbox_, reporter_.get())
        .Place(AvoidedServers(&clock_));
  };
  const absl::Status refused = place(1 << 16);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("must be at most 15728640. It has 65536 shards of 65536 slices ("),
                    HasSubstr("1 variables ("), HasSubstr("fewer shards (placement.shards)")));
  EXPECT_EQ(job_->record().shards_size(), 0);
  EXPECT_EQ(place(1 << 15), absl::OkStatus());
  EXPECT_EQ(job_->record().shards_size(), 1 << 15);
}

class PlaceTest : public PreparerTest {
 protected:
  PlaceTest() {
    for (const char* name : {"a", "b"}) {
      RegisterPs ps;
      ps.set_name(name);
      ps.set_directory_id(name);
      ps.set_address(absl::StrCat("host-", name, ":70"));
      EXPECT_TRUE(registry_.AddPs(ps, std::make_shared<SilentLink>()).ok());
    }
    environment_.elements_on = [](const std::string&) { return uint64_t{0}; };
    JobRecord record = job_->record();
    *record.mutable_plan() = SomePlan().plan();
    record.set_was_placed_elsewhere(true);
    job_ = std::make_unique<Job>(record, /*last_event=*/0, journal_.get(), &clock_);
    reporter_ = std::make_unique<Reporter>(job_.get(), &environment_, &inbox_);
  }

  // Returns where.
  std::vector<std::string> Place() {
    Preparer preparer(job_.get(), &environment_, &inbox_, reporter_.get());
    EXPECT_EQ(preparer.Place(avoided_), absl::OkStatus());
    const JobRecord placed = job_->record();
    std::vector<std::string> directories;
    for (const ShardPlacement& shard : placed.shards()) {
      EXPECT_EQ(shard.making(), ShardPlacement::TO_BE_DROPPED) << "as it may be there already";
      directories.push_back(shard.directory_id());
    }
    return directories;
  }

  AvoidedServers avoided_{&clock_};
};

TEST_F(PlaceTest, ServersThatHeldUpTheJobAreAvoidedForAWhile) {
  avoided_.Avoid("a", absl::Seconds(10));
  EXPECT_THAT(Place(), ElementsAre("b"));
}

TEST_F(PlaceTest, TheyAreTakenAgainWhenTheWhileIsOver) {
  avoided_.Avoid("a", absl::Seconds(10));
  clock_.Advance(absl::Seconds(10));
  EXPECT_THAT(Place(), ElementsAre("a", "b"));
}

TEST_F(PlaceTest, AllAreTakenWhereAllAreToBeAvoided) {
  for (const char* name : {"a", "b"}) avoided_.Avoid(name, absl::Seconds(10));
  EXPECT_THAT(Place(), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace millrace::coordinator
