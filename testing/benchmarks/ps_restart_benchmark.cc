// How long a killed ps server takes from its start until it serves again: with everything in memory
// that outlived it, and from its cuts.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "common/status_macros.h"
#include "grpcpp/client_context.h"
#include "protos/parameter_server.grpc.pb.h"
#include "testing/benchmarks/wire_measurement.h"
#include "testing/benchmarks/wire_server.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::testing {
namespace {

constexpr char kJob[] = "restart";
constexpr absl::Duration kPatience = absl::Minutes(5);

struct Options {
  int mebibytes = 1024;  // Of values, in all shards together.
  int shards = 4;
  int runs = 5;
  std::string data_dir;  // Below it, one that is removed.
  std::string arena = "/dev/shm";
};

uint64_t ShardElements(const Options& options) {
  return (static_cast<uint64_t>(options.mebibytes) << 20) / sizeof(float) /
         static_cast<uint64_t>(options.shards);
}

class Server {
 public:
  Server(const Options& options, std::string data_dir)
      : options_(options), data_dir_(std::move(data_dir)) {}

  // Starts the server and returns how long it took until it served.
  absl::StatusOr<absl::Duration> Start(bool with_arena) {
    const absl::Time begin = Clock::Real()->Now();
    MILLRACE_ASSIGN_OR_RETURN(
        process_,
        WireServerProcess::Start({absl::StrCat("--data_dir=", data_dir_),
                                  absl::StrCat("--arena=", with_arena ? options_.arena : "off")}));
    const absl::Duration took = Clock::Real()->Now() - begin;
    stub_ = ParameterServerAdmin::NewStub(CreateChannel(process_->addresses().ps));
    return took;
  }

  void Kill() { process_->Kill(); }

  absl::Status Create() {
    for (int i = 0; i < options_.shards; ++i) {
      CreateShardRequest request;
      request.set_generation(1);
      ShardSpec& spec = *request.mutable_spec();
      spec.set_job_id(kJob);
      spec.set_shard(static_cast<uint32_t>(i));
      spec.set_total_steps(1000);
      spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.25);
      spec.mutable_cut_period()->set_seconds(24 * 3600);
      ShardSlice& slice = *spec.add_slices();
      slice.set_variable_name("variable");
      slice.mutable_initial_value()->set_constant(1);
      slice.mutable_slice()->set_offset(static_cast<uint64_t>(i) * ShardElements(options_));
      slice.mutable_slice()->set_length(ShardElements(options_));
      grpc::ClientContext context;
      ShardStatus status;
      MILLRACE_RETURN_IF_ERROR(FromGrpcStatus(stub_->CreateShard(&context, request, &status)));
    }
    return absl::OkStatus();
  }

  // Applies a step to every shard.
  absl::Status Push(uint64_t generation, uint64_t step) {
    Routing routing;
    routing.set_generation(generation);
    const uint64_t elements = ShardElements(options_);
    for (int i = 0; i < options_.shards; ++i) {
      ShardRoute& shard = *routing.add_shards();
      shard.set_shard(static_cast<uint32_t>(i));
      shard.set_server("ps");
      shard.set_address(process_->addresses().ps);
      Slice& slice = *shard.add_slices();
      slice.set_offset(static_cast<uint64_t>(i) * elements);
      slice.set_length(elements);
    }
    const uint64_t total = elements * static_cast<uint64_t>(options_.shards);
    MILLRACE_ASSIGN_OR_RETURN(const auto client,
                              worker::ParameterClient::Create(kJob, {total}, routing, {}));
    const auto gradient = std::make_shared<const std::vector<float>>(total, 0.5f);
    const auto push = client->StartPush(step, 1);
    push->Add(0, *gradient, gradient);
    push->Commit();
    return push->Wait(Clock::Real()->Now() + kPatience);
  }

  absl::Status Flush(uint64_t generation) {
    for (int i = 0; i < options_.shards; ++i) {
      FlushCutRequest request;
      request.set_job_id(kJob);
      request.set_shard(static_cast<uint32_t>(i));
      request.set_generation(generation);
      grpc::ClientContext context;
      ShardStatus status;
      MILLRACE_RETURN_IF_ERROR(FromGrpcStatus(stub_->FlushCut(&context, request, &status)));
    }
    return absl::OkStatus();
  }

