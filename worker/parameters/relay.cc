#include "worker/parameters/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::testing {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int NewSocket() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  PCHECK(socket >= 0);
  return socket;
}

bool SendAll(int to, const char* bytes, ssize_t count) {
  while (count > 0) {
    const ssize_t sent = send(to, bytes, static_cast<size_t>(count), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= sent;
  }
  return true;
}

}  // namespace

Relay::Relay(const std::string& target)
    : server_port_(std::atoi(target.substr(target.rfind(':') + 1).c_str())),
      listener_(NewSocket()) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  PCHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  PCHECK(listen(listener_, SOMAXCONN) == 0);
  PCHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  accept_ = std::thread([this] { Accept(); });
}

Relay::~Relay() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  shutdown(listener_, SHUT_RDWR);
  accept_.join();
  close(listener_);
  std::list<Link> links;
  {
    MutexLock lock(&mutex_);
    links.swap(links_);
  }
  for (Link& link : links) {
    shutdown(link.client, SHUT_RDWR);
    shutdown(link.server, SHUT_RDWR);
    link.to_server.join();
    link.to_client.join();
    close(link.client);
    close(link.server);
  }
}

void Relay::Hold() {
  MutexLock lock(&mutex_);
  for (Link& link : links_) link.held = true;
}

void Relay::Accept() {
  for (;;) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = NewSocket();
    const sockaddr_in address = Loopback(server_port_);
    PCHECK(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    MutexLock lock(&mutex_);
    Link& link = links_.emplace_back();
    link.client = client;
    link.server = server;
    link.to_server = std::thread([=, this, &link] { PassOn(&link, client, server); });
    link.to_client = std::thread([=, this, &link] { PassOn(&link, server, client); });
  }
}

void Relay::PassOn(const Link* link, int from, int to) {
  std::array<char, 1 << 16> bytes;
  for (;;) {
    const ssize_t count = recv(from, bytes.data(), bytes.size(), 0);
    {
      MutexLock lock(&mutex_);
      while (link->held && !stopping_) changed_.Wait(&mutex_);
      if (stopping_) return;
    }
    if (count <= 0 || !SendAll(to, bytes.data(), count)) break;
  }
  shutdown(to, SHUT_WR);
}

}  // namespace millrace::testing
