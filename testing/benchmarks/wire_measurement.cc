#include "testing/benchmarks/wire_measurement.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "grpcpp/client_context.h"
#include "protos/parameter_server.grpc.pb.h"
#include "testing/benchmarks/bare_grpc.h"
#include "testing/benchmarks/raw_tcp.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::testing {
namespace {

using worker::ParameterClient;

constexpr size_t kSmallElements = 1024;
constexpr absl::Duration kPatience = absl::Minutes(1);

// A job of one variable in one shard, and one of its workers' clients.
class OneVariableJob {
 public:
  static absl::StatusOr<std::unique_ptr<OneVariableJob>> Create(const std::string& job_id,
                                                                size_t elements,
                                                                const std::string& address,
                                                                int connections);

  // The same job; this client takes each `stride`-th step from `first_step` on.
  static absl::StatusOr<std::unique_ptr<OneVariableJob>> Join(const std::string& job_id,
                                                              size_t elements,
                                                              const std::string& address,
                                                              int connections, uint64_t first_step,
                                                              uint64_t stride);

  absl::Status Push() {
    const auto push = client_->StartPush(std::exchange(next_step_, next_step_ + stride_), 1);
    push->Add(0, Encoded(), gradient_);
    push->Commit();
    return push->Wait(Clock::Real()->Now() + kPatience);
  }

  absl::Status Pull() {
    ParameterClient::PullOptions options;
    options.deadline = Clock::Real()->Now() + kPatience;
    options.encoding = encoding_;
    const absl::Span<float> values = absl::MakeSpan(values_);
    return client_->Pull(options, absl::MakeConstSpan(&values, 1));
  }

  void Encode(Encoding::Kind encoding) { encoding_ = encoding; }

 private:
  // The gradient as a worker pushes it: rounding is a part of that.
  EncodedNumbers Encoded() {
    if (encoding_ == Encoding::FLOAT32) return *gradient_;
    encoded_.resize(gradient_->size() * WidthOf(encoding_));
    CHECK_EQ(NarrowFinite(*gradient_, encoding_, encoded_.data()), gradient_->size());
    return EncodedNumbers(encoding_, encoded_.data(), gradient_->size());
  }

  OneVariableJob(std::unique_ptr<ParameterClient> client, size_t elements, uint64_t first_step,
                 uint64_t stride)
      : client_(std::move(client)),
        gradient_(std::make_shared<const std::vector<float>>(elements, 0.5f)),
        values_(elements),
        stride_(stride),
        next_step_(first_step) {}

  const std::unique_ptr<ParameterClient> client_;
  const std::shared_ptr<const std::vector<float>> gradient_;
  std::vector<float> values_;
  const uint64_t stride_;
  uint64_t next_step_;
  Encoding::Kind encoding_ = Encoding::FLOAT32;
  std::vector<char> encoded_;
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
  grpc::ClientContext context;
  ShardStatus status;
  MILLRACE_RETURN_IF_ERROR(
      FromGrpcStatus(ParameterServerAdmin::NewStub(CreateChannel(address))
                         ->CreateShard(&context, MakeShard(job_id, elements), &status)));
  return Join(job_id, elements, address, connections, /*first_step=*/0, /*stride=*/1);
}

absl::StatusOr<std::unique_ptr<OneVariableJob>> OneVariableJob::Join(
    const std::string& job_id, size_t elements, const std::string& address, int connections,
    uint64_t first_step, uint64_t stride) {
  const CreateShardRequest made = MakeShard(job_id, elements);
  Routing routing;
  routing.set_generation(made.generation());
  ShardRoute* shard = routing.add_shards();
  shard->set_server("ps");
  shard->set_address(address);
  *shard->add_slices() = made.spec().slices(0).slice();
  worker::ParameterClientOptions options;
  options.connections_per_server = connections;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ParameterClient> client,
                            ParameterClient::Create(job_id, {elements}, routing, options));
  return std::unique_ptr<OneVariableJob>(
      new OneVariableJob(std::move(client), elements, first_step, stride));
}

