// A job's variables, fetched from its shards and written to a file.
#ifndef MILLRACE_CLIENT_EXPORTER_H_
#define MILLRACE_CLIENT_EXPORTER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/interrupt.h"
#include "client/jobs_client.h"
#include "client/safetensors.h"
#include "common/clock.h"
#include "protos/job.pb.h"

namespace millrace::client {

struct ExportOptions {
  // Shards that move and servers that are away are waited for until nothing has come for so long.
  absl::Duration timeout = absl::Minutes(10);
  // Ends it, and the client's calls, with CANCELLED; nothing is left behind then. Has no other
  // action meanwhile. Not owned; may be null.
  Interrupt* interrupt = nullptr;
  // Told which servers are waited for, seconds apart. Called by the thread that waits; may be
  // empty.
  std::function<void(const std::string&)> on_wait = nullptr;
  Clock* clock = Clock::Real();
};

// The newest value of each variable, in the order of the job; one state of the job where it has
// ended, otherwise of no single moment. Blocks. Statuses as GetVariables (protos/job.proto);
// DEADLINE_EXCEEDED and UNAVAILABLE name the servers that were waited for; FAILED_PRECONDITION: the
// shards are not there; CANCELLED: the interrupt came.
absl::StatusOr<std::vector<Tensor>> FetchVariables(JobsClient* client, const std::string& job_id,
                                                   const ExportOptions& options = {});

// Writes them to files, in the format that `path` says (CreateTensorWriter). Their bytes depend on
// the variables alone: equal models give equal files, whichever job or cluster they came from.
// Kernels are laid out as Keras's. The variables may be larger than memory: they are gathered in a
// temporary file beside `path` first. Statuses as FetchVariables and CreateTensorWriter.
absl::Status ExportVariables(JobsClient* client, const std::string& job_id, const std::string& path,
                             const ExportOptions& options = {});

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_EXPORTER_H_
