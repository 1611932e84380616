#include "coordinator/job/time_account.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/proto_duration.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr char kOthers[] = "others";
// Names that are told, and that are told apart.
constexpr size_t kMostTold = 20;
constexpr size_t kMostKnownNames = 200;
constexpr size_t kMostGuesses = 100;

int64_t NanosecondsOf(const google::protobuf::Duration& duration) {
  return std::max<int64_t>(absl::ToInt64Nanoseconds(FromProto(duration)), 0);
}

google::protobuf::Duration DurationOf(int64_t nanoseconds) {
  return ToProto(absl::Nanoseconds(nanoseconds));
}

}  // namespace

void TimeAccount::Start(absl::Time now) {
  *this = TimeAccount();
  running_ = true;
  last_ = absl::ToUnixNanos(now);
}

void TimeAccount::Resume(const TimeSpent& before, absl::Time started, absl::Time now,
                         const std::string& whom) {
  Start(started);
  int64_t* const parts = spent_.parts;
  parts[0] = NanosecondsOf(before.training());
  parts[1] = NanosecondsOf(before.running_again());
  parts[2] = NanosecondsOf(before.recovering());
  parts[3] = NanosecondsOf(before.evaluating());
  parts[4] = NanosecondsOf(before.checkpointing());
  for (const int64_t part : spent_.parts) last_ += part;
  for (const WaitedFor& waited : before.waiting()) {
    const int64_t time = NanosecondsOf(waited.time());
    Add(time, TimeUse::kWaiting, waited.whom(), spent_);
    last_ += time;
  }
  // Somebody may have set the machine's clock back.
  last_ = std::min(last_, absl::ToUnixNanos(now));
  Settle(now, TimeUse::kWaiting, whom);
}

// Those for whom it waited once are few; but their names come from elsewhere.
std::string TimeAccount::Add(int64_t nanoseconds, TimeUse use, const std::string& whom,
                             Nanoseconds& to) {
  if (use != TimeUse::kWaiting) {
    to.parts[static_cast<int>(use)] += nanoseconds;
    return "";
  }
  const bool known = to.waiting.size() < kMostKnownNames || to.waiting.contains(whom);
  const std::string& name = known ? whom : kOthers;
  to.waiting[name] += nanoseconds;
  return name;
}

int64_t TimeAccount::Since(absl::Time now) const {
  return running_ ? std::max<int64_t>(absl::ToUnixNanos(now) - last_, 0) : 0;
}

std::string TimeAccount::Close(absl::Time now, TimeUse use, const std::string& whom) {
  const int64_t since = Since(now);
  last_ += since;
  return since > 0 ? Add(since, use, whom, spent_) : "";
}

void TimeAccount::Begin(absl::Time now, TimeUse use, const std::string& whom) {
  Close(now, use_, whom_);
  use_ = use;
  whom_ = whom;
  guesses_.clear();
}

void TimeAccount::Count(absl::Time now) { Close(now, use_, whom_); }

void TimeAccount::Settle(absl::Time now, TimeUse use, const std::string& whom) {
  use_ = use;
  whom_ = whom;
  Close(now, use_, whom_);
  guesses_.clear();
}

void TimeAccount::SettleGuess(absl::Time now, const std::string& whom) {
  use_ = TimeUse::kWaiting;
  whom_ = whom;
  const int64_t begin = last_;
  const std::string name = Close(now, use_, whom_);
  if (last_ == begin) return;
  if (guesses_.empty() || guesses_.back().name != name) guesses_.push_back({name, begin});
  guesses_.back().end = last_;
  if (guesses_.size() > kMostGuesses) guesses_.pop_front();
}

void TimeAccount::SettleWaiting(absl::Time now, const std::string& whom, absl::Time since) {
  const std::deque<Guess> guesses = std::exchange(guesses_, {});
  Settle(now, TimeUse::kWaiting, whom);
  for (const Guess& guess : guesses) {
    const int64_t time = guess.end - std::max(guess.begin, absl::ToUnixNanos(since));
    if (time <= 0) continue;
    spent_.waiting[guess.name] -= time;
    Add(time, TimeUse::kWaiting, whom, spent_);
  }
}

void TimeAccount::End(absl::Time now) {
  Close(now, use_, whom_);
  running_ = false;
}

TimeSpent TimeAccount::At(absl::Time now) const {
  Nanoseconds spent = spent_;
  if (const int64_t since = Since(now); since > 0) Add(since, use_, whom_, spent);
  int64_t wall = 0;
  for (const int64_t part : spent.parts) wall += part;
  int64_t others = 0;
  std::vector<std::pair<int64_t, std::string>> waiting;
  for (const auto& [whom, time] : spent.waiting) {
    wall += time;
    if (whom == kOthers) {
      others += time;
    } else if (time > 0) {
      waiting.emplace_back(time, whom);
    }
  }
  std::sort(waiting.rbegin(), waiting.rend());
  while (waiting.size() + (others > 0 ? 1 : 0) > kMostTold) {
    others += waiting.back().first;
    waiting.pop_back();
  }
  if (others > 0) waiting.emplace_back(others, kOthers);
  TimeSpent told;
  *told.mutable_wall() = DurationOf(wall);
  *told.mutable_training() = DurationOf(spent.parts[0]);
  *told.mutable_running_again() = DurationOf(spent.parts[1]);
  *told.mutable_recovering() = DurationOf(spent.parts[2]);
  *told.mutable_evaluating() = DurationOf(spent.parts[3]);
  *told.mutable_checkpointing() = DurationOf(spent.parts[4]);
  for (const auto& [time, whom] : waiting) {
    WaitedFor& waited = *told.add_waiting();
    waited.set_whom(whom);
    *waited.mutable_time() = DurationOf(time);
  }
  if (wall > 0) told.set_goodput(static_cast<double>(spent.parts[0]) / static_cast<double>(wall));
  return told;
}

std::string WhomInShort(absl::string_view whom) {
  const absl::string_view name =
      absl::StripAsciiWhitespace(whom.substr(0, whom.find_first_of(",(")));
  return name.empty() ? "a member" : std::string(name.data(), name.size());
}

}  // namespace millrace::coordinator
