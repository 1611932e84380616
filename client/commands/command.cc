#include "client/commands/command.h"

#include <functional>
#include <ostream>
#include <string>
#include <utility>

#include "client/progress/json_lines.h"
#include "common/net/address.h"
#include "common/net/tls.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

std::function<void(const std::string&)> TellIn(ProgressView* view, std::ostream* err) {
  return [view, err](const std::string& message) {
    if (view != nullptr) return view->Note(message);
    *err << "millrace: " << Printable(message) << std::endl;
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobsClient>> Connect(const CommandContext& context,
                                                    ProgressView* view, absl::Duration timeout) {
  const absl::Status address = CheckDialable("--cluster", context.flags.cluster);
  if (!address.ok()) return UsageError(address.message());
  const absl::Status tls = CheckTlsOptions(context.flags.tls);
  if (!tls.ok()) return UsageError(tls.message());
  MILLRACE_RETURN_IF_ERROR(SecureConnections(context.flags.tls));
  JobsClientOptions options;
  options.address = context.flags.cluster;
  options.timeout = timeout;
  options.on_wait = TellIn(view, context.console.err);
  return JobsClient::Create(std::move(options));
}

Reading ReadingFor(const CommandContext& context, ProgressView* view) {
  return {context.interrupt, TellIn(view, context.console.err)};
}

void PrintError(const CommandContext& context, const absl::Status& error) {
  const std::string message = Printable(error.message());
  const std::string code = absl::StatusCodeToString(error.code());
  const bool usage = ExitCodeOf(error) == ExitCode::kUsage;
  *context.console.err << "millrace: " << (usage ? "" : code + ": ") << message << std::endl;
  if (usage) {
    *context.console.err << "Run `millrace " << context.flags.command
                         << " --help` for what it takes." << std::endl;
  }
}

void ReportError(const CommandContext& context, const absl::Status& error) {
  PrintError(context, error);
  if (!context.flags.json) return;
  const nlohmann::ordered_json json = {{"event", "error"},
                                       {"code", absl::StatusCodeToString(error.code())},
                                       {"message", std::string(error.message())}};
  *context.console.out << JsonLine(json) << std::flush;
}

}  // namespace millrace::client
