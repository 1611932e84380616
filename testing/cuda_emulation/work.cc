#include "testing/cuda_emulation/work.h"

#include <unordered_set>
#include <utility>

namespace cuda_emulation {
namespace {

// `target` and all that it waits for.
std::unordered_set<const Task*> NeededFor(const TaskPointer& target) {
  std::unordered_set<const Task*> needed = {target.get()};
  std::vector<const Task*> open = {target.get()};
  while (!open.empty()) {
    const Task* task = open.back();
    open.pop_back();
    for (const TaskPointer& earlier : task->after) {
      if (!earlier->done && needed.insert(earlier.get()).second) open.push_back(earlier.get());
    }
  }
  return needed;
}

bool Precedes(OrderKind kind, const Task& a, const Task& b) {
  return kind == OrderKind::kForwards ? a.number < b.number : a.number > b.number;
}

// The one of `tasks` to run next, of those in `needed` if that is not empty; null: none.
TaskPointer Choose(const std::vector<TaskPointer>& tasks, OrderKind kind, Order* order,
                   const std::unordered_set<const Task*>& needed) {
  std::vector<TaskPointer> choice;
  for (const TaskPointer& task : tasks) {
    if (task->never_ends || (!needed.empty() && needed.count(task.get()) == 0)) continue;
    choice.push_back(task);
  }
  if (choice.empty()) return nullptr;
  if (kind == OrderKind::kShuffled) return choice[order->Below(choice.size())];
  TaskPointer first = choice[0];
  for (const TaskPointer& task : choice) {
    if (Precedes(kind, *task, *first)) first = task;
  }
  return first;
}

}  // namespace

TaskPointer Work::Add(std::function<bool()> run, const std::vector<TaskPointer>& after) {
  auto task = std::make_shared<Task>();
  task->run = std::move(run);
  task->number = ++added_;
  for (const TaskPointer& earlier : after) {
    if (earlier == nullptr || earlier->done) continue;
    task->after.push_back(earlier);
    earlier->before.push_back(task);
  }
  task->unfinished = task->after.size();
  if (task->unfinished == 0) ready_.push_back(task);
  ++unfinished_;
  return task;
}

bool Work::RunUntil(const TaskPointer& target, Order* order, const std::function<bool()>& stop) {
  const OrderKind kind = order->NextKind();
  std::unordered_set<const Task*> needed;
  if (target != nullptr && order->seed() != 0 && order->Below(2) == 0) needed = NeededFor(target);
  while (target != nullptr ? !target->done : unfinished_ > 0) {
    if (stop()) return false;
    const TaskPointer next = Choose(ready_, kind, order, needed);
    if (next == nullptr) return false;
    if (next->run && !next->run()) next->never_ends = true;
    if (!next->never_ends) Finish(next);
  }
  return true;
}

void Work::Finish(const TaskPointer& task) {
  for (size_t i = 0; i < ready_.size(); ++i) {
    if (ready_[i] != task) continue;
    ready_[i] = ready_.back();
    ready_.pop_back();
    break;
  }
  task->done = true;
  task->run = nullptr;
  for (const TaskPointer& later : task->before) {
    if (--later->unfinished == 0) ready_.push_back(later);
  }
  task->before.clear();
  task->after.clear();
  --unfinished_;
}

void Work::Drop() {
  std::vector<TaskPointer> open = std::move(ready_);
  ready_.clear();
  while (!open.empty()) {
    const TaskPointer task = open.back();
    open.pop_back();
    if (task->done) continue;
    open.insert(open.end(), task->before.begin(), task->before.end());
    task->done = true;
    task->run = nullptr;
    task->before.clear();
    task->after.clear();
  }
  unfinished_ = 0;
}

}  // namespace cuda_emulation
