#include "coordinator/jobs/evacuation.h"

#include <memory>
#include <string>

#include "common/clock.h"
#include "coordinator/jobs/job_table_fixture.h"
#include "coordinator/membership/silent_link.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EvacuationTest : public JobTableFixture {
 protected:
  uint64_t AddPs(const std::string& name) {
    RegisterPs ps;
    ps.set_name(name);
    ps.set_directory_id("directory-of-" + name);
    ps.set_address(name + ":7");
    return members_.AddPs(ps, std::make_shared<SilentLink>()).value();
  }

  absl::StatusOr<EvacuatePsResponse> Ask(const std::string& ps_server, bool undo = false) {
    EvacuatePsRequest request;
    request.set_ps_server(ps_server);
    request.set_undo(undo);
    return EvacuatePs(request, members_, &evacuated_, &table_);
  }

  SimulatedClock clock_;
  MemberRegistry members_{absl::Seconds(2), &clock_};
  EvacuatedServers evacuated_{journal_.get()};
};

TEST_F(EvacuationTest, ServersThatMayBeOnTheirWayAreNotSaidToBeUnknown) {
  EXPECT_THAT(Ask("ps-9").status().ToString(),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("ps_server: ps-9; no ps server"),
                    HasSubstr("it may be on its way")));
  clock_.Advance(absl::Seconds(6));  // Three heartbeats.
  EXPECT_THAT(Ask("ps-9").status().ToString(),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("ps_server: ps-9; no ps server"),
                    HasSubstr("`millrace members` lists those that are known")));
}

TEST_F(EvacuationTest, NameIsNeeded) {
  EXPECT_THAT(Ask("").status().ToString(),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("ps_server: is empty")));
}

TEST_F(EvacuationTest, WhoIsEvacuatedIsKnownByNameWhenItIsGoneAndInTheNextLife) {
  const uint64_t ps = AddPs("ps-0");
  const auto first = Ask("ps-0");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->was_evacuated());
  EXPECT_EQ(first->name(), "ps-0");
  members_.Remove(ps, "it was taken away");
  EvacuatedServers next(journal_.get());
  ASSERT_TRUE(next.Load().ok());
  MemberRegistry nobody(absl::Seconds(2), &clock_);
  EvacuatePsRequest request;
  request.set_ps_server("ps-0");
  request.set_undo(true);
  const auto undone = EvacuatePs(request, nobody, &next, &table_);
  ASSERT_TRUE(undone.ok()) << undone.status();
  EXPECT_TRUE(undone->was_evacuated());
  EXPECT_EQ(undone->name(), "") << "it is not there";
  EXPECT_EQ(undone->directory_id(), "directory-of-ps-0");
  EXPECT_TRUE(next.empty());
}

TEST_F(EvacuationTest, JournalOfAnEarlierReleaseHasNoNames) {
  EvacuatedDirectories written;
  written.add_directory_ids("directory-of-ps-0");
  ASSERT_TRUE(journal_->WriteEvacuated(written).ok());
  ASSERT_TRUE(evacuated_.Load().ok());
  EXPECT_TRUE(evacuated_.Contains("directory-of-ps-0"));
  EXPECT_TRUE(Ask("directory-of-ps-0", /*undo=*/true)->was_evacuated());
  EXPECT_TRUE(evacuated_.empty());
}

TEST_F(EvacuationTest, NameThatSeveralHadWhoAreGoneIsNotEnough) {
  ASSERT_TRUE(evacuated_.Add("d1", "ps-0").ok());
  ASSERT_TRUE(evacuated_.Add("d2", "ps-0").ok());
  EXPECT_THAT(Ask("ps-0").status().ToString(),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("ps_server: ps-0; is none that is"),
                    HasSubstr("one of d1, d2")));
  EXPECT_TRUE(Ask("d2", /*undo=*/true)->was_evacuated());
  EXPECT_EQ(Ask("ps-0")->directory_id(), "d1");
  AddPs("ps-0");
  EXPECT_EQ(Ask("ps-0")->directory_id(), "directory-of-ps-0") << "which is there";
}

TEST_F(EvacuationTest, ShardsOnTheirWayAreKnownUntilTheyAreThereAndNoneIsSentToAServerThatIsLeft) {
  {
    const auto arriving = evacuated_.Announce("j-1", {"d0", "d1", "d0"});
    ASSERT_NE(arriving, nullptr);
    const auto second = evacuated_.Announce("j-1", {"d0"});
    EXPECT_EQ(evacuated_.ArrivingAt("d0").at("j-1"), 3u);
    EXPECT_EQ(evacuated_.ArrivingAt("d1").at("j-1"), 1u);
    EXPECT_TRUE(evacuated_.ArrivingAt("d2").empty());
  }
  EXPECT_TRUE(evacuated_.ArrivingAt("d0").empty());
  ASSERT_TRUE(evacuated_.Add("d1", "ps-1").ok());
  EXPECT_EQ(evacuated_.Announce("j-1", {"d0", "d1"}), nullptr);
  EXPECT_TRUE(evacuated_.ArrivingAt("d0").empty());
}

TEST_F(EvacuationTest, UndoOfWhatNeverWasSaysSo) {
  AddPs("ps-0");
  const auto undone = Ask("ps-0", /*undo=*/true);
  ASSERT_TRUE(undone.ok()) << undone.status();
  EXPECT_FALSE(undone->was_evacuated());
}

}  // namespace
}  // namespace millrace::coordinator
