// How long a shard takes from one ps server to another, which its job stands still for: beside as
// many bytes over plain TCP, and beside a plain file of that size.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
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
#include "common/proto_duration.h"
#include "common/status_macros.h"
#include "grpcpp/client_context.h"
#include "protos/parameter_server.grpc.pb.h"
#include "testing/benchmarks/raw_tcp.h"
#include "testing/benchmarks/wire_measurement.h"
#include "testing/benchmarks/wire_server.h"

namespace millrace::testing {
namespace {

constexpr char kJob[] = "move";

struct Options {
  int mebibytes = 1024;  // Of values; Adam has as much again for each of its two slots.
  int runs = 5;
  bool adam = false;
  std::string data_dir;  // Below it, one that is removed.
  std::string arena = "/dev/shm";
};

uint64_t Bytes(const Options& options) {
  return (static_cast<uint64_t>(options.mebibytes) << 20) * (options.adam ? 3 : 1);
}

struct Server {
  std::unique_ptr<WireServerProcess> process;
  std::unique_ptr<ParameterServerAdmin::Stub> stub;
};

absl::StatusOr<Server> StartServer(const Options& options, const std::string& data_dir) {
  Server server;
  MILLRACE_ASSIGN_OR_RETURN(server.process,
                            WireServerProcess::Start({absl::StrCat("--data_dir=", data_dir),
                                                      absl::StrCat("--arena=", options.arena)}));
  server.stub = ParameterServerAdmin::NewStub(CreateChannel(server.process->addresses().ps));
  return server;
}

absl::Status Create(const Options& options, const Server& server) {
  CreateShardRequest request;
  request.set_generation(1);
  ShardSpec& spec = *request.mutable_spec();
  spec.set_job_id(kJob);
  spec.set_total_steps(1000);
  if (options.adam) {
    spec.mutable_optimizer()->mutable_adam()->set_learning_rate(0.001);
  } else {
    spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.25);
  }
  ShardSlice& slice = *spec.add_slices();
  slice.set_variable_name("variable");
  slice.mutable_initial_value()->mutable_uniform()->set_high(1);
  slice.mutable_slice()->set_length((static_cast<uint64_t>(options.mebibytes) << 20) /
                                    sizeof(float));
  grpc::ClientContext context;
  ShardStatus status;
  return FromGrpcStatus(server.stub->CreateShard(&context, request, &status));
}

// Of one run, in seconds.
struct Times {
  double move = 0;
  double reading = 0;  // The part of it in which the bytes came; the rest is the first cut.
  double raw_tcp = 0;
  double file = 0;
};

// The shard goes over, and the one that is left is dropped.
absl::Status Move(const Server& from, const Server& to, uint64_t generation, Times& times) {
  CopyShardRequest request;
  request.set_job_id(kJob);
  request.set_generation(generation + 1);
  request.set_source_generation(generation);
  request.set_source_address(from.process->addresses().ps);
  const absl::Time begin = Clock::Real()->Now();
  grpc::ClientContext copying;
  ShardStatus status;
  MILLRACE_RETURN_IF_ERROR(FromGrpcStatus(to.stub->CopyShard(&copying, request, &status)));
  times.move = absl::ToDoubleSeconds(Clock::Real()->Now() - begin);
  times.reading = absl::ToDoubleSeconds(FromProto(status.load()));
  DropShardRequest drop;
  drop.set_job_id(kJob);
  drop.set_generation(generation);
  grpc::ClientContext dropping;
  DropShardResponse dropped;
  return FromGrpcStatus(from.stub->DropShard(&dropping, drop, &dropped));
}

absl::StatusOr<double> TimeRawTcp(RawTcpClient& client) {
  const absl::Time begin = Clock::Real()->Now();
  MILLRACE_RETURN_IF_ERROR(client.Send());
  return absl::ToDoubleSeconds(Clock::Real()->Now() - begin);
}

// Writes and syncs so many bytes, and removes them.
absl::StatusOr<double> TimeFile(const std::string& path, uint64_t bytes) {
  const std::string piece(size_t{8} << 20, 'x');
  const absl::Time begin = Clock::Real()->Now();
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  absl::Status status;
  for (uint64_t written = 0; status.ok() && written < bytes;) {
    const size_t wanted = std::min<uint64_t>(piece.size(), bytes - written);
    const ssize_t done = write(file, piece.data(), wanted);
    if (done <= 0) status = absl::ErrnoToStatus(errno, path);
    written += done > 0 ? static_cast<uint64_t>(done) : 0;
  }
  if (status.ok() && fsync(file) != 0) status = absl::ErrnoToStatus(errno, path);
  close(file);
  const double seconds = absl::ToDoubleSeconds(Clock::Real()->Now() - begin);
  unlink(path.c_str());
  MILLRACE_RETURN_IF_ERROR(status);
  return seconds;
}

void Print(const char* name, const std::vector<Times>& all, double Times::*time) {
  std::vector<double> seconds;
  std::vector<double> ratios;
  for (const Times& times : all) {
    seconds.push_back(times.*time);
    ratios.push_back(times.*time / times.raw_tcp);
  }
  absl::PrintF("%-12s median %.3f s, %.3f to %.3f s, %.2f of plain TCP's\n", name, Median(seconds),
               *std::min_element(seconds.begin(), seconds.end()),
               *std::max_element(seconds.begin(), seconds.end()), Median(ratios));
}

absl::Status Measure(const Options& options, const std::string& data_dir) {
  std::array<Server, 2> servers;
  for (size_t i = 0; i < servers.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(servers[i], StartServer(options, absl::StrCat(data_dir, "/ps-", i)));
  }
  MILLRACE_RETURN_IF_ERROR(Create(options, servers[0]));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto raw_tcp,
      RawTcpClient::Connect(servers[0].process->addresses().raw_tcp_port, Bytes(options)));
  std::vector<Times> all;
  for (int run = 0; run < options.runs; ++run) {
    Times times;
    const auto from = static_cast<size_t>(run % 2);
    MILLRACE_RETURN_IF_ERROR(
        Move(servers[from], servers[1 - from], static_cast<uint64_t>(run) + 1, times));
    MILLRACE_ASSIGN_OR_RETURN(times.raw_tcp, TimeRawTcp(*raw_tcp));
    MILLRACE_ASSIGN_OR_RETURN(times.file, TimeFile(data_dir + "/plain", Bytes(options)));
    all.push_back(times);
  }
  Print("move", all, &Times::move);
  Print("its reading", all, &Times::reading);
  Print("plain TCP", all, &Times::raw_tcp);
  Print("plain file", all, &Times::file);
  return absl::OkStatus();
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "move_benchmark: %s\n", status.ToString());
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures how long a shard takes from one ps server to another.");
  Options options;
  options.data_dir = std::filesystem::temp_directory_path().string();
  bool serve = false;
  app.add_option("--size_mib", options.mebibytes, "Size of the values")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--adam", options.adam, "With two slots beside them");
  app.add_option("--runs", options.runs, "Moves, back and forth")->check(CLI::Range(1, 900));
  app.add_option("--data_dir", options.data_dir,
                 "Where cuts are written, in a directory of its own");
  app.add_option("--arena", options.arena, "Where the memory is that outlives the servers");
  app.add_flag("--serve", serve, "Be a server process (started by the other one)");
  CLI11_PARSE(app, argc, argv);
  if (serve) return Report(ServeWire({.data_dir = options.data_dir, .arena = options.arena}));
  const std::string data_dir = options.data_dir + "/move_benchmark.data";
  std::filesystem::remove_all(data_dir);
  std::filesystem::create_directories(data_dir);
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
