// A TCP relay on loopback, for tests of connections that go dead without a word.
#ifndef MILLRACE_WORKER_PARAMETERS_RELAY_H_
#define MILLRACE_WORKER_PARAMETERS_RELAY_H_

#include <list>
#include <string>
#include <thread>

#include "common/mutex.h"

namespace millrace::testing {

// Passes on what comes on its connections to a server, and back. Thread-safe.
class Relay {
 public:
  // To a server on loopback, 127.0.0.1:PORT. Stops the test where that cannot be.
  explicit Relay(const std::string& target);
  // Closes all connections.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const std::string& address() const { return address_; }

  // What connections there are stay open, and nothing passes on them any more.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Link {
    int client = -1;
    int server = -1;
    bool held = false;
    std::thread to_server;
    std::thread to_client;
  };

  void Accept() ABSL_LOCKS_EXCLUDED(mutex_);
  void PassOn(const Link* link, int from, int to) ABSL_LOCKS_EXCLUDED(mutex_);

  const int server_port_;
  int listener_ = -1;
  std::string address_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Link> links_ ABSL_GUARDED_BY(mutex_);
  std::thread accept_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_WORKER_PARAMETERS_RELAY_H_
