// Measures pushes (with the SGD update applied) and pulls of a large variable between two
// processes, against plain TCP on the same machine at the same time, and small steps beside them.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "common/flags.h"
#include "common/net/channel.h"
#include "common/net/tls.h"
#include "common/wire/encoding.h"
#include "glog/logging.h"
#include "nlohmann/json.hpp"
#include "testing/benchmarks/wire_measurement.h"
#include "testing/benchmarks/wire_server.h"

namespace millrace::testing {
namespace {

constexpr double kGigabyte = 1e9;

void PrintRow(const char* name, const std::vector<double>& rates,
              const std::vector<double>& baseline) {
  absl::PrintF("%-12s %8.2f %8.2f\n", name, Median(rates) / kGigabyte,
               MedianRatio(rates, baseline));
}

void PrintSmallSteps(const std::string& who, const std::vector<double>& rates,
                     const std::vector<double>& bare) {
  absl::PrintF("small steps (pull and push 4 KiB) of %s: %.0f per second, %.2f of bare gRPC\n", who,
               Median(rates), MedianRatio(rates, bare));
}

void PrintTable(const WireMeasurement& measured, int workers) {
  absl::PrintF("%-12s %8s %8s\n", "", "GB/s", "of TCP");
  PrintRow("TCP send", measured.raw_send, measured.raw_send);
  PrintRow("push", measured.push, measured.raw_send);
  PrintRow("TCP receive", measured.raw_receive, measured.raw_receive);
  PrintRow("pull", measured.pull, measured.raw_receive);
  PrintSmallSteps("1 worker", measured.small_steps, measured.bare_grpc);
  PrintSmallSteps(absl::StrFormat("%d workers", workers), measured.small_steps_of_many,
                  measured.bare_grpc_of_many);
}

void PrintJson(const WireMeasurementOptions& options, const WireMeasurement& measured) {
  const nlohmann::json json = {
      {"bytes", options.elements * sizeof(float)},
      {"encoding", Encoding::Kind_Name(options.encoding)},
      {"bytes_on_the_wire", options.elements * WidthOf(options.encoding)},
      {"warm_up_runs", options.warm_up_runs},
      {"runs", options.runs},
      {"connections", options.connections},
      {"raw_send_bytes_per_second", Median(measured.raw_send)},
      {"raw_receive_bytes_per_second", Median(measured.raw_receive)},
      {"push_bytes_per_second", Median(measured.push)},
      {"push_to_raw", MedianRatio(measured.push, measured.raw_send)},
      {"pull_bytes_per_second", Median(measured.pull)},
      {"pull_to_raw", MedianRatio(measured.pull, measured.raw_receive)},
      {"small_steps_per_second", Median(measured.small_steps)},
      {"small_steps_to_bare_grpc", MedianRatio(measured.small_steps, measured.bare_grpc)},
      {"workers", options.workers},
      {"small_steps_of_many_per_second", Median(measured.small_steps_of_many)},
      {"small_steps_of_many_to_bare_grpc",
       MedianRatio(measured.small_steps_of_many, measured.bare_grpc_of_many)},
  };
  std::printf("%s\n", json.dump(2).c_str());
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "wire_benchmark: %s\n", status.ToString().c_str());
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures pushes and pulls against plain TCP.");
  WireMeasurementOptions options;
  size_t mebibytes = 64;
  bool json = false;
  bool serve = false;
  std::string arena;
  app.add_option("--size_mib", mebibytes, "Size of the large variable")->check(CLI::Range(1, 1024));
  app.add_option("--warm_up_runs", options.warm_up_runs, "Runs before those that count")
      ->check(CLI::Range(0, 1000));
  app.add_option("--runs", options.runs, "Runs of each kind")->check(CLI::Range(1, 1000));
  app.add_option("--small_steps", options.small_steps, "Small steps of a run")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--workers", options.workers, "Workers that do small steps together")
      ->check(CLI::Range(1, 64));
  app.add_option("--connections", options.connections, "Connections to the ps server")
      ->check(CLI::Range(1, 64));
  app.add_flag("--json", json, "Print JSON instead of a table");
  std::string wire = Encoding::Kind_Name(options.encoding);
  app.add_option("--wire", wire, "How the large variable travels")
      ->check(CLI::IsMember({"FLOAT32", "FLOAT16", "BFLOAT16"}));
  app.add_option("--arena", arena, "Memory file system for the server's blocks; default: none");
  TlsOptions tls;
  AddTlsFlags(app, &tls);
  app.add_flag("--serve", serve, "Be the server process (started by the other one)");
  CLI11_PARSE(app, argc, argv);
  if (const absl::Status status = SecureConnections(tls); !status.ok()) return Report(status);
  if (serve) return Report(ServeWire({.data_dir = "", .arena = arena}));
  CHECK(Encoding::Kind_Parse(wire, &options.encoding));
  options.elements = (mebibytes << 20) / sizeof(float);
  std::vector<std::string> flags;
  for (const auto& [name, value] : {std::pair("--arena=", &arena),
                                    {"--tls_ca=", &tls.ca},
                                    {"--tls_certificate=", &tls.certificate},
                                    {"--tls_key=", &tls.key}}) {
    if (!value->empty()) flags.push_back(name + *value);
  }
  const auto server = WireServerProcess::Start(flags);
  if (!server.ok()) return Report(server.status());
  const auto measured = MeasureWire((*server)->addresses(), options);
  if (!measured.ok()) return Report(measured.status());
  if (json) {
    PrintJson(options, *measured);
  } else {
    PrintTable(*measured, options.workers);
  }
  return 0;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) {
  millrace::ConfigureGrpcEnvironment();
  return millrace::testing::Main(argc, argv);
}
