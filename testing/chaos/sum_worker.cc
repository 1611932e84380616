// A worker that trains sum models (see sum_model.h). Takes the flags of a worker; a step takes as
// many microseconds as the environment's MILLRACE_SUM_STEP_MICROSECONDS says.
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "testing/chaos/sum_model.h"
#include "worker/worker_main.h"

int main(int argc, char** argv) {
  int microseconds = 0;
  if (const char* text = std::getenv("MILLRACE_SUM_STEP_MICROSECONDS");
      text != nullptr && !absl::SimpleAtoi(text, &microseconds)) {
    return 2;
  }
  const absl::Duration step_time = absl::Microseconds(microseconds);
  return millrace::worker::WorkerMain(argc, argv, millrace::chaos::SumModelFactory(step_time));
}
