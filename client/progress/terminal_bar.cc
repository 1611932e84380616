#include "client/progress/terminal_bar.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/progress/confusion_table.h"
#include "client/progress/format.h"
#include "common/printable.h"
#include "common/proto_time.h"

namespace millrace::client {
namespace {

constexpr absl::Duration kShortestPause = absl::Milliseconds(100);
constexpr int kLongestBar = 30;
constexpr int kShortestBar = 8;
// Back to the first column, and clear the line.
constexpr char kClearLine[] = "\r\x1b[K";
constexpr char kGap[] = "  ";

// Of the steps that are applied; 0 to 1.
double Done(const Progress& progress) {
  if (progress.total_steps() == 0) return 0;
  return std::min(
      1.0, static_cast<double>(progress.step()) / static_cast<double>(progress.total_steps()));
}

// "[====>    ]", `width` columns.
std::string DrawBar(double done, int width) {
  const int inside = width - 2;
  const int filled = static_cast<int>(done * inside);
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < inside) bar += '>';
  bar.resize(static_cast<size_t>(inside), ' ');
  return absl::StrCat("[", bar, "]");
}

struct Field {
  std::string text;
  int rank;  // The highest goes first where there is no room.
};

// In the order of the line.
std::vector<Field> MakeFields(const Progress& progress, const StepRate& rate) {
  std::vector<Field> fields;
  fields.push_back(
      {absl::StrCat(FormatCount(progress.step()), "/", FormatCount(progress.total_steps())), 1});
  fields.push_back({absl::StrCat(FormatRate(progress.examples_per_second()), " examples/s"), 4});
  int rank = 3;
  for (std::string& metric : FormatMetrics(ToMetrics(progress.metrics()))) {
    fields.push_back({std::move(metric), rank});
    rank = rank == 3 ? 5 : rank + 1;
  }
  fields.push_back(
      {absl::StrCat(progress.workers(), progress.workers() == 1 ? " worker" : " workers"), 100});
  if (const auto left = rate.TimeLeft(progress.total_steps())) {
    fields.push_back({absl::StrCat(FormatElapsed(*left), " left"), 2});
  }
  return fields;
}

int Columns(const std::vector<Field>& fields) {
  size_t columns = 0;
  for (const Field& field : fields) columns += sizeof(kGap) - 1 + field.text.size();
  return static_cast<int>(columns);
}

}  // namespace

std::string BarLine(const Progress& progress, const StepRate& rate, int width) {
  const double done = Done(progress);
  std::string line = absl::StrFormat("%3d%%", static_cast<int>(done * 100));
  const int room = width - 1 - static_cast<int>(line.size());
  std::vector<Field> fields = MakeFields(progress, rate);
  while (!fields.empty() && Columns(fields) > room) {
    fields.erase(std::max_element(fields.begin(), fields.end(),
                                  [](const Field& a, const Field& b) { return a.rank < b.rank; }));
  }
  const int bar = std::min(kLongestBar, room - Columns(fields) - 1);
  if (bar >= kShortestBar) absl::StrAppend(&line, " ", DrawBar(done, bar));
  for (const Field& field : fields) absl::StrAppend(&line, kGap, field.text);
  return line.substr(0, static_cast<size_t>(std::max(0, width - 1)));
}

TerminalBar::~TerminalBar() {
  if (drawn_) *options_.out << std::endl;
}

void TerminalBar::Begin(const std::string& job_id) { PrintAbove(absl::StrCat("job ", job_id)); }

void TerminalBar::OnEvent(const JobEvent& event) {
  if (!event.has_progress()) {
    if (const std::string line = DescribeEvent(event); !line.empty()) PrintAbove(line);
    for (const ConfusionMatrix& matrix : event.evaluated().confusion_matrices()) {
      for (const std::string& line : ConfusionTable(matrix)) PrintAbove(line);
    }
    return;
  }
  progress_ = event.progress();
  rate_.Add(FromTimestamp(event.time()), progress_.step());
  started_ = true;
  if (options_.clock->Now() - last_draw_ >= kShortestPause) Draw();
}

void TerminalBar::Note(const std::string& sentence) { PrintAbove(sentence); }

void TerminalBar::Finish(const JobOutcome& outcome) {
  Clear();
  started_ = false;
  *options_.out << FormatOutcome(outcome) << std::flush;
}

void TerminalBar::PrintAbove(const std::string& line) {
  Clear();
  *options_.out << Printable(line) << "\n";
  if (started_) Draw();
  *options_.out << std::flush;
}

void TerminalBar::Draw() {
  last_draw_ = options_.clock->Now();
  *options_.out << kClearLine << BarLine(progress_, rate_, options_.width()) << std::flush;
  drawn_ = true;
}

void TerminalBar::Clear() {
  if (drawn_) *options_.out << kClearLine;
  drawn_ = false;
}

}  // namespace millrace::client
