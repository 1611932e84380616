// The other process of the wire benchmark.
#ifndef MILLRACE_TESTING_BENCHMARKS_WIRE_SERVER_H_
#define MILLRACE_TESTING_BENCHMARKS_WIRE_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::testing {

struct WireServerAddresses {
  std::string ps;  // HOST:PORT.
  int raw_tcp_port = 0;
};

// Serves until standard input ends. Writes the addresses to standard output when it is ready. The
// ps server's data directory is removed at the end.
absl::Status ServeWire();

// A process running ServeWire: this program, started again with `--serve`.
class WireServerProcess {
 public:
  // Waits until it serves.
  static absl::StatusOr<std::unique_ptr<WireServerProcess>> Start();

  // Ends it, and waits for that.
  ~WireServerProcess();

  const WireServerAddresses& addresses() const { return addresses_; }

 private:
  WireServerProcess(int process, int input, WireServerAddresses addresses);

  const int process_;
  const int input_;  // The process ends when this is closed.
  const WireServerAddresses addresses_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_WIRE_SERVER_H_
