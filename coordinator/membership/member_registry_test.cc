#include "coordinator/membership/member_registry.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FakeLink final : public MemberLink {
 public:
  void Send(const CoordinatorMessage& message) override { sent.push_back(message); }
  void Close(const absl::Status& status) override { closed = status.code(); }

  std::vector<CoordinatorMessage> sent;
  absl::optional<absl::StatusCode> closed;
};

class CountingObserver final : public MemberObserver {
 public:
  void OnPsJoined(const RegisterPs& ps) override { shards += ps.shards_size(); }
  void OnMembersChanged() override { ++changes; }
  void OnWorkerMessage(const WorkerMember& worker, const MemberMessage& message) override {
    heard.emplace_back(worker.registration.name(), message.kind_case());
  }

  void OnPsDraining(const PsMember& ps) override { draining.push_back(ps.registration.name()); }

  int changes = 0;
  std::vector<std::string> draining;
  int shards = 0;
  std::vector<std::pair<std::string, MemberMessage::KindCase>> heard;
};

RegisterWorker Worker(const std::string& name, uint64_t incarnation = 1) {
  RegisterWorker worker;
  worker.set_name(name);
  worker.set_incarnation(incarnation);
  worker.set_lease_slots(2);
  return worker;
}

// At an address of its name.
RegisterPs Ps(const std::string& name, const std::string& directory, uint64_t incarnation = 1) {
  RegisterPs ps;
  ps.set_name(name);
  ps.set_directory_id(directory);
  ps.set_incarnation(incarnation);
  ps.set_address(name + ":7");
  return ps;
}

class MemberRegistryTest : public testing::Test {
 protected:
  MemberRegistryTest() { registry_.SetObserver(&observer_); }

  void ExpectInvalid(const absl::Status& status, const std::string& field) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }

  SimulatedClock clock_;
  CountingObserver observer_;
  MemberRegistry registry_{absl::Seconds(2), &clock_};
  std::shared_ptr<FakeLink> link_ = std::make_shared<FakeLink>();
};

TEST_F(MemberRegistryTest, NewcomerIsWelcomedFirst) {
  const auto id = registry_.AddWorker(Worker("w"), link_);
  ASSERT_TRUE(id.ok()) << id.status();
  ASSERT_THAT(link_->sent, SizeIs(1));
  EXPECT_EQ(link_->sent[0].welcome().heartbeat_period().seconds(), 2);
  EXPECT_EQ(observer_.changes, 1);
  EXPECT_THAT(registry_.Workers(), SizeIs(1));
  EXPECT_THAT(registry_.PsServers(), IsEmpty());
  CoordinatorMessage forget;
  forget.mutable_forget_job()->set_job_id("j");
  registry_.Send(*id, forget);
  registry_.Send(*id + 1, forget);
  EXPECT_THAT(link_->sent, SizeIs(2));
}

TEST_F(MemberRegistryTest, WrongRegistrationsNameTheField) {
  ExpectInvalid(registry_.AddWorker(Worker(""), link_).status(), "register_worker.name");
  ExpectInvalid(registry_.AddWorker(Worker("a b"), link_).status(), "register_worker.name");
  ExpectInvalid(registry_.AddWorker(Worker(std::string(101, 'a')), link_).status(), "name");
  RegisterWorker idle = Worker("w");
  idle.set_lease_slots(0);
  ExpectInvalid(registry_.AddWorker(idle, link_).status(), "register_worker.lease_slots");
  ExpectInvalid(registry_.AddPs(Ps("p", ""), link_).status(), "register_ps.directory_id");
  RegisterPs unreachable = Ps("p", "d");
  for (const char* address : {"", "here", ":7", "host:0", "host:99999", "host:-1", "unix:/tmp/a",
                              "ho\x1bst:7", "a b:7", "0.0.0.0:7"}) {
    unreachable.set_address(address);
    ExpectInvalid(registry_.AddPs(unreachable, link_).status(), "register_ps.address");
  }
  unreachable.set_address(std::string(300, 'a') + ":7");
  ExpectInvalid(registry_.AddPs(unreachable, link_).status(), "register_ps.address");
  RegisterWorker strange = Worker("w");
  strange.set_device("cpu\n");
  ExpectInvalid(registry_.AddWorker(strange, link_).status(), "register_worker.device");
  strange = Worker("w");
  strange.set_version(std::string(101, '1'));
  ExpectInvalid(registry_.AddWorker(strange, link_).status(), "register_worker.version");
  RegisterPs garbled = Ps("p", "d");
  garbled.set_version("0.1.0\x1b[2J");
  ExpectInvalid(registry_.AddPs(garbled, link_).status(), "register_ps.version");
  EXPECT_EQ(observer_.changes, 0);
}

