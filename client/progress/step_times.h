// What the time of a job's steps went into, for people and machines.
#ifndef MILLRACE_CLIENT_PROGRESS_STEP_TIMES_H_
#define MILLRACE_CLIENT_PROGRESS_STEP_TIMES_H_

#include <string>

#include "nlohmann/json_fwd.hpp"
#include "protos/events.pb.h"

namespace millrace::client {

// "52 ms: 71% backward, 14% forward, 12% pull (of it 3 ms of copying), 3% wait; push 18 ms". The
// shares are of what a worker does one after the other: a push may go on beside the next step.
// Empty where there are no times.
std::string FormatStepTimes(const StepTimes& times);

// What to try where a worker waits for longer than it computes: a sentence. Empty: nothing.
std::string StepAdvice(const StepTimes& times);

// In seconds: "read", "pull", "copy", "forward", "backward", "push", "wait".
nlohmann::ordered_json StepTimesJson(const StepTimes& times);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_PROGRESS_STEP_TIMES_H_
