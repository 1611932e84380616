// A progress bar for a terminal.
#ifndef MILLRACE_CLIENT_PROGRESS_TERMINAL_BAR_H_
#define MILLRACE_CLIENT_PROGRESS_TERMINAL_BAR_H_

#include <functional>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "client/progress/progress_view.h"
#include "client/progress/step_rate.h"
#include "common/clock.h"

namespace millrace::client {

struct TerminalBarOptions {
  // Not owned.
  std::ostream* out = nullptr;
  // The terminal's width in columns, asked for whenever the bar is drawn.
  std::function<int()> width = nullptr;
  // Keeps a history that arrives at once from being drawn event by event.
  Clock* clock = Clock::Real();
};

// One line that is drawn again as steps are applied; evaluations, notices and changes of state stay
// above it.
class TerminalBar final : public ProgressView {
 public:
  explicit TerminalBar(TerminalBarOptions options) : options_(std::move(options)) {}

  // Leaves the cursor on a line of its own.
  ~TerminalBar() override;

  void Begin(const std::string& job_id) override;
  void OnEvent(const JobEvent& event) override;
  void Note(const std::string& sentence) override;
  void Finish(const JobOutcome& outcome) override;

 private:
  void PrintAbove(const std::string& line);
  void Draw();
  void Clear();

  const TerminalBarOptions options_;
  Progress progress_;
  StepRate rate_;
  bool started_ = false;  // There is something to draw.
  bool drawn_ = false;    // The cursor's line is the bar.
  absl::Time last_draw_ = absl::InfinitePast();
};

// The bar's line, at most `width` - 1 columns: what matters less is left out where it does not fit.
std::string BarLine(const Progress& progress, const StepRate& rate, int width);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_PROGRESS_TERMINAL_BAR_H_
