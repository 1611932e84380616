#include "coordinator/run/planner.h"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coordinator/run/planning_link.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

class PlannerTest : public testing::Test {
 protected:
  // A worker whose answers are made by `answer`; it does not answer where that returns false.
  uint64_t AddWorker(const std::string& name, std::function<bool(PlanResult&)> answer) {
    RegisterWorker registration;
    registration.set_name(name);
    registration.set_lease_slots(1);
    auto id = std::make_shared<uint64_t>(0);
    const auto added = registry_.AddWorker(
        registration, std::make_shared<PlanningLink>([=, this](const PlanJob& request) {
          PlanResult result;
          result.set_request_id(request.request_id());
          if (answer(result)) planner_.OnPlanResult({*id, RegisterWorker()}, result);
        }));
    EXPECT_TRUE(added.ok()) << added.status();
    *id = added.value_or(0);
    return *id;
  }

  static bool Plans(PlanResult& result) {
    result.mutable_plan()->set_train_examples(7);
    VariableSpec& variable = *result.mutable_plan()->add_variables();
    variable.set_name("v");
    variable.mutable_initial_value()->set_constant(0);
    return true;
  }

  absl::StatusOr<JobPlan> Plan(const JobSpec& spec = JobSpec()) {
    return planner_.Plan(
        spec, absl::Minutes(10), [] { return false; }, &lost_);
  }

  std::vector<std::string> lost_;
  SimulatedClock clock_;
  MemberRegistry registry_{absl::Seconds(2), &clock_};
  Planner planner_{&registry_, &clock_};
};

TEST_F(PlannerTest, AnswerOfAWorkerIsThePlan) {
  AddWorker("a", Plans);
  const auto plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->train_examples(), 7u);
}

TEST_F(PlannerTest, WithoutWorkersThereIsNoPlan) {
  EXPECT_EQ(Plan().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(PlannerTest, ErrorOfTheJobIsReturned) {
  AddWorker("a", [](PlanResult& result) {
    result.set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
    result.set_message("model.layers[0]: no");
    return true;
  });
  AddWorker("b", Plans);
  const auto plan = Plan();
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("model.layers[0]"));
}

TEST_F(PlannerTest, WordsOfAWorkerAreMadeShortAndPrintable) {
  AddWorker("a", [](PlanResult& result) {
    result.set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
    result.set_message("\x1b[2J" + std::string(1 << 20, 'x'));
    return true;
  });
  const absl::Status status = Plan().status();
  EXPECT_LT(status.message().size(), 4096u);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("\\x1b[2Jxxx"));
}

TEST_F(PlannerTest, WorkerThatGivesNoReasonIsNamed) {
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  AddWorker("a", [&code](PlanResult& result) {
    result.set_code(static_cast<int>(code));
    return true;
  });
  EXPECT_EQ(Plan().status(), absl::UnavailableError("a gave no reason"));
  code = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(Plan().status(), absl::InvalidArgumentError("a gave no reason"));
}

TEST_F(PlannerTest, AnotherWorkerIsAskedWhenOneCannotAnswer) {
  AddWorker("a", [](PlanResult& result) {
    result.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
    return true;
  });
  AddWorker("b", Plans);
  EXPECT_TRUE(Plan().ok());
}

TEST_F(PlannerTest, PlanThatMakesNoSenseIsNamedAndAnotherWorkerIsAsked) {
  AddWorker("a", [](PlanResult& result) {
    result.mutable_plan()->set_train_examples(7);
    result.mutable_plan()->add_variables();
    return true;
  });
  const auto refused = Plan();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable) << "the job can wait";
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("a: its plan makes no sense: plan.variables[0].name: empty"));
  AddWorker("b", Plans);
  EXPECT_TRUE(Plan().ok());
}

// The job was refused, and nobody could tell which worker had said that.
TEST_F(PlannerTest, WorkerWhosePlanHasNoVariablesIsNamed) {
  AddWorker("a", [](PlanResult& result) {
    result.mutable_plan()->set_train_examples(7);
    return true;
  });
  EXPECT_EQ(Plan().status(),
            absl::InvalidArgumentError("model: a finds no variables to train in it; must have at "
                                       "least one"));
}

TEST_F(PlannerTest, AnotherWorkerIsAskedWhenOneLeaves) {
  uint64_t leaver = 0;
  leaver = AddWorker("a", [&](PlanResult&) {
    registry_.Remove(leaver, "it dies");
    planner_.OnMembersChanged();
    return false;
  });
  AddWorker("b", Plans);
  EXPECT_TRUE(Plan().ok());
}

TEST_F(PlannerTest, WorkerThatHasNoMemoryLeavesItToTheNext) {
  const auto exhausted = [](PlanResult& result) {
    result.set_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
    result.set_message("needs 9 GiB");
    return true;
  };
  AddWorker("a", exhausted);
  const auto refused = Plan();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("a: needs 9 GiB"));
  AddWorker("b", Plans);
  EXPECT_TRUE(Plan().ok());
}

