// What the threads of one ParameterClient and gRPC's callbacks meet at.
#ifndef MILLRACE_WORKER_PARAMETERS_MONITOR_H_
#define MILLRACE_WORKER_PARAMETERS_MONITOR_H_

#include <memory>
#include <vector>

#include "common/mutex.h"

namespace millrace::worker {

// One for each client, shared by all that may outlive it. The mutex guards the state of all its
// pushes and pulls (a few words for each message). It comes first: streams and connections take
// their own locks while it is free or held, and never the other way round.
struct Monitor {
  Mutex mutex;
  // Signalled to all whenever a waiting push or pull may have something to do.
  CondVar changed;
  bool cancelled ABSL_GUARDED_BY(mutex) = false;
  // Streams that gRPC may still call back.
  int live_streams ABSL_GUARDED_BY(mutex) = 0;
  // Streams that gRPC is done with, for the client's own threads to destroy. Had one of gRPC's
  // threads to do it, that might drop the last channel of the process, and gRPC would then have the
  // thread wait for its own end, go on without waiting, and crash.
  std::vector<std::shared_ptr<void>> ended_streams ABSL_GUARDED_BY(mutex);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_MONITOR_H_
