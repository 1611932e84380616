#include "client/keras/keras_json.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/printable.h"

namespace millrace::client {
namespace {

constexpr int kMostDepth = 100;  // Of objects and lists within each other; Keras's have 15.
constexpr size_t kShownBytes = 80;

// "FILE:LINE:COLUMN" of a byte, counted from 1.
std::string PlaceOf(absl::string_view text, size_t byte, const std::string& file_name) {
  const absl::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_begin =
      before.rfind('\n') == absl::string_view::npos ? 0 : before.rfind('\n') + 1;
  return absl::StrCat(file_name, ":", line, ":", before.size() - line_begin + 1);
}

// What Keras says of classes (and functions) of its own. Those of programs that import it have
// modules of their own, or null where they are registered or of the main program.
bool IsModuleOfKeras(const KerasJson& module, const std::string& class_name) {
  if (!module.is_string()) return false;
  const std::string name = module.get<std::string>();
  const std::string package = name.substr(0, name.find('.'));
  return package == "keras" || package == "tf_keras" || package == "keras_core" ||
         (name == "builtins" && class_name == "function");
}

// Users' classes are registered with a package; "Custom" is the one by default, which some of
// Keras 2's own optimizers have too.
bool IsOfPackage(const std::string& registered_name) {
  return registered_name.find('>') != std::string::npos;
}

}  // namespace

absl::StatusOr<KerasJson> ParseKerasJson(absl::string_view text, const std::string& file_name) {
  bool too_deep = false;
  const auto keep = [&too_deep](int depth, KerasJson::parse_event_t /*event*/, KerasJson&) {
    too_deep |= depth > kMostDepth;
    return !too_deep;
  };
  try {
    KerasJson json = KerasJson::parse(text.begin(), text.end(), keep);
    if (!too_deep) return json;
    return absl::InvalidArgumentError(
        absl::StrCat(file_name, ": objects more than ", kMostDepth, " deep"));
  } catch (const KerasJson::parse_error& error) {
    const size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    return absl::InvalidArgumentError(absl::StrCat(PlaceOf(text, byte, file_name), ": not JSON"));
  } catch (const KerasJson::out_of_range&) {  // It does not say where.
    return absl::InvalidArgumentError(
        absl::StrCat(file_name, ": a number past 64 bits; must be finite"));
  }
}

const KerasJson& ValueAt(const KerasJson& json, const char* field) {
  static const KerasJson null;
  if (!json.is_object()) return null;
  const auto found = json.find(field);
  return found == json.end() ? null : *found;
}

const KerasJson* FindObject(const KerasJson& json, const char* field) {
  const KerasJson& value = ValueAt(json, field);
  return value.is_object() ? &value : nullptr;
}

std::string TextAt(const KerasJson& json, const char* field) {
  const KerasJson& value = ValueAt(json, field);
  return value.is_string() ? value.get<std::string>() : "";
}

const KerasJson& ListAt(const KerasJson& json, const char* field) {
  static const KerasJson empty = KerasJson::array();
  const KerasJson& value = ValueAt(json, field);
  return value.is_array() ? value : empty;
}

std::string OwnKerasClass(const KerasJson& object) {
  const std::string name = TextAt(object, "class_name");
  if (name.empty()) return "";
  const std::string registered = TextAt(object, "registered_name");
  const bool own_module = object.contains("module") && !IsModuleOfKeras(object["module"], name);
  if (!own_module && (!IsOfPackage(registered) || absl::StartsWith(registered, "Custom>"))) {
    return "";
  }
  if (IsOfPackage(registered)) return registered;
  return absl::StrCat(name, " (module ", ShowJson(object["module"]), ")");
}

std::string KerasClassName(const KerasJson& object) {
  const std::string own = OwnKerasClass(object);
  return own.empty() ? TextAt(object, "class_name") : own;
}

std::string ShowJson(const KerasJson& value) {
  std::string text =
      value.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, KerasJson::error_handler_t::replace);
  if (text.size() > kShownBytes) text = absl::StrCat(text.substr(0, kShownBytes), "...");
  return Printable(text);
}

}  // namespace millrace::client