TEST_F(PlannerTest, NextWorkerIsAskedWhenOneIsSlow) {
  AddWorker("slow", [&](PlanResult&) {
    clock_.Advance(absl::Seconds(20));
    return false;
  });
  AddWorker("b", Plans);
  EXPECT_TRUE(Plan().ok());
}

TEST_F(PlannerTest, WorkersThatCannotPlanMakeNobodyWaitLongerForTheNext) {
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    AddWorker(name, [](PlanResult& result) {
      result.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
      return true;
    });
  }
  AddWorker("hangs", [&](PlanResult&) {
    clock_.Advance(absl::Seconds(20));
    return false;
  });
  AddWorker("z", Plans);
  EXPECT_TRUE(Plan().ok());
}

// Three workers that hung in the data of one job were asked for the plans of all others.
TEST_F(PlannerTest, WorkersThatOweThePlanOfAnotherJobAreAskedLast) {
  std::vector<std::string> asked;
  std::deque<absl::Duration> hang = {absl::Seconds(20), absl::Seconds(40), absl::Minutes(9)};
  for (const char* name : {"a", "b", "c", "d"}) {
    AddWorker(name, [this, name, &asked, &hang](PlanResult& result) {
      asked.push_back(name);
      if (hang.empty()) return Plans(result);
      clock_.Advance(hang.front());
      hang.pop_front();
      return false;
    });
  }
  JobSpec stuck;
  stuck.set_name("stuck");
  EXPECT_TRUE(absl::IsDeadlineExceeded(Plan(stuck).status()));
  EXPECT_TRUE(Plan().ok());
  EXPECT_THAT(asked, testing::ElementsAre("a", "b", "c", "d"));
  // The same job is asked for where it is under way.
  EXPECT_TRUE(Plan(stuck).ok());
  EXPECT_THAT(asked, testing::ElementsAre("a", "b", "c", "d", "a"));
}

TEST_F(PlannerTest, WorkerWhoseAnswerCameLateOwesNothing) {
  PlanResult late;
  const uint64_t a = AddWorker("a", [&](PlanResult& result) {
    if (late.request_id() != 0) return Plans(result);
    late = result;
    clock_.Advance(absl::Minutes(11));
    return false;
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(Plan().status()));
  planner_.OnPlanResult({a, RegisterWorker()}, late);
  AddWorker("b", [](PlanResult& result) {
    Plans(result);
    result.mutable_plan()->set_train_examples(8);
    return true;
  });
  JobSpec other;
  other.set_name("other");
  const auto plan = Plan(other);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->train_examples(), 7u) << "a was not asked first";
}

TEST_F(PlannerTest, JobThatCostsTwoWorkersIsNotGivenToAThird) {
  for (const char* name : {"a", "b"}) {
    auto id = std::make_shared<uint64_t>(0);
    *id = AddWorker(name, [this, id](PlanResult&) {
      registry_.Remove(*id, "it dies");
      planner_.OnMembersChanged();
      return false;
    });
  }
  AddWorker("c", Plans);
  const auto plan = Plan();
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("a (it dies), b (it dies)"));
}

// A rolling restart of the workers once ended a job that waited for its plan.
TEST_F(PlannerTest, WorkersThatSayThatTheyLeaveAreNotLost) {
  for (const char* name : {"a", "b"}) {
    auto id = std::make_shared<uint64_t>(0);
    *id = AddWorker(name, [this, id](PlanResult&) {
      planner_.OnLeaving({*id, RegisterWorker()});
      registry_.Remove(*id, "leaves");
      planner_.OnMembersChanged();
      return false;
    });
  }
  AddWorker("c", Plans);
  const auto plan = Plan();
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(lost_, testing::IsEmpty());
}

TEST_F(PlannerTest, WorkerThatIsLostWhileAnotherOneLeavesIsLost) {
  auto id = std::make_shared<uint64_t>(0);
  *id = AddWorker("a", [this, id](PlanResult&) {
    planner_.OnLeaving({*id + 1, RegisterWorker()});
    registry_.Remove(*id, "no heartbeat");
    planner_.OnMembersChanged();
    return false;
  });
  AddWorker("b", Plans);
  EXPECT_TRUE(Plan().ok());
  EXPECT_THAT(lost_, testing::ElementsAre("a"));
}

TEST_F(PlannerTest, SilentWorkerTimesOut) {
  AddWorker("a", [&](PlanResult&) {
    clock_.Advance(absl::Minutes(11));
    return false;
  });
  const auto plan = Plan();
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(plan.status().message()),
              testing::AllOf(HasSubstr(": a;"), HasSubstr("--plan_timeout")));
}

