// How the thread that runs a model computes.
#ifndef MILLRACE_WORKER_DEVICE_CPU_THREAD_SETTINGS_H_
#define MILLRACE_WORKER_DEVICE_CPU_THREAD_SETTINGS_H_

namespace millrace::worker {

// While it lives, the calling thread and its OpenMP team, which has `threads` members, take
// denormal numbers for 0 (they are far below what training can use, and a hundred times slower than
// others). Both are settings of the calling thread alone: other threads do not notice. Restores
// them in the end. Destroy it in the thread that made it, the newest first.
class ScopedThreadSettings {
 public:
  explicit ScopedThreadSettings(int threads);
  ~ScopedThreadSettings();
  ScopedThreadSettings(const ScopedThreadSettings&) = delete;
  ScopedThreadSettings& operator=(const ScopedThreadSettings&) = delete;

 private:
  const int previous_threads_;
  const unsigned previous_float_control_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_THREAD_SETTINGS_H_
