// Work of all streams: queued, and run when somebody waits.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_WORK_H_
#define MILLRACE_TESTING_CUDA_EMULATION_WORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "testing/cuda_emulation/order.h"

namespace cuda_emulation {

// A piece of work. `run` is empty where it is only a place in an order.
struct Task {
  std::function<bool()> run;  // False: it never ends.
  bool done = false;
  bool never_ends = false;
  uint64_t number = 0;  // In the order of enqueueing.
  // Not done yet: what it waits for, and what waits for it.
  std::vector<std::shared_ptr<Task>> after;
  std::vector<std::shared_ptr<Task>> before;
  size_t unfinished = 0;  // Of `after`.
};
using TaskPointer = std::shared_ptr<Task>;

// Not thread-safe.
class Work {
 public:
  // Null ones, and those that are done, do not matter.
  TaskPointer Add(std::function<bool()> run, const std::vector<TaskPointer>& after);

  // Runs tasks in an order that the streams allow until `target` is done; null: until all are.
  // `stop` is asked before each. False: it cannot be done, since something before it never ends, or
  // since `stop` said so.
  bool RunUntil(const TaskPointer& target, Order* order, const std::function<bool()>& stop);

  void Drop();

 private:
  void Finish(const TaskPointer& task);

  uint64_t added_ = 0;
  size_t unfinished_ = 0;
  std::vector<TaskPointer> ready_;  // That may run, in no order.
};

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_WORK_H_