TEST_F(PlannerTest, AnswersOfOthersAreIgnored) {
  AddWorker("a", [&](PlanResult& result) {
    Plans(result);
    planner_.OnPlanResult({99, RegisterWorker()}, result);
    clock_.Advance(absl::Minutes(11));
    return false;
  });
  EXPECT_EQ(Plan().status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(PlannerTest, ShutdownAndCancellationEndTheWait) {
  std::atomic<bool> cancelled{false};
  AddWorker("a", [&](PlanResult&) {
    cancelled = true;
    planner_.Wake();
    return false;
  });
  const auto plan = planner_.Plan(
      JobSpec(), absl::Seconds(60), [&] { return cancelled.load(); }, &lost_);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kCancelled);
  std::thread stopper([&] { planner_.Shutdown(); });
  EXPECT_EQ(Plan().status().code(), absl::StatusCode::kUnavailable);
  stopper.join();
}

TEST(SetPlanTest, PlanIsCheckedAgainstTheSpec) {
  JobPlan plan;
  plan.set_train_examples(100);
  plan.add_variables()->add_shape(3);
  JobRecord record;
  record.mutable_spec()->set_batch_size(30);
  record.mutable_spec()->set_epochs(2);
  ASSERT_TRUE(SetPlan(plan, record).ok());
  EXPECT_EQ(record.total_steps(), 8u);

  JobRecord divided;
  divided.mutable_spec()->mutable_placement()->set_shards(4);
  EXPECT_EQ(SetPlan(plan, divided).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(divided.has_plan());
}

// Workers were told of such a job again and again, and never heard of it.
TEST(SetPlanTest, PlanThatIsTooLargeForAMessageIsRefused) {
  JobPlan plan;
  for (int i = 0; i < 100'000; ++i) {
    VariableSpec& variable = *plan.add_variables();
    variable.set_name(absl::StrCat(std::string(160, 'v'), i));
    variable.add_shape(3);
  }
  JobRecord record;
  record.mutable_spec()->set_batch_size(30);
  const absl::Status refused = SetPlan(plan, record);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr(". It has 100000 variables ("));
  EXPECT_FALSE(record.has_plan());
  plan.mutable_variables()->DeleteSubrange(50'000, 50'000);
  EXPECT_EQ(SetPlan(plan, record), absl::OkStatus());
  EXPECT_TRUE(record.has_plan());
}

JobRecord RecordWithNorms(uint32_t shards) {
  JobRecord record;
  record.mutable_spec()->set_batch_size(30);
  record.mutable_spec()->mutable_optimizer()->mutable_lamb();
  record.mutable_spec()->mutable_placement()->set_shards(shards);
  return record;
}

TEST(SetPlanTest, OptimizerOfWholeVariablesHasAtMostAShardForEach) {
  JobPlan plan;
  plan.add_variables()->add_shape(30);
  plan.add_variables()->add_shape(3);
  for (const uint32_t shards : {0, 1, 2}) {
    JobRecord record = RecordWithNorms(shards);
    EXPECT_TRUE(SetPlan(plan, record).ok()) << shards;
  }
  JobRecord record = RecordWithNorms(3);
  EXPECT_EQ(std::string(SetPlan(plan, record).message()),
            "placement.shards: 3; must be at most the number of variables, 2, since the optimizer "
            "needs the norms of whole variables (0: one shard for each ps server, or fewer)");
  EXPECT_FALSE(record.has_plan());
}

TEST(SetPlanTest, JobThatIsPlannedNowHasShardsThatCheckHowGradientsCome) {
  JobPlan plan;
  plan.add_variables()->add_shape(3);
  JobRecord record = RecordWithNorms(0);
  EXPECT_TRUE(SetPlan(plan, record).ok());
  EXPECT_TRUE(record.wire_is_checked());
}

TEST(SetPlanTest, CheckpointMayNotDivideAVariableThatIsToBeWhole) {
  JobPlan plan;
  plan.add_variables()->add_shape(30);
  plan.add_variables()->add_shape(3);
  plan.mutable_variables(0)->set_name("kernel");
  plan.mutable_variables(1)->set_name("bias");
  JobRecord record = RecordWithNorms(0);
  *record.mutable_restored_from()->mutable_plan() = plan;
  record.mutable_restored_from()->add_boundaries(30);
  EXPECT_TRUE(SetPlan(plan, record).ok());
  record.mutable_restored_from()->add_boundaries(31);
  const absl::Status status = SetPlan(plan, record);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("optimizer: it needs the norms of whole variables (lamb, "
                                    "clip_norm), and variable 'bias' is divided"));
  record.mutable_spec()->mutable_optimizer()->mutable_adam();
  EXPECT_TRUE(SetPlan(plan, record).ok());
}

}  // namespace
}  // namespace millrace::coordinator
