#include "client/exporter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// How long the first pull may take before the routing is asked for again, since a server may have
// come back at another address; each later one may take twice as long as the one before.
constexpr absl::Duration kFirstPullTimeout = absl::Seconds(5);

std::vector<Tensor> MakeTensors(const GetVariablesResponse& variables) {
  std::vector<Tensor> tensors;
  for (const VariableSpec& variable : variables.variables()) {
    Tensor tensor{variable.name(), {variable.shape().begin(), variable.shape().end()}, {}};
    size_t elements = 1;
    for (uint64_t dimension : tensor.shape) elements *= dimension;
    tensor.values.resize(elements);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status PullInto(const std::string& job_id, const Routing& routing, absl::Time deadline,
                      Clock* clock, std::vector<Tensor>* tensors) {
  std::vector<uint64_t> sizes;
  std::vector<absl::Span<float>> spans;
  for (Tensor& tensor : *tensors) {
    sizes.push_back(tensor.values.size());
    spans.push_back(absl::MakeSpan(tensor.values));
  }
  worker::ParameterClientOptions options;
  options.clock = clock;
  MILLRACE_ASSIGN_OR_RETURN(const auto parameters, worker::ParameterClient::Create(
                                                       job_id, std::move(sizes), routing, options));
  worker::ParameterClient::PullOptions pull;
  pull.deadline = deadline;
  return parameters->Pull(pull, spans);
}

// The shards were moved, or put to another generation, between the routing and the pull.
bool RoutingIsStale(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status);
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> FetchVariables(JobsClient* client, const std::string& job_id,
                                                   const ExportOptions& options) {
  const absl::Time deadline = options.clock->Now() + options.timeout;
  uint64_t failed_generation = 0;
  absl::Duration pull_timeout = kFirstPullTimeout;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const GetVariablesResponse variables, client->GetVariables(job_id));
    const uint64_t generation = variables.routing().generation();
    std::vector<Tensor> tensors = MakeTensors(variables);
    const absl::Status status =
        PullInto(job_id, variables.routing(),
                 std::min(deadline, options.clock->Now() + pull_timeout), options.clock, &tensors);
    if (status.ok()) return tensors;
    // With the routing that failed before there is nothing to hope for, but from a server that was
    // away.
    const bool may_mend = absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status) ||
                          generation != failed_generation;
    if (!RoutingIsStale(status) || !may_mend || options.clock->Now() >= deadline) {
      return absl::Status(status.code(), absl::StrCat("cannot fetch the variables of job ", job_id,
                                                      ": ", std::string(status.message())));
    }
    failed_generation = generation;
    pull_timeout *= 2;
  }
}

absl::Status ExportVariables(JobsClient* client, const std::string& job_id, const std::string& path,
                             const ExportOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors,
                            FetchVariables(client, job_id, options));
  return WriteSafetensors(path, tensors, {{"format", "millrace"}});
}

}  // namespace millrace::client
