// What the training loop takes from outside, so that tests can bring their own.
#ifndef MILLRACE_WORKER_TRAINING_SEAMS_H_
#define MILLRACE_WORKER_TRAINING_SEAMS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "worker/input/dataset.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::worker {

// OpenDataset's signature and contract.
using DatasetOpener = std::function<absl::StatusOr<std::unique_ptr<Dataset>>(
    const millrace::Dataset& spec, const DataDirectory& directory, const std::string& field)>;

// ParameterClient::Create's signature and contract.
using ParameterClientFactory = std::function<absl::StatusOr<std::unique_ptr<ParameterClient>>(
    std::string job_id, std::vector<uint64_t> variable_sizes, const Routing& routing,
    const ParameterClientOptions& options)>;

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_SEAMS_H_
