#include "client/progress/plain_lines.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/progress/confusion_table.h"
#include "client/progress/format.h"
#include "common/printable.h"
#include "common/proto_time.h"

namespace millrace::client {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(5);
constexpr uint64_t kParts = 20;  // Of the job: 5% each.

}  // namespace

void PlainLines::Begin(const std::string& job_id) {
  *out_ << "job " << PrintableName(job_id) << std::endl;
}

void PlainLines::OnEvent(const JobEvent& event) {
  if (event.has_progress()) {
    OnProgress(event.progress(), FromTimestamp(event.time()));
    return;
  }
  if (const std::string line = DescribeEvent(event); !line.empty()) *out_ << line << std::endl;
  for (const ConfusionMatrix& matrix : event.evaluated().confusion_matrices()) {
    for (const std::string& line : ConfusionTable(matrix)) *out_ << line << std::endl;
  }
}

void PlainLines::OnProgress(const Progress& progress, absl::Time time) {
  rate_.Add(time, progress.step());
  if (progress.step() < last_step_) last_step_ = progress.step();  // The job stepped back.
  const bool far = (progress.step() - last_step_) * kParts >= progress.total_steps();
  if (!far && time - last_time_ < kInterval) return;
  last_time_ = time;
  last_step_ = progress.step();
  std::string line =
      absl::StrCat("step ", FormatCount(progress.step()), "/", FormatCount(progress.total_steps()));
  if (progress.total_steps() > 0) {
    absl::StrAppendFormat(
        &line, " (%.1f%%)",
        100.0 * static_cast<double>(progress.step()) / static_cast<double>(progress.total_steps()));
  }
  absl::StrAppend(&line, "  ", FormatRate(progress.examples_per_second()), " examples/s");
  for (const std::string& metric : FormatMetrics(ToMetrics(progress.metrics()))) {
    absl::StrAppend(&line, "  ", metric);
  }
  absl::StrAppend(&line, "  ", progress.workers(),
                  progress.workers() == 1 ? " worker" : " workers");
  if (const auto left = rate_.TimeLeft(progress.total_steps())) {
    absl::StrAppend(&line, "  ", FormatElapsed(*left), " left");
  }
  *out_ << line << std::endl;
}

void PlainLines::Note(const std::string& sentence) { *out_ << Printable(sentence) << std::endl; }

void PlainLines::Finish(const JobOutcome& outcome) {
  *out_ << FormatOutcome(outcome) << std::flush;
}

}  // namespace millrace::client
