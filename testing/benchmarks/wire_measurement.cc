#include "testing/benchmarks/wire_measurement.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "common/status_macros.h"
#include "grpcpp/client_context.h"
#include "protos/parameter_server.grpc.pb.h"
#include "testing/benchmarks/raw_tcp.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::testing {
namespace {

using worker::ParameterClient;

constexpr size_t kSmallElements = 1024;
constexpr absl::Duration kPatience = absl::Minutes(1);

// A job of one variable in one shard, and its client.
class OneVariableJob {
 public:
  static absl::StatusOr<std::unique_ptr<OneVariableJob>> Create(const std::string& job_id,
                                                                size_t elements,
                                                                const std::string& address,
                                                                int connections);

  absl::Status Push() {
    const auto push = client_->StartPush(next_step_++, 1);
    push->Add(0, *gradient_, gradient_);
    push->Commit();
    return push->Wait(Clock::Real()->Now() + kPatience);
  }

  absl::Status Pull() {
    ParameterClient::PullOptions options;
    options.deadline = Clock::Real()->Now() + kPatience;
    const absl::Span<float> values = absl::MakeSpan(values_);
    return client_->Pull(options, absl::MakeConstSpan(&values, 1));
  }

 private:
  OneVariableJob(std::unique_ptr<ParameterClient> client, size_t elements)
      : client_(std::move(client)),
        gradient_(std::make_shared<const std::vector<float>>(elements, 0.5f)),
        values_(elements) {}

  const std::unique_ptr<ParameterClient> client_;
  const std::shared_ptr<const std::vector<float>> gradient_;
  std::vector<float> values_;
  uint64_t next_step_ = 0;
};

CreateShardRequest MakeShard(const std::string& job_id, size_t elements) {
  CreateShardRequest request;
  request.set_generation(1);
  ShardSpec* spec = request.mutable_spec();
  spec->set_job_id(job_id);
  spec->set_total_steps(uint64_t{1} << 40);
  spec->mutable_optimizer()->mutable_sgd()->set_learning_rate(0.25);
  spec->mutable_cut_period()->set_seconds(24 * 3600);  // The disk is not what is measured.
  ShardSlice* slice = spec->add_slices();
  slice->set_variable_name("variable");
  slice->mutable_initial_value()->set_constant(1);
  slice->mutable_slice()->set_length(elements);
  return request;
}

absl::StatusOr<std::unique_ptr<OneVariableJob>> OneVariableJob::Create(const std::string& job_id,
                                                                       size_t elements,
                                                                       const std::string& address,
                                                                       int connections) {
  const CreateShardRequest request = MakeShard(job_id, elements);
  grpc::ClientContext context;
  ShardStatus status;
  MILLRACE_RETURN_IF_ERROR(FromGrpcStatus(ParameterServerAdmin::NewStub(CreateChannel(address))
                                              ->CreateShard(&context, request, &status)));
  Routing routing;
  routing.set_generation(request.generation());
  ShardRoute* shard = routing.add_shards();
  shard->set_server("ps");
  shard->set_address(address);
  *shard->add_slices() = request.spec().slices(0).slice();
  worker::ParameterClientOptions options;
  options.connections_per_server = connections;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ParameterClient> client,
                            ParameterClient::Create(job_id, {elements}, routing, options));
  return std::unique_ptr<OneVariableJob>(new OneVariableJob(std::move(client), elements));
}

// Does `work` and records how much of it there is in a second.
absl::Status Record(double amount, const std::function<absl::Status()>& work,
                    std::vector<double>* rates) {
  const absl::Time start = Clock::Real()->Now();
  MILLRACE_RETURN_IF_ERROR(work());
  rates->push_back(amount / absl::ToDoubleSeconds(Clock::Real()->Now() - start));
  return absl::OkStatus();
}

absl::Status PullAndPush(OneVariableJob* job, int times) {
  for (int i = 0; i < times; ++i) {
    MILLRACE_RETURN_IF_ERROR(job->Pull());
    MILLRACE_RETURN_IF_ERROR(job->Push());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WireMeasurement> MeasureWire(const WireServerAddresses& server,
                                            const WireMeasurementOptions& options) {
  const double bytes = static_cast<double>(options.elements * sizeof(float));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto raw, RawTcpClient::Connect(server.raw_tcp_port, options.elements * sizeof(float)));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto large,
      OneVariableJob::Create("large", options.elements, server.ps, options.connections));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto small,
      OneVariableJob::Create("small", kSmallElements, server.ps, options.connections));
  WireMeasurement measured;
  for (int run = -options.warm_up_runs; run < options.runs; ++run) {
    if (run == 0) measured = WireMeasurement();
    MILLRACE_RETURN_IF_ERROR(Record(
        bytes, [&] { return raw->Send(); }, &measured.raw_send));
    MILLRACE_RETURN_IF_ERROR(Record(
        bytes, [&] { return large->Push(); }, &measured.push));
    MILLRACE_RETURN_IF_ERROR(Record(
        bytes, [&] { return raw->Receive(); }, &measured.raw_receive));
    MILLRACE_RETURN_IF_ERROR(Record(
        bytes, [&] { return large->Pull(); }, &measured.pull));
    MILLRACE_RETURN_IF_ERROR(Record(
        options.small_steps, [&] { return PullAndPush(small.get(), options.small_steps); },
        &measured.small_steps));
  }
  return measured;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double MedianRatio(const std::vector<double>& rates, const std::vector<double>& baseline) {
  std::vector<double> ratios;
  for (size_t i = 0; i < rates.size(); ++i) ratios.push_back(rates[i] / baseline[i]);
  return Median(std::move(ratios));
}

}  // namespace millrace::testing
