#include "client/outage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::client {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);

std::string Text(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

}  // namespace

Outage::Outage(OutageOptions options)
    : options_(std::move(options)),
      deadline_(options_.clock->Now() + options_.patience),
      backoff_(kFirstPause, kLongestPause) {}

absl::Duration Outage::remaining() const { return deadline_ - options_.clock->Now(); }

absl::StatusOr<absl::Time> Outage::NextAttempt(const absl::Status& error, FailedBy by) {
  const absl::Time now = options_.clock->Now();
  if (deadline_ == absl::InfiniteFuture()) deadline_ = now + options_.patience;
  if (now >= deadline_) return GiveUp(error, by);
  if (told_ != by && options_.on_wait) {
    options_.on_wait(
        by == FailedBy::kConnection
            ? absl::StrCat("waits for the coordinator at ", options_.address, ": ", Text(error))
            : absl::StrCat("waits, as the coordinator says: ", Text(error)));
  }
  told_ = by;
  return std::min(now + backoff_.Next(), deadline_);
}

absl::Status Outage::GiveUp(const absl::Status& last_error, FailedBy by) const {
  if (by == FailedBy::kCoordinator) {
    return absl::UnavailableError(absl::StrCat(Text(last_error), " (the answer to ", options_.what,
                                               " of the coordinator at ", options_.address, " for ",
                                               absl::FormatDuration(options_.patience), ")"));
  }
  return absl::UnavailableError(
      absl::StrCat("the coordinator at ", options_.address, " did not answer ", options_.what,
                   " within ", absl::FormatDuration(options_.patience), " (", Text(last_error),
                   "); check that it runs and that this is its address"));
}

void Outage::Over() {
  deadline_ = absl::InfiniteFuture();
  backoff_.Reset();
  told_ = absl::nullopt;
}

}  // namespace millrace::client
