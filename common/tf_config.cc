#include "common/tf_config.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/net/address.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace {
namespace {

using Json = ::nlohmann::json;

// A value for messages. Lists and objects are only named: Json::dump() calls itself for each level.
std::string Text(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/false,
                    Json::error_handler_t::replace);
}

absl::Status Error(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("TF_CONFIG", path, ": ", what));
}

// A member of an object, or null where there is none. REQUIRES: `object` is an object or null.
const Json& Member(const Json& object, const char* name) {
  static const Json* const null = new Json;
  const auto member = object.find(name);
  return member == object.end() ? *null : *member;
}

// The addresses of one kind of task; none where `list` is null.
absl::StatusOr<std::vector<std::string>> ParseAddresses(const Json& list, absl::string_view path) {
  std::vector<std::string> addresses;
  if (list.is_null()) return addresses;
  if (!list.is_array()) {
    return Error(path, absl::StrCat(Text(list), "; must be a list of \"HOST:PORT\""));
  }
  for (const Json& element : list) {
    const std::string element_path = absl::StrCat(path, "[", addresses.size(), "]");
    const std::string* const address = element.get_ptr<const std::string*>();
    if (address == nullptr || !CheckDialable(element_path, *address).ok()) {
      return Error(element_path, absl::StrCat(Text(element),
                                              "; must be \"HOST:PORT\" with a port from 1 to "
                                              "65535"));
    }
    addresses.push_back(*address);
  }
  return addresses;
}

absl::StatusOr<std::string> ParseCoordinator(const Json& cluster) {
  const char* const name = cluster.contains("chief") ? "chief" : "master";
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> addresses,
                            ParseAddresses(Member(cluster, name), absl::StrCat(".cluster.", name)));
  if (addresses.size() == 1) return std::move(addresses[0]);
  return Error(".cluster.chief",
               absl::StrCat(addresses.size(), " addresses; must be one, the coordinator's"));
}

absl::StatusOr<int> ParseIndex(const Json& index, size_t tasks, absl::string_view noun) {
  // TensorFlow's own tools write numbers, some others strings of digits.
  const std::string* const text = index.get_ptr<const std::string*>();
  uint32_t value = 0;
  if ((!index.is_number_integer() && text == nullptr) ||
      !absl::SimpleAtoi(text == nullptr ? Text(index) : *text, &value)) {
    return Error(".task.index", absl::StrCat(Text(index), "; must be a number from 0"));
  }
  if (value >= tasks) {
    return Error(".task.index", absl::StrCat(value, "; the cluster has ", tasks, " ", noun));
  }
  return static_cast<int>(value);
}

absl::Status ParseTask(const Json& task, TfConfig* config) {
  if (task.is_null()) return absl::OkStatus();
  if (!task.is_object()) {
    return Error(".task", absl::StrCat(Text(task), "; must be an object with type and index"));
  }
  const Json& type = Member(task, "type");
  const Json& index = Member(task, "index");
  absl::StatusOr<int> number;
  if (type == "chief" || type == "master") {
    config->task = TfConfig::Task::kCoordinator;
    number = ParseIndex(index, 1, "chief");
  } else if (type == "ps") {
    config->task = TfConfig::Task::kPs;
    number = ParseIndex(index, config->ps.size(), "ps");
  } else if (type == "worker") {
    config->task = TfConfig::Task::kWorker;
    number = ParseIndex(index, config->workers.size(), "workers");
  } else {
    return Error(".task.type", absl::StrCat(Text(type), "; must be chief, ps or worker"));
  }
  MILLRACE_ASSIGN_OR_RETURN(config->index, std::move(number));
  return absl::OkStatus();
}

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...; expected ...", or
    // "[json.exception.out_of_range.406] number overflow parsing '1e400'"
    absl::string_view what = error.what();
    if (const size_t end = what.find("] "); end != absl::string_view::npos) {
      what.remove_prefix(end + 2);
    }
    return Error("", absl::StrCat("not JSON: ", what));
  }
}

absl::string_view TaskName(TfConfig::Task task) {
  switch (task) {
    case TfConfig::Task::kCoordinator:
      return "chief";
    case TfConfig::Task::kPs:
      return "ps";
    case TfConfig::Task::kWorker:
      return "worker";
    case TfConfig::Task::kNone:
      break;
  }
  return "";
}

}  // namespace

absl::Status CheckTask(const TfConfig& config, TfConfig::Task wanted) {
  if (config.task == wanted) return absl::OkStatus();
  const bool missing = config.task == TfConfig::Task::kNone;
  return Error(missing ? ".task" : ".task.type",
               absl::StrCat(missing ? "missing" : absl::StrCat("\"", TaskName(config.task), "\""),
                            "; the type must be \"", TaskName(wanted), "\" for this binary"));
}

absl::StatusOr<TfConfig> ParseTfConfig(absl::string_view json) {
  MILLRACE_ASSIGN_OR_RETURN(const Json root, ParseJson(json));
  if (!root.is_object()) {
    return Error("",
                 absl::StrCat(Text(root), "; must be a JSON object with \"cluster\" and \"task\""));
  }
  const Json& cluster = Member(root, "cluster");
  if (!cluster.is_object()) {
    return Error(".cluster", absl::StrCat(Text(cluster), "; must be an object of address lists"));
  }
  TfConfig config;
  MILLRACE_ASSIGN_OR_RETURN(config.coordinator, ParseCoordinator(cluster));
  MILLRACE_ASSIGN_OR_RETURN(config.ps, ParseAddresses(Member(cluster, "ps"), ".cluster.ps"));
  MILLRACE_ASSIGN_OR_RETURN(config.workers,
                            ParseAddresses(Member(cluster, "worker"), ".cluster.worker"));
  MILLRACE_RETURN_IF_ERROR(ParseTask(Member(root, "task"), &config));
  return config;
}

}  // namespace millrace
