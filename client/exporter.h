// A job's variables, fetched from its shards and written to a file.
#ifndef MILLRACE_CLIENT_EXPORTER_H_
#define MILLRACE_CLIENT_EXPORTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/jobs_client.h"
#include "client/safetensors.h"
#include "common/clock.h"
#include "protos/job.pb.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::client {

struct ExportOptions {
  // For the whole of it; shards that move or servers that restart are waited for until then.
  absl::Duration timeout = absl::Minutes(10);
  Clock* clock = Clock::Real();
};

// The newest value of each variable, in the order of the job; one state of the job where it has
// ended, otherwise of no single moment. Blocks. Statuses as GetVariables (protos/job.proto);
// DEADLINE_EXCEEDED names the servers that are waited for; FAILED_PRECONDITION: the shards are not
// there.
absl::StatusOr<std::vector<Tensor>> FetchVariables(JobsClient* client, const std::string& job_id,
                                                   const ExportOptions& options = {});

// Writes them to a safetensors file. Its bytes depend on the variables alone: equal models give
// equal files, whichever job or cluster they came from. Kernels are laid out as Keras's. Statuses
// as FetchVariables and WriteSafetensors.
absl::Status ExportVariables(JobsClient* client, const std::string& job_id, const std::string& path,
                             const ExportOptions& options = {});

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_EXPORTER_H_
