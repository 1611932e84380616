// Processes of a cluster, for benchmarks that start real binaries.
#ifndef MILLRACE_TESTING_BENCHMARKS_CLUSTER_PROCESS_H_
#define MILLRACE_TESTING_BENCHMARKS_CLUSTER_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace millrace::testing {

// A process that is killed with this object.
class ClusterProcess {
 public:
  // The binary's path, and what it is given. Ends this process where it cannot be started.
  explicit ClusterProcess(std::vector<std::string> arguments);
  ~ClusterProcess();

  ClusterProcess(const ClusterProcess&) = delete;
  ClusterProcess& operator=(const ClusterProcess&) = delete;

 private:
  pid_t pid_ = 0;
};

// "127.0.0.1:PORT", with a port that is free now, and will be a moment later.
std::string FreeLoopbackAddress();

// A directory that is not there yet.
std::string FreshDirectory(const std::string& name);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_CLUSTER_PROCESS_H_