// All of it was once kept, and copied under the lock by each look at the servers.
TEST_F(MemberRegistryTest, WhatAServerHoldsIsToldOnceAndNotKept) {
  RegisterPs ps = Ps("p", "d");
  ps.add_shards()->set_job_id("j");
  ASSERT_TRUE(registry_.AddPs(ps, link_).ok());
  EXPECT_EQ(observer_.shards, 1);
  ASSERT_TRUE(registry_.FindPs("d"));
  EXPECT_THAT(registry_.FindPs("d")->registration.shards(), IsEmpty());
  EXPECT_THAT(registry_.PsServers()[0].registration.shards(), IsEmpty());
  EXPECT_EQ(registry_.FindPs("d")->registration.address(), "p:7");
}

TEST_F(MemberRegistryTest, LiveMembersNameIsTaken) {
  ASSERT_TRUE(registry_.AddWorker(Worker("a"), link_).ok());
  ASSERT_TRUE(registry_.AddPs(Ps("b", "d"), link_).ok());
  for (const absl::Status& status : {registry_.AddWorker(Worker("a", 2), link_).status(),
                                     registry_.AddWorker(Worker("b"), link_).status(),
                                     registry_.AddPs(Ps("b", "other"), link_).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(status.message()), HasSubstr("--name"));
  }
  EXPECT_FALSE(link_->closed);
}

// Shards of the second one were made on the first.
TEST_F(MemberRegistryTest, LiveServersAddressIsTaken) {
  ASSERT_TRUE(registry_.AddPs(Ps("a", "d"), link_).ok());
  RegisterPs other = Ps("b", "e");
  other.set_address("a:7");
  const absl::Status refused = registry_.AddPs(other, link_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("register_ps.address: a:7; that is the address of the live ps 'a'"));
  other.set_directory_id("d");
  EXPECT_TRUE(registry_.AddPs(other, link_).ok()) << "the same directory, under another name";
}

TEST_F(MemberRegistryTest, SameProcessAndSameDirectoryTakeTheirOldPlace) {
  const auto worker = registry_.AddWorker(Worker("a"), link_);
  auto again = std::make_shared<FakeLink>();
  const auto worker_again = registry_.AddWorker(Worker("a"), again);
  ASSERT_TRUE(worker_again.ok()) << worker_again.status();
  EXPECT_NE(*worker, *worker_again);
  EXPECT_EQ(link_->closed, absl::StatusCode::kAborted);
  EXPECT_THAT(registry_.Workers(), SizeIs(1));

  // A database can be open in one process only: the older server must be dead.
  auto old_ps = std::make_shared<FakeLink>();
  ASSERT_TRUE(registry_.AddPs(Ps("p", "d", 1), old_ps).ok());
  const auto ps = registry_.AddPs(Ps("p", "d", 2), std::make_shared<FakeLink>());
  ASSERT_TRUE(ps.ok()) << ps.status();
  EXPECT_EQ(old_ps->closed, absl::StatusCode::kAborted);
  ASSERT_TRUE(registry_.FindPs("d"));
  EXPECT_EQ(registry_.FindPs("d")->id, *ps);
  EXPECT_FALSE(registry_.FindPs("e"));
}

