// The other process of the wire benchmark.
#ifndef MILLRACE_TESTING_BENCHMARKS_WIRE_SERVER_H_
#define MILLRACE_TESTING_BENCHMARKS_WIRE_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::testing {

struct WireServerAddresses {
  std::string ps;         // HOST:PORT.
  std::string bare_grpc;  // HOST:PORT.
  int raw_tcp_port = 0;
};

struct WireServerOptions {
  std::string data_dir;  // Empty: one that is removed at the end.
  std::string arena;     // Of the ps server; see PsServerOptions.
};

// Serves until standard input ends. Writes the addresses to standard output when it is ready.
absl::Status ServeWire(const WireServerOptions& options);

// A process running ServeWire: this program, started again with `--serve` and further flags.
class WireServerProcess {
 public:
  // Waits until it serves.
  static absl::StatusOr<std::unique_ptr<WireServerProcess>> Start(std::vector<std::string> flags);

  // Ends it, and waits for that.
  ~WireServerProcess();

  // Ends it at once, with SIGKILL.
  void Kill();

  const WireServerAddresses& addresses() const { return addresses_; }
  int process() const { return process_; }  // 0: it was killed.

 private:
  WireServerProcess(int process, int input, WireServerAddresses addresses);

  int process_;      // 0: it was killed.
  const int input_;  // The process ends when this is closed.
  const WireServerAddresses addresses_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_WIRE_SERVER_H_
