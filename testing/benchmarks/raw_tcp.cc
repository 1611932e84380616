#include "testing/benchmarks/raw_tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::testing {
namespace {

constexpr size_t kWriteBytes = 1 << 20;

// A request: a direction and how many bytes. Transfers towards the server are answered by one byte.
struct Request {
  uint64_t bytes = 0;
  char direction = 0;
};
constexpr char kToServer = 'S';
constexpr char kToClient = 'R';

absl::Status Failure(const char* operation) {
  return absl::UnavailableError(absl::StrCat("raw TCP: ", operation, ": ", std::strerror(errno)));
}

absl::Status SendAll(int socket, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, from, std::min(bytes, kWriteBytes), MSG_NOSIGNAL);
    if (sent < 0) return Failure("send");
    from += sent;
    bytes -= sent;
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int socket, void* data, size_t bytes) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t received = recv(socket, to, bytes, 0);
    if (received < 0) return Failure("recv");
    if (received == 0) return absl::UnavailableError("raw TCP: the peer has closed the connection");
    to += received;
    bytes -= received;
  }
  return absl::OkStatus();
}

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void SetNoDelay(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RawTcpServer>> RawTcpServer::Start() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return Failure("socket");
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    const absl::Status status = Failure("listen");
    close(listener);
    return status;
  }
  return std::unique_ptr<RawTcpServer>(new RawTcpServer(listener, ntohs(address.sin_port)));
}

RawTcpServer::RawTcpServer(int listener, int port)
    : listener_(listener), port_(port), thread_([this] { Serve(); }) {}

RawTcpServer::~RawTcpServer() {
  shutdown(listener_, SHUT_RDWR);  // Wakes a thread that waits for a connection.
  thread_.join();
  close(listener_);
}

void RawTcpServer::Serve() {
  const int connection = accept(listener_, nullptr, nullptr);
  if (connection < 0) return;
  SetNoDelay(connection);
  std::vector<char> buffer;
  Request request;
  while (ReceiveAll(connection, &request, sizeof(request)).ok()) {
    buffer.resize(request.bytes);
    const absl::Status status = request.direction == kToServer
                                    ? ReceiveAll(connection, buffer.data(), buffer.size())
                                    : SendAll(connection, buffer.data(), buffer.size());
    const char done = 1;
    if (!status.ok()) break;
    if (request.direction == kToServer && !SendAll(connection, &done, 1).ok()) break;
  }
  close(connection);
}

absl::StatusOr<std::unique_ptr<RawTcpClient>> RawTcpClient::Connect(int port, size_t bytes) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return Failure("socket");
  const sockaddr_in address = Loopback(port);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const absl::Status status = Failure("connect");
    close(connection);
    return status;
  }
  SetNoDelay(connection);
  return std::unique_ptr<RawTcpClient>(new RawTcpClient(connection, bytes));
}

RawTcpClient::~RawTcpClient() { close(socket_); }

absl::Status RawTcpClient::Ask(char direction) {
  const Request request = {buffer_.size(), direction};
  return SendAll(socket_, &request, sizeof(request));
}

absl::Status RawTcpClient::Send() {
  MILLRACE_RETURN_IF_ERROR(Ask(kToServer));
  MILLRACE_RETURN_IF_ERROR(SendAll(socket_, buffer_.data(), buffer_.size()));
  char done;
  return ReceiveAll(socket_, &done, 1);
}

absl::Status RawTcpClient::Receive() {
  MILLRACE_RETURN_IF_ERROR(Ask(kToClient));
  return ReceiveAll(socket_, buffer_.data(), buffer_.size());
}

}  // namespace millrace::testing
