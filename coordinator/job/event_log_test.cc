#include "coordinator/job/event_log.h"

#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kLong = absl::Seconds(60);

JobEvent Notice(const std::string& message) {
  JobEvent event;
  event.mutable_notice()->set_message(message);
  return event;
}

// All events after `sequence`, until the end.
std::vector<std::string> ReadToEnd(EventLog& log, uint64_t sequence) {
  std::vector<std::string> read;
  for (;;) {
    const auto result = log.ReadAfter(sequence, kLong);
    if (!result.ok() || result->end) return read;
    if (!result->event) continue;
    sequence = result->event->sequence();
    read.push_back(absl::StrCat(sequence, " ", result->event->notice().message()));
  }
}

TEST(EventLogTest, EventsAreNumberedFromOneAndReadInOrder) {
  SimulatedClock clock(absl::UnixEpoch() + absl::Milliseconds(1500));
  EventLog log(0, nullptr, &clock);
  log.Append(Notice("a"));
  log.Close(Notice("b"));
  log.Append(Notice("too late"));
  EXPECT_THAT(ReadToEnd(log, 0), ElementsAre("1 a", "2 b"));
  EXPECT_THAT(ReadToEnd(log, 1), ElementsAre("2 b"));
  EXPECT_THAT(ReadToEnd(log, 2), ElementsAre());
  const auto first = log.ReadAfter(0, kLong);
  EXPECT_EQ(first->event->time().seconds(), 1);
  EXPECT_EQ(first->event->time().nanos(), 500'000'000);
}

TEST(EventLogTest, FutureSequenceIsOutOfRange) {
  EventLog log(0, nullptr, Clock::Real());
  log.Append(Notice("a"));
  EXPECT_EQ(log.ReadAfter(2, kLong).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(EventLogTest, OldEventsAreForgotten) {
  EventLog log(0, nullptr, Clock::Real(), /*capacity=*/2);
  for (const char* message : {"a", "b", "c"}) log.Append(Notice(message));
  log.Close(Notice("d"));
  EXPECT_THAT(ReadToEnd(log, 0), ElementsAre("3 c", "4 d"));
}

TEST(EventLogTest, TrimmedLogKeepsTheNewestAndTheEnd) {
  EventLog log(0, nullptr, Clock::Real());
  for (const char* message : {"a", "b", "c"}) log.Append(Notice(message));
  log.Close(Notice("d"));
  log.Trim(2);
  EXPECT_THAT(ReadToEnd(log, 0), ElementsAre("3 c", "4 d"));
  EXPECT_THAT(ReadToEnd(log, 3), ElementsAre("4 d"));
}

TEST(EventLogTest, NumbersGoOnAfterARestartAndAreSavedFirst) {
  std::vector<uint64_t> saved;
  EventLog log(
      7, [&](uint64_t sequence) { saved.push_back(sequence); }, Clock::Real());
  log.Append(Notice("a"));
  log.Close(Notice("b"));
  EXPECT_THAT(saved, ElementsAre(8, 9));
  EXPECT_THAT(ReadToEnd(log, 3), ElementsAre("8 a", "9 b"));
}

TEST(EventLogTest, WaitersWakeWhenAnEventComes) {
  EventLog log(0, nullptr, Clock::Real());
  std::vector<std::string> read;
  std::thread reader([&] { read = ReadToEnd(log, 0); });
  log.Append(Notice("a"));
  log.Append(Notice("b"));
  log.Close(Notice("c"));
  reader.join();
  EXPECT_THAT(read, ElementsAre("1 a", "2 b", "3 c"));
}

TEST(EventLogTest, ReadsEndWithoutAnEventAfterTheTimeout) {
  EventLog log(0, nullptr, Clock::Real());
  const auto result = log.ReadAfter(0, absl::ZeroDuration());
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->event);
  EXPECT_FALSE(result->end);
}

// Such a reader once spun: it was told at once, again and again, that nothing had come.
TEST(EventLogTest, ReaderWhoseNextEventWasOfAnEarlierLifeWaitsForTheNextOne) {
  EventLog log(/*last_sequence=*/7, nullptr, Clock::Real());
  absl::StatusOr<EventLog::ReadResult> read;
  std::thread reader([&] { read = log.ReadAfter(3, kLong); });
  log.Append(Notice("a"));
  reader.join();
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->event);
  EXPECT_EQ(read->event->sequence(), 8u);
}

}  // namespace
}  // namespace millrace::coordinator