// They took the place from each other, ten times a second.
TEST_F(MemberRegistryTest, ServerWhoseDirectoryACopyServesIsRefusedAndAskedToEnd) {
  const RegisterPs original = Ps("p", "d", 1);
  RegisterPs copy = Ps("q", "d", 2);
  copy.set_address("127.0.0.1:8");
  ASSERT_TRUE(registry_.AddPs(original, link_).ok());
  const auto holder = registry_.AddPs(copy, std::make_shared<FakeLink>());
  ASSERT_TRUE(holder.ok()) << holder.status();
  EXPECT_EQ(registry_.AddPs(original, link_).status().code(), absl::StatusCode::kAlreadyExists)
      << "the other one may be dead";
  MemberMessage heartbeat;
  heartbeat.mutable_heartbeat();
  ASSERT_TRUE(registry_.Receive(*holder, heartbeat).ok());
  const absl::Status refused = registry_.AddPs(original, link_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* text : {"'p' at p:7", "'q' at 127.0.0.1:8", "'d'", "a directory of its own"}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(text));
  }
  ASSERT_TRUE(registry_.FindPs("d"));
  EXPECT_EQ(registry_.FindPs("d")->id, *holder);
  EXPECT_TRUE(registry_.AddPs(copy, std::make_shared<FakeLink>()).ok()) << "it dials again";
}

TEST_F(MemberRegistryTest, ServerThatLostItsPlaceIsTakenInWhenNobodyHasIt) {
  const RegisterPs original = Ps("p", "d", 1);
  ASSERT_TRUE(registry_.AddPs(original, link_).ok());
  const auto holder = registry_.AddPs(Ps("p", "d", 2), std::make_shared<FakeLink>());
  ASSERT_TRUE(holder.ok()) << holder.status();
  ASSERT_FALSE(registry_.AddPs(original, link_).ok());
  registry_.Remove(*holder, "the stream broke");
  EXPECT_TRUE(registry_.AddPs(original, link_).ok());
}

