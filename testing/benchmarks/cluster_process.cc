#include "testing/benchmarks/cluster_process.h"

#include <arpa/inet.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

extern char** environ;

namespace millrace::testing {

ClusterProcess::ClusterProcess(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  CHECK_EQ(posix_spawn(&pid_, pointers[0], nullptr, nullptr, pointers.data(), environ), 0)
      << arguments[0];
}

ClusterProcess::~ClusterProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string FreeLoopbackAddress() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  PCHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  PCHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(fd);
  return absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
}

std::string FreshDirectory(const std::string& name) {
  const std::string directory = absl::StrCat(std::filesystem::temp_directory_path().string(),
                                             "/millrace-", name, "-", getpid());
  std::filesystem::remove_all(directory);
  return directory;
}

}  // namespace millrace::testing
