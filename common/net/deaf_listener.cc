// gRPC tells nobody that a listener is deaf, but for one line of its log, an error
// (src/core/lib/iomgr/tcp_server_posix.cc). So the log is where we hear of it.
#include "common/net/deaf_listener.h"

#include <sys/resource.h>

#include <mutex>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/process.h"
#include "glog/logging.h"
#include "grpc/support/log.h"

namespace millrace {
namespace {

constexpr absl::string_view kDeaf = "Failed accept4:";
constexpr absl::string_view kOutOfFiles = "Too many open files";
constexpr int kHandshakesSeconds = 10;

// Empty where files are not what it lacks.
std::string WhyOutOfFiles(absl::string_view message) {
  struct rlimit limit = {};
  if (!absl::StrContains(message, kOutOfFiles)) return "";
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return absl::StrCat("; the process has run out of open files: ", limit.rlim_cur,
                      " can be open, and each connection needs one; allow more (ulimit -n, or "
                      "LimitNOFILE= of a systemd unit)");
}

void EndIfDeaf(gpr_log_func_args* line) {
  const absl::string_view message = line->message;
  if (!absl::StartsWith(message, kDeaf)) return;
  LOG(ERROR) << "gRPC accepts no further connections (" << message << ")" << WhyOutOfFiles(message)
             << "; the process ends: start it again";
  EndProcess(/*exit_status=*/1);
}

// One line of many: whoever is refused comes again, at once and as often as they like.
bool IsOfHandshake(const gpr_log_func_args& line) {
  return line.severity == GPR_LOG_SEVERITY_ERROR &&
         (absl::StrContains(line.file, "ssl_transport_security") ||
          absl::StrContains(line.file, "ssl_utils"));
}

// Said of connections that come about, too.
bool IsOfTheDialledName(absl::string_view message) {
  return absl::StartsWith(message, "No match found for server name") ||
         absl::StartsWith(message, "Invalid toplevel subdomain");
}

void LogAndEndIfDeaf(gpr_log_func_args* line) {
  if (IsOfHandshake(*line)) {
    if (IsOfTheDialledName(line->message)) return;
    LOG_EVERY_T(WARNING, kHandshakesSeconds)
        << "connections fail, to this process or of its own, for what TLS finds (told once in "
        << kHandshakesSeconds << " s): " << line->message;
    return;
  }
  const google::LogSeverity severity =
      line->severity == GPR_LOG_SEVERITY_ERROR ? google::GLOG_ERROR : google::GLOG_INFO;
  google::LogMessage(line->file, line->line, severity).stream() << line->message;
  EndIfDeaf(line);
}

void ListenToTheLog() {
  gpr_log_verbosity_init();
  if (gpr_should_log(GPR_LOG_SEVERITY_ERROR) != 0) {
    gpr_set_log_function(LogAndEndIfDeaf);
  } else {
    gpr_set_log_function(EndIfDeaf);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // The function alone says nothing.
  }
}

}  // namespace

void EndProcessWhenDeaf() {
  static std::once_flag once;
  std::call_once(once, ListenToTheLog);
}

}  // namespace millrace
