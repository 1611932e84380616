#include "client/progress/make_view.h"

#include <string>
#include <utility>

#include "client/progress/json_lines.h"
#include "client/progress/plain_lines.h"
#include "client/progress/terminal_bar.h"
#include "common/mutex.h"

namespace millrace::client {
namespace {

// One call after the other. The lock is held while a view writes: that is its purpose.
class SerializedView final : public ProgressView {
 public:
  explicit SerializedView(std::unique_ptr<ProgressView> view) : view_(std::move(view)) {}

  void Begin(const std::string& job_id) override {
    MutexLock lock(&mutex_);
    view_->Begin(job_id);
  }
  void OnEvent(const JobEvent& event) override {
    MutexLock lock(&mutex_);
    view_->OnEvent(event);
  }
  void Note(const std::string& sentence) override {
    MutexLock lock(&mutex_);
    view_->Note(sentence);
  }
  void Finish(const JobOutcome& outcome) override {
    MutexLock lock(&mutex_);
    view_->Finish(outcome);
  }

 private:
  Mutex mutex_;
  const std::unique_ptr<ProgressView> view_ ABSL_PT_GUARDED_BY(mutex_);
};

std::unique_ptr<ProgressView> MakeMember(const Console& console, bool json) {
  if (json) return std::make_unique<JsonLines>(console.out, console.err);
  if (!console.out_is_terminal) return std::make_unique<PlainLines>(console.out);
  TerminalBarOptions options;
  options.out = console.out;
  options.width = console.width;
  return std::make_unique<TerminalBar>(std::move(options));
}

}  // namespace

std::unique_ptr<ProgressView> MakeProgressView(const Console& console, bool json) {
  return std::make_unique<SerializedView>(MakeMember(console, json));
}

}  // namespace millrace::client
