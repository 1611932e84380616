// What the machine's loopback can do: bytes over one plain TCP connection, nothing else.
#ifndef MILLRACE_TESTING_BENCHMARKS_RAW_TCP_H_
#define MILLRACE_TESTING_BENCHMARKS_RAW_TCP_H_

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::testing {

// Serves one connection: takes transfers and sends them, as RawTcpClient asks.
class RawTcpServer {
 public:
  // Listens on a free port of 127.0.0.1.
  static absl::StatusOr<std::unique_ptr<RawTcpServer>> Start();

  // Waits until the client, if there is one, has gone.
  ~RawTcpServer();

  int port() const { return port_; }

 private:
  RawTcpServer(int listener, int port);
  void Serve();

  const int listener_;
  const int port_;
  std::thread thread_;
};

// Transfers go from and to one buffer, 1 MiB a write.
class RawTcpClient {
 public:
  static absl::StatusOr<std::unique_ptr<RawTcpClient>> Connect(int port, size_t bytes);
  ~RawTcpClient();

  // Sends the buffer; returns when the server has said that it has all of it.
  absl::Status Send();
  // Asks for as many bytes; returns when they are in the buffer.
  absl::Status Receive();

 private:
  RawTcpClient(int socket, size_t bytes) : socket_(socket), buffer_(bytes, 'x') {}

  absl::Status Ask(char direction);

  const int socket_;
  std::vector<char> buffer_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_RAW_TCP_H_
