#include "client/progress/step_times.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/progress/format.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

double Backward(const StepTimes& times) { return std::max(0.0, times.compute() - times.forward()); }

// What a worker does or waits for, one after the other.
std::vector<std::pair<double, std::string>> Parts(const StepTimes& times) {
  return {{times.wait(), "wait"},
          {times.read(), "read"},
          {times.pull(), "pull"},
          {times.forward(), "forward"},
          {Backward(times), "backward"}};
}

double Sum(const StepTimes& times) {
  double sum = 0;
  for (const auto& [seconds, name] : Parts(times)) sum += seconds;
  return sum;
}

// "52 ms", "0.35 ms".
std::string Time(double seconds) {
  if (seconds < 0.0095) return absl::StrFormat("%.2g ms", 1000 * seconds);
  return FormatShortTime(absl::Seconds(seconds));
}

}  // namespace

std::string FormatStepTimes(const StepTimes& times) {
  const double sum = Sum(times);
  if (!(sum > 0)) return "";
  auto parts = Parts(times);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [seconds, name] : parts) {
    const int percent = static_cast<int>(std::lround(100 * seconds / sum));
    if (percent == 0) continue;
    texts.push_back(absl::StrCat(percent, "% ", name));
    // Of a pull that began ahead, most is over before anybody waits for it.
    if (name == "pull" && times.copy() > 0 && times.copy() <= seconds) {
      absl::StrAppend(&texts.back(), " (", Time(times.copy()), " of copying)");
    }
  }
  return absl::StrCat(Time(sum), ": ", absl::StrJoin(texts, ", "), "; push ", Time(times.push()));
}

std::string StepAdvice(const StepTimes& times) {
  const double waits = times.wait() + times.read() + times.pull();
  if (!(waits > times.compute())) return "";
  if (times.read() >= std::max(times.wait(), times.pull())) {
    return "Steps wait for their examples for most of their time: bring the data nearer to the "
           "workers, or decompress it.";
  }
  if (times.pull() >= times.wait()) {
    return "Steps wait for values longer than they compute: use more ps servers, larger batches, "
           "or fewer workers where they share a machine.";
  }
  return "Workers wait for steps longer than they compute: use fewer of them, or let more steps be "
         "computed at once (asynchronous.staleness_bound, synchronous.replicas).";
}

nlohmann::ordered_json StepTimesJson(const StepTimes& times) {
  return {{"read", times.read()},       {"pull", times.pull()},        {"copy", times.copy()},
          {"forward", times.forward()}, {"backward", Backward(times)}, {"push", times.push()},
          {"wait", times.wait()}};
}

}  // namespace millrace::client
