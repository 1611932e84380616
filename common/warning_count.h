// What tests see of the log.
#ifndef MILLRACE_COMMON_WARNING_COUNT_H_
#define MILLRACE_COMMON_WARNING_COUNT_H_

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "glog/logging.h"

namespace millrace {

// Counts the warnings and errors with `text` that are logged while it lives. Thread-safe.
class WarningCount final : public google::LogSink {
 public:
  explicit WarningCount(std::string text) : text_(std::move(text)) { google::AddLogSink(this); }
  ~WarningCount() override { google::RemoveLogSink(this); }

  int count() const { return count_; }

 private:
  void send(google::LogSeverity severity, const char* /*full_filename*/,
            const char* /*base_filename*/, int /*line*/, const google::LogMessageTime& /*time*/,
            const char* message, size_t length) override {
    if (severity < google::GLOG_WARNING) return;
    if (absl::StrContains(absl::string_view(message, length), text_)) ++count_;
  }

  const std::string text_;
  std::atomic<int> count_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_WARNING_COUNT_H_