  // INTERNAL: a shard came back otherwise.
  absl::Status Check(ShardStatus::Origin origin, uint64_t version) {
    for (int i = 0; i < options_.shards; ++i) {
      GetShardRequest request;
      request.set_job_id(kJob);
      request.set_shard(static_cast<uint32_t>(i));
      grpc::ClientContext context;
      ShardStatus status;
      MILLRACE_RETURN_IF_ERROR(FromGrpcStatus(stub_->GetShard(&context, request, &status)));
      if (status.origin() != origin || status.version() != version) {
        return absl::InternalError(absl::StrCat("not as expected: ", status.ShortDebugString()));
      }
    }
    return absl::OkStatus();
  }

 private:
  const Options& options_;
  const std::string data_dir_;
  std::unique_ptr<WireServerProcess> process_;
  std::unique_ptr<ParameterServerAdmin::Stub> stub_;
};

void Print(const char* name, const std::vector<double>& seconds) {
  absl::PrintF("%-16s median %.3f s, %.3f to %.3f s\n", name, Median(seconds),
               *std::min_element(seconds.begin(), seconds.end()),
               *std::max_element(seconds.begin(), seconds.end()));
}

absl::Status Measure(const Options& options, const std::string& data_dir) {
  Server server(options, data_dir);
  MILLRACE_RETURN_IF_ERROR(server.Start(/*with_arena=*/true).status());
  MILLRACE_RETURN_IF_ERROR(server.Create());
  std::vector<double> seconds;
  for (int run = 0; run < options.runs; ++run) {
    const auto version = static_cast<uint64_t>(run) + 1;
    MILLRACE_RETURN_IF_ERROR(server.Push(/*generation=*/1, /*step=*/version));
    server.Kill();
    MILLRACE_ASSIGN_OR_RETURN(const absl::Duration took, server.Start(/*with_arena=*/true));
    MILLRACE_RETURN_IF_ERROR(server.Check(ShardStatus::ARENA, version));
    seconds.push_back(absl::ToDoubleSeconds(took));
  }
  Print("from memory", seconds);
  MILLRACE_RETURN_IF_ERROR(server.Flush(/*generation=*/1));
  seconds.clear();
  for (int run = 0; run < options.runs; ++run) {
    server.Kill();
    MILLRACE_ASSIGN_OR_RETURN(const absl::Duration took, server.Start(/*with_arena=*/false));
    MILLRACE_RETURN_IF_ERROR(server.Check(ShardStatus::CUT, static_cast<uint64_t>(options.runs)));
    seconds.push_back(absl::ToDoubleSeconds(took));
  }
  Print("from its cuts", seconds);
  return absl::OkStatus();
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "ps_restart_benchmark: %s\n", status.ToString());
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures how long a killed ps server takes until it serves again.");
  Options options;
  options.data_dir = std::filesystem::temp_directory_path().string();
  bool serve = false;
  app.add_option("--size_mib", options.mebibytes, "Size of the values")
      ->check(CLI::Range(4, 1 << 20));
  app.add_option("--shards", options.shards, "Shards that they are in")->check(CLI::Range(1, 1000));
  app.add_option("--runs", options.runs, "Kills of each kind")->check(CLI::Range(1, 900));
  app.add_option("--data_dir", options.data_dir,
                 "Where cuts are written, in a directory of its own");
  app.add_option("--arena", options.arena, "Where the memory is that outlives the server");
  app.add_flag("--serve", serve, "Be the server process (started by the other one)");
  CLI11_PARSE(app, argc, argv);
  if (serve) {
    return Report(ServeWire(
        {.data_dir = options.data_dir, .arena = options.arena == "off" ? "" : options.arena}));
  }
  const std::string data_dir = options.data_dir + "/ps_restart_benchmark.data";
  std::filesystem::remove_all(data_dir);
  const absl::Status status = Measure(options, data_dir);
  std::filesystem::remove_all(data_dir);
  return Report(status);
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) {
  millrace::ConfigureGrpcEnvironment();
  return millrace::testing::Main(argc, argv);
}
