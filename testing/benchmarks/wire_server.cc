#include "testing/benchmarks/wire_server.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "ps/ps_server.h"
#include "testing/benchmarks/bare_grpc.h"
#include "testing/benchmarks/raw_tcp.h"

extern char** environ;

namespace millrace::testing {
namespace {

absl::Status Failure(absl::string_view operation, int error) {
  return absl::InternalError(absl::StrCat(operation, ": ", std::strerror(error)));
}

absl::StatusOr<std::string> MakeDirectory() {
  std::string path = (std::filesystem::temp_directory_path() / "wire_benchmark.XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) return Failure(absl::StrCat("mkdtemp ", path), errno);
  return path;
}

// "HOST:PORT HOST:PORT RAW_PORT\n"
absl::StatusOr<WireServerAddresses> ReadAddresses(int output) {
  std::string line;
  char c;
  while (read(output, &c, 1) == 1 && c != '\n') line.push_back(c);
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  WireServerAddresses addresses;
  if (words.size() != 3 || !absl::SimpleAtoi(words[2], &addresses.raw_tcp_port)) {
    return absl::InternalError("the server process has ended; see its messages");
  }
  addresses.ps = words[0];
  addresses.bare_grpc = words[1];
  return addresses;
}

}  // namespace

absl::Status ServeWire(const WireServerOptions& options) {
  std::string temporary;
  const absl::Cleanup remove = [&temporary] {
    std::error_code ignored;
    if (!temporary.empty()) std::filesystem::remove_all(temporary, ignored);
  };
  ps::PsServerOptions ps_options;
  ps_options.data_dir = options.data_dir;
  ps_options.arena = options.arena;
  if (ps_options.data_dir.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(temporary, MakeDirectory());
    ps_options.data_dir = temporary;
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto server, ps::PsServer::Start(ps_options));
  MILLRACE_ASSIGN_OR_RETURN(const auto raw_tcp, RawTcpServer::Start());
  MILLRACE_ASSIGN_OR_RETURN(const auto bare_grpc, BareGrpcServer::Start());
  std::printf("%s %s %d\n", server->address().c_str(), bare_grpc->address().c_str(),
              raw_tcp->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return server->Stop();
}

absl::StatusOr<std::unique_ptr<WireServerProcess>> WireServerProcess::Start(
    std::vector<std::string> flags) {
  int input[2];
  int output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) return Failure("pipe", errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  flags.insert(flags.begin(), {"benchmark", "--serve"});
  std::vector<char*> arguments;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  arguments.push_back(nullptr);
  pid_t process;
  const int error =
      posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  const absl::Cleanup close_output = [&output] { close(output[0]); };
  if (error != 0) {
    close(input[1]);
    return Failure("posix_spawn", error);
  }
  absl::StatusOr<WireServerAddresses> addresses = ReadAddresses(output[0]);
  std::unique_ptr<WireServerProcess> server(new WireServerProcess(
      process, input[1], addresses.ok() ? *addresses : WireServerAddresses()));
  if (!addresses.ok()) return addresses.status();
  return server;
}

WireServerProcess::WireServerProcess(int process, int input, WireServerAddresses addresses)
    : process_(process), input_(input), addresses_(std::move(addresses)) {}

void WireServerProcess::Kill() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = 0;
}

WireServerProcess::~WireServerProcess() {
  close(input_);
  if (process_ != 0) waitpid(process_, nullptr, 0);
}

}  // namespace millrace::testing