// It took the place, with a state of long ago, where the copy had come after it was given up.
TEST_F(MemberRegistryTest, ServerThatWasCutOffDoesNotTakeThePlaceOfACopyThatServes) {
  const auto original = registry_.AddPs(Ps("p", "d", 1), link_);
  ASSERT_TRUE(original.ok()) << original.status();
  registry_.Remove(*original, "no heartbeat");
  const auto copy = registry_.AddPs(Ps("p", "d", 2), std::make_shared<FakeLink>());
  ASSERT_TRUE(copy.ok()) << copy.status();
  MemberMessage heartbeat;
  heartbeat.mutable_heartbeat();
  ASSERT_TRUE(registry_.Receive(*copy, heartbeat).ok());
  EXPECT_EQ(registry_.AddPs(Ps("p", "d", 1), link_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(registry_.FindPs("d")->id, *copy);
}

// The one that was refused was started again by its supervisor, took the place as a new process,
// and so the two went on for ever.
TEST_F(MemberRegistryTest, CopyThatIsStartedAgainAndAgainDoesNotTakeThePlaceOfALiveServer) {
  MemberMessage heartbeat;
  heartbeat.mutable_heartbeat();
  uint64_t life = 2;
  ASSERT_TRUE(registry_.AddPs(Ps("p", "d", 1), link_).ok());
  auto holder = registry_.AddPs(Ps("q", "d", life), std::make_shared<FakeLink>());
  ASSERT_TRUE(holder.ok()) << holder.status();
  ASSERT_TRUE(registry_.Receive(*holder, heartbeat).ok());
  EXPECT_EQ(registry_.AddPs(Ps("p", "d", 1), link_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (int restart = 0; restart < 20; ++restart) {
    const absl::Status status =
        registry_.AddPs(Ps("p", "d", ++life), std::make_shared<FakeLink>()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << "it tries again: " << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("'p' at p:7 and 'q'"), HasSubstr("an empty --data_dir")));
    EXPECT_EQ(registry_.FindPs("d")->id, *holder);
  }
  holder = registry_.AddPs(Ps("q", "d", 2), std::make_shared<FakeLink>());
  ASSERT_TRUE(holder.ok()) << "its stream broke, and it dials again: " << holder.status();
  clock_.Advance(registry_.silence_limit());
  registry_.ExpireSilent();
  const auto successor = registry_.AddPs(Ps("q", "d", ++life), std::make_shared<FakeLink>());
  ASSERT_TRUE(successor.ok()) << "its machine died: " << successor.status();
  registry_.Remove(*successor, "the stream broke");
  EXPECT_TRUE(registry_.AddPs(Ps("q", "d", ++life), link_).ok()) << "it was killed";
}

TEST_F(MemberRegistryTest, ServerThatIsStartedAgainAndAgainHasItsOldPlaceAtOnce) {
  constexpr uint64_t kLives = 20;
  for (uint64_t life = 1; life <= kLives; ++life) {
    ASSERT_TRUE(registry_.AddPs(Ps("p", "d", life), std::make_shared<FakeLink>()).ok()) << life;
  }
  EXPECT_FALSE(registry_.AddPs(Ps("p", "d", kLives - 1), link_).ok());
  EXPECT_FALSE(registry_.AddPs(Ps("p", "d", kLives - 8), link_).ok());
  EXPECT_TRUE(registry_.AddPs(Ps("p", "d", kLives - 9), link_).ok()) << "it is forgotten";
}

TEST_F(MemberRegistryTest, TellsWhatWorkersComputeOn) {
  RegisterWorker worker = Worker("worker-0");
  worker.set_device("cuda:0 (NVIDIA H200)");
  const auto id = registry_.AddWorker(worker, link_);
  ASSERT_TRUE(id.ok()) << id.status();
  MemberMessage heartbeat;
  DeviceUse& use = *heartbeat.mutable_heartbeat()->mutable_device_use();
  use.set_memory(100);
  use.set_memory_used(30);
  use.set_busy(0.5);
  ASSERT_TRUE(registry_.Receive(*id, heartbeat).ok());
  const MemberNews news = registry_.News()[0];
  EXPECT_EQ(news.device, "cuda:0 (NVIDIA H200)");
  ASSERT_TRUE(news.device_use.has_value());
  EXPECT_EQ(news.device_use->busy(), 0.5);

  use.set_busy(std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(registry_.Receive(*id, heartbeat).ok());
  EXPECT_FALSE(registry_.News()[0].device_use.has_value()) << "what cannot be true is not told";
}

// Workers that are replaced one after the other, each under a name of its own, hid what was lost.
TEST_F(MemberRegistryTest, WhoLeftIsForgottenBeforeWhoWasLost) {
  registry_.Remove(*registry_.AddWorker(Worker("lost"), link_), "the stream broke");
  MemberMessage leaving;
  leaving.mutable_leaving();
  for (int i = 0; i < 100; ++i) {
    const auto id = registry_.AddWorker(Worker(absl::StrCat("replaced-", i)), link_);
    ASSERT_TRUE(registry_.Receive(*id, leaving).ok());
  }
  std::vector<Departure> gone = registry_.Departures();
  ASSERT_THAT(gone, SizeIs(64));
  EXPECT_EQ(gone.front().name, "replaced-99");
  EXPECT_EQ(gone.back().name, "lost");
  for (int i = 0; i < 100; ++i) {
    registry_.Remove(*registry_.AddWorker(Worker(absl::StrCat("flaps-", i)), link_), "it broke");
  }
  gone = registry_.Departures();
  ASSERT_THAT(gone, SizeIs(64));
  EXPECT_EQ(gone.front().name, "flaps-99");
  EXPECT_EQ(gone.back().name, "flaps-36");
}

TEST_F(MemberRegistryTest, SilentMembersExpireAfterThreePeriods) {
  const auto silent = registry_.AddWorker(Worker("silent"), link_);
  auto alive_link = std::make_shared<FakeLink>();
  const auto alive = registry_.AddWorker(Worker("alive"), alive_link);
  MemberMessage heartbeat;
  heartbeat.mutable_heartbeat();
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(absl::Seconds(2));
    EXPECT_TRUE(registry_.Receive(*alive, heartbeat).ok());
    registry_.ExpireSilent();
    EXPECT_THAT(registry_.Workers(), SizeIs(2));
  }
  clock_.Advance(absl::Seconds(2));
  registry_.ExpireSilent();
  EXPECT_EQ(link_->closed, absl::StatusCode::kDeadlineExceeded);
  ASSERT_THAT(registry_.Workers(), SizeIs(1));
  EXPECT_EQ(registry_.Workers()[0].id, *alive);
  EXPECT_EQ(observer_.changes, 3);
  EXPECT_TRUE(registry_.Receive(*silent, heartbeat).ok()) << "late words are no error";
  ASSERT_TRUE(registry_.AddWorker(Worker("silent", 2), link_).ok()) << "its name is free";
}

// A coordinator without processor time once took members for dead whose heartbeats it had not read.
TEST_F(MemberRegistryTest, SilenceIsForgivenOnceWhereThisProcessWasHeldUp) {
  const auto alive = registry_.AddWorker(Worker("alive"), link_);
  auto dead_link = std::make_shared<FakeLink>();
  ASSERT_TRUE(registry_.AddWorker(Worker("dead"), dead_link).ok());
  clock_.Advance(absl::Seconds(30));
  registry_.ExpireSilent(/*late=*/absl::Seconds(29));
  EXPECT_THAT(registry_.Workers(), SizeIs(2));
  MemberMessage heartbeat;
  heartbeat.mutable_heartbeat();
  EXPECT_TRUE(registry_.Receive(*alive, heartbeat).ok());
  clock_.Advance(absl::Seconds(2));
  registry_.ExpireSilent(/*late=*/absl::Seconds(29));
  ASSERT_THAT(registry_.Workers(), SizeIs(1));
  EXPECT_EQ(registry_.Workers()[0].id, *alive);
  EXPECT_EQ(dead_link->closed, absl::StatusCode::kDeadlineExceeded);
}

TEST_F(MemberRegistryTest, LeavingMemberIsGoneAtOnce) {
  const auto id = registry_.AddWorker(Worker("w"), link_);
  MemberMessage leaving;
  leaving.mutable_leaving();
  EXPECT_TRUE(registry_.Receive(*id, leaving).ok());
  EXPECT_THAT(registry_.Workers(), IsEmpty());
  EXPECT_EQ(observer_.changes, 2);
  EXPECT_THAT(observer_.heard, ElementsAre(std::make_pair("w", MemberMessage::kLeaving)));
  registry_.Remove(*id, "again");
  EXPECT_EQ(observer_.changes, 2);
}

TEST_F(MemberRegistryTest, MessagesOutOfPlaceAreErrors) {
  const auto worker = registry_.AddWorker(Worker("w"), link_);
  const auto ps = registry_.AddPs(Ps("p", "d"), link_);
  MemberMessage result;
  result.mutable_step_result();
  EXPECT_TRUE(registry_.Receive(*worker, result).ok());
  ExpectInvalid(registry_.Receive(*ps, result), "only a worker");
  ExpectInvalid(registry_.Receive(*worker, MemberMessage()), "kind");
  MemberMessage again;
  *again.mutable_register_worker() = Worker("w");
  ExpectInvalid(registry_.Receive(*worker, again), "second registration");
  EXPECT_THAT(observer_.heard, ElementsAre(std::make_pair("w", MemberMessage::kStepResult)));
}

TEST_F(MemberRegistryTest, PsServersMayDrainAsWorkersDo) {
  const auto worker = registry_.AddWorker(Worker("w"), link_);
  const auto ps = registry_.AddPs(Ps("p", "d"), link_);
  MemberMessage draining;
  draining.mutable_draining();
  EXPECT_TRUE(registry_.Receive(*worker, draining).ok());
  EXPECT_TRUE(registry_.Receive(*ps, draining).ok());
  EXPECT_THAT(observer_.heard, ElementsAre(std::make_pair("w", MemberMessage::kDraining)));
  EXPECT_THAT(observer_.draining, ElementsAre("p"));
}

TEST_F(MemberRegistryTest, ShutdownClosesAllAndTakesNobodyIn) {
  ASSERT_TRUE(registry_.AddWorker(Worker("w"), link_).ok());
  registry_.Shutdown();
  EXPECT_EQ(link_->closed, absl::StatusCode::kUnavailable);
  EXPECT_EQ(registry_.AddWorker(Worker("x"), link_).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace millrace::coordinator