// Does `work` and records how much of it there is in a second.
absl::Status Record(double amount, const std::function<absl::Status()>& work,
                    std::vector<double>* rates) {
  const absl::Time start = Clock::Real()->Now();
  MILLRACE_RETURN_IF_ERROR(work());
  rates->push_back(amount / absl::ToDoubleSeconds(Clock::Real()->Now() - start));
  return absl::OkStatus();
}

// Of each of `clients`, at the same time, as many as there are to do for each.
template <typename Client, typename Work>
absl::Status Together(const std::vector<std::unique_ptr<Client>>& clients, int times,
                      const Work& work) {
  std::vector<absl::Status> results(clients.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int done = 0; done < times && results[i].ok(); ++done) results[i] = work(*clients[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) MILLRACE_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

absl::Status PullAndPush(OneVariableJob& job) {
  MILLRACE_RETURN_IF_ERROR(job.Pull());
  return job.Push();
}

// Small steps, of one worker and of several, and the same by gRPC alone.
class SmallSteps {
 public:
  static absl::StatusOr<std::unique_ptr<SmallSteps>> Create(const WireServerAddresses& server,
                                                            const WireMeasurementOptions& options) {
    auto small = std::make_unique<SmallSteps>();
    small->times_ = options.small_steps;
    small->one_.emplace_back();
    MILLRACE_ASSIGN_OR_RETURN(
        small->one_[0],
        OneVariableJob::Create("small", kSmallElements, server.ps, options.connections));
    MILLRACE_ASSIGN_OR_RETURN(
        const auto made,
        OneVariableJob::Create("of_many", kSmallElements, server.ps, options.connections));
    small->bare_one_.push_back(std::make_unique<BareGrpcClient>(server.bare_grpc));
    for (int i = 0; i < options.workers; ++i) {
      small->many_.emplace_back();
      MILLRACE_ASSIGN_OR_RETURN(
          small->many_.back(),
          OneVariableJob::Join("of_many", kSmallElements, server.ps, options.connections,
                               static_cast<uint64_t>(i), static_cast<uint64_t>(options.workers)));
      small->bare_many_.push_back(std::make_unique<BareGrpcClient>(server.bare_grpc));
    }
    return small;
  }

  absl::Status Measure(WireMeasurement* measured) {
    const double one = times_;
    const double many = one * static_cast<double>(many_.size());
    const auto bare = [](BareGrpcClient& client) { return client.PullAndPush(); };
    MILLRACE_RETURN_IF_ERROR(Record(
        one, [&] { return Together(bare_one_, times_, bare); }, &measured->bare_grpc));
    MILLRACE_RETURN_IF_ERROR(Record(
        one, [&] { return Together(one_, times_, PullAndPush); }, &measured->small_steps));
    MILLRACE_RETURN_IF_ERROR(Record(
        many, [&] { return Together(bare_many_, times_, bare); }, &measured->bare_grpc_of_many));
    return Record(
        many, [&] { return Together(many_, times_, PullAndPush); }, &measured->small_steps_of_many);
  }

 private:
  int times_ = 0;
  std::vector<std::unique_ptr<OneVariableJob>> one_;
  std::vector<std::unique_ptr<OneVariableJob>> many_;
  std::vector<std::unique_ptr<BareGrpcClient>> bare_one_;
  std::vector<std::unique_ptr<BareGrpcClient>> bare_many_;
};

}  // namespace

absl::StatusOr<WireMeasurement> MeasureWire(const WireServerAddresses& server,
                                            const WireMeasurementOptions& options) {
  const double bytes = static_cast<double>(options.elements * sizeof(float));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto raw, RawTcpClient::Connect(server.raw_tcp_port, options.elements * sizeof(float)));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto large,
      OneVariableJob::Create("large", options.elements, server.ps, options.connections));
  large->Encode(options.encoding);
  MILLRACE_ASSIGN_OR_RETURN(const auto small, SmallSteps::Create(server, options));
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
    MILLRACE_RETURN_IF_ERROR(small->Measure(&measured));
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
