#include "worker/parameters/parameter_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/parameters/client_core.h"
#include "worker/parameters/pull_operation.h"
#include "worker/parameters/push_operation.h"
#include "worker/parameters/shard_layout.h"

namespace millrace::worker {
namespace {

constexpr int kMaxConnectionsPerServer = 64;

class ParameterClientImpl final : public ParameterClient {
 public:
  explicit ParameterClientImpl(std::shared_ptr<ClientCore> core) : core_(std::move(core)) {}

  ~ParameterClientImpl() override { core_->Cancel(); }

  std::unique_ptr<StartedPull> StartPull(const PullOptions& options,
                                         absl::Span<const absl::Span<float>> values) override {
    return std::make_unique<PullOperation>(core_, options, values);
  }

  std::unique_ptr<Push> StartPush(uint64_t step, uint32_t examples) override {
    return std::make_unique<PushOperation>(core_, step, examples);
  }

  void Cancel() override { core_->Cancel(); }

 private:
  const std::shared_ptr<ClientCore> core_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterClient>> ParameterClient::Create(
    std::string job_id, std::vector<uint64_t> variable_sizes, const Routing& routing,
    const ParameterClientOptions& options) {
  if (options.connections_per_server < 1 ||
      options.connections_per_server > kMaxConnectionsPerServer) {
    return absl::InvalidArgumentError(
        absl::StrCat("connections_per_server: ", options.connections_per_server, "; must be 1 to ",
                     kMaxConnectionsPerServer));
  }
  if (options.call_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "call_timeout: ", absl::FormatDuration(options.call_timeout), "; must be above 0"));
  }
  if (!options.frozen.empty() && options.frozen.size() != variable_sizes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "frozen: ", options.frozen.size(), " variables; the job has ", variable_sizes.size()));
  }
  MILLRACE_ASSIGN_OR_RETURN(Layout layout, MakeLayout(variable_sizes, routing, options.frozen));
  return std::make_unique<ParameterClientImpl>(
      std::make_shared<ClientCore>(std::move(job_id), std::move(layout), options));
}

}  // namespace millrace::worker
