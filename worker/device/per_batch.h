#ifndef MILLRACE_WORKER_DEVICE_PER_BATCH_H_
#define MILLRACE_WORKER_DEVICE_PER_BATCH_H_

#include <cstddef>
#include <map>
#include <memory>

namespace millrace::worker {

// What a layer or a model needs for each number of examples that it meets. A job has at most four:
// full and short batches, in training and in evaluation; and where these are divided (CompactModel)
// three more. More make room for each other.
template <typename T>
class PerBatch {
 public:
  // `make()` returns a std::unique_ptr<T>.
  template <typename Make>
  T& Get(size_t batch, Make make) {
    auto found = entries_.find(batch);
    if (found == entries_.end()) {
      if (entries_.size() >= kMaxEntries) entries_.clear();
      found = entries_.emplace(batch, make()).first;
    }
    return *found->second;
  }

  void Clear() { entries_.clear(); }

 private:
  static constexpr size_t kMaxEntries = 8;
  std::map<size_t, std::unique_ptr<T>> entries_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_PER_BATCH_H_
