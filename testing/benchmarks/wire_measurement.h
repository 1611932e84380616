// How fast values travel between a worker and a ps server, beside what plain TCP does.
#ifndef MILLRACE_TESTING_BENCHMARKS_WIRE_MEASUREMENT_H_
#define MILLRACE_TESTING_BENCHMARKS_WIRE_MEASUREMENT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/encoding.h"
#include "testing/benchmarks/wire_server.h"

namespace millrace::testing {

struct WireMeasurementOptions {
  size_t elements = size_t{16} << 20;  // Of the large variable.
  int warm_up_runs = 10;               // Not counted: until buffers are reused rather than made.
  int runs = 31;                       // Of each kind, interleaved.
  int small_steps = 3000;              // Pulls and pushes of 1024 elements, in turn.
  int connections = 4;
  // How the large variable and its gradient travel.
  Encoding::Kind encoding = Encoding::FLOAT32;
  int workers = 4;  // That do small steps at the same time.
};

// Bytes (of small steps: pulls and pushes) per second, one for each run. A number of the large
// variable counts as four, whatever it travels as: so encodings can be compared.
struct WireMeasurement {
  std::vector<double> raw_send;
  std::vector<double> raw_receive;
  std::vector<double> push;
  std::vector<double> pull;
  std::vector<double> small_steps;          // Of one worker, one after the other.
  std::vector<double> small_steps_of_many;  // Of several workers of the same job together.
  std::vector<double> bare_grpc;            // As many bytes both ways by gRPC alone: one client,
  std::vector<double> bare_grpc_of_many;    // and as many as there are workers.
};

// Blocks until all is measured.
absl::StatusOr<WireMeasurement> MeasureWire(const WireServerAddresses& server,
                                            const WireMeasurementOptions& options);

double Median(std::vector<double> values);

// Medians of `rates` and of the ratio to `baseline` in the same run.
double MedianRatio(const std::vector<double>& rates, const std::vector<double>& baseline);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_WIRE_MEASUREMENT_H_
