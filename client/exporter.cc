#include "client/exporter.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "worker/parameters/parameter_client.h"

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

// The shards were moved, or put to another generation, between the routing and the pull.
bool RoutingIsStale(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status);
}

// One export's fetching.
class Fetch {
 public:
  Fetch(JobsClient* client, const std::string& job_id, const ExportOptions& options)
      : client_(client),
        job_id_(job_id),
        options_(options),
        deadline_(options.clock->Now() + options.timeout) {
    if (options.interrupt != nullptr) stop_.emplace(options.interrupt, [this] { Stop(); });
  }

  absl::StatusOr<std::vector<Tensor>> Run() {
    absl::Duration pull_timeout = kFirstPullTimeout;
    while (true) {
      absl::StatusOr<GetVariablesResponse> variables =
          client_->GetVariables(job_id_, deadline_ - options_.clock->Now());
      if (!variables.ok()) return Failure(variables.status());
      std::vector<Tensor> tensors = MakeTensors(*variables);
      const absl::Status status =
          Pull(variables->routing(), std::min(deadline_, options_.clock->Now() + pull_timeout),
               &tensors);
      if (status.ok()) return tensors;
      if (!MayMend(status, variables->routing())) return Failure(status);
      if (options_.on_wait) options_.on_wait(Failure(status).ToString());
      pull_timeout *= 2;
    }
  }

 private:
  absl::Status Pull(const Routing& routing, absl::Time deadline, std::vector<Tensor>* tensors) {
    std::vector<uint64_t> sizes;
    std::vector<absl::Span<float>> spans;
    for (Tensor& tensor : *tensors) {
      sizes.push_back(tensor.values.size());
      spans.push_back(absl::MakeSpan(tensor.values));
    }
    worker::ParameterClientOptions parameter_options;
    parameter_options.clock = options_.clock;
    MILLRACE_ASSIGN_OR_RETURN(
        std::shared_ptr<worker::ParameterClient> parameters,
        worker::ParameterClient::Create(job_id_, std::move(sizes), routing, parameter_options));
    SetParameters(parameters);
    worker::ParameterClient::PullOptions pull;
    pull.deadline = deadline;
    absl::Status status = parameters->Pull(pull, spans);
    SetParameters(nullptr);
    return status;
  }

  // From where Stop() may cancel it; at once if Stop() was called.
  void SetParameters(std::shared_ptr<worker::ParameterClient> parameters) {
    bool stopped = false;
    {
      MutexLock lock(&mutex_);
      parameters_ = parameters;
      stopped = stopped_;
    }
    if (stopped && parameters != nullptr) parameters->Cancel();
  }

  void Stop() {
    std::shared_ptr<worker::ParameterClient> parameters;
    {
      MutexLock lock(&mutex_);
      stopped_ = true;
      parameters = parameters_;
    }
    client_->Interrupt();
    if (parameters != nullptr) parameters->Cancel();
  }

  // Whether the routing, asked for again, may lead further. With one that failed before there is
  // nothing to hope for, but from a server that was away.
  bool MayMend(const absl::Status& status, const Routing& routing) {
    const bool same_routing = routing.generation() == failed_generation_;
    failed_generation_ = routing.generation();
    const bool away = absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status);
    return RoutingIsStale(status) && (away || !same_routing) && options_.clock->Now() < deadline_;
  }

  absl::Status Failure(const absl::Status& status) const {
    return absl::Status(status.code(), absl::StrCat("cannot fetch the variables of job ", job_id_,
                                                    ": ", std::string(status.message())));
  }

  JobsClient* const client_;
  const std::string job_id_;
  const ExportOptions& options_;
  const absl::Time deadline_;
  uint64_t failed_generation_ = 0;

  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<worker::ParameterClient> parameters_ ABSL_GUARDED_BY(mutex_);
  absl::optional<Interrupt::Action> stop_;  // Last: it may call Stop() from its constructor on.
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> FetchVariables(JobsClient* client, const std::string& job_id,
                                                   const ExportOptions& options) {
  return Fetch(client, job_id, options).Run();
}

absl::Status ExportVariables(JobsClient* client, const std::string& job_id, const std::string& path,
                             const ExportOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors,
                            FetchVariables(client, job_id, options));
  return WriteSafetensors(path, tensors, {{"format", "millrace"}}, options.interrupt);
}

}  // namespace millrace::client
