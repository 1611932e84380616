#include "common/net/completion_threads.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace millrace {
namespace {

// One thread can take what a few connections bring, and leaves most processors to those who
// compute.
constexpr unsigned kProcessorsPerQueue = 2;
constexpr unsigned kMaxQueues = 8;

void Serve(grpc::CompletionQueue* queue) {
  void* tag;
  bool ok;
  while (queue->Next(&tag, &ok)) static_cast<Completion*>(tag)->Run(ok);
}

std::vector<grpc::CompletionQueue*>* StartClientQueues() {
  const unsigned processors = std::thread::hardware_concurrency();
  auto* const queues = new std::vector<grpc::CompletionQueue*>(
      std::clamp(processors / kProcessorsPerQueue, 1u, kMaxQueues));
  for (grpc::CompletionQueue*& queue : *queues) {
    queue = new grpc::CompletionQueue;
    std::thread(Serve, queue).detach();
  }
  return queues;
}

}  // namespace

grpc::CompletionQueue* NextClientQueue() {
  static const auto* const queues = StartClientQueues();
  static std::atomic<size_t> next = 0;
  return (*queues)[next++ % queues->size()];
}

}  // namespace millrace
