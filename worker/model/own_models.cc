#include "worker/model/own_models.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/proto_fields.h"

namespace millrace::worker {
namespace {

std::string Quoted(absl::string_view text) { return absl::StrCat("'", text, "'"); }

absl::Status Unknown(absl::string_view name, const std::vector<OwnModel>& own) {
  const std::string names = absl::StrJoin(own, ", ", [](std::string* out, const OwnModel& model) {
    absl::StrAppend(out, Quoted(model.name));
  });
  return absl::UnavailableError(absl::StrCat(
      "model.custom.name: ", Quoted(name), "; this worker knows ",
      own.empty() ? "none, only models of layers" : absl::StrCat(names, " and models of layers")));
}

// -1: it is not there.
int FindOption(const CustomModel& model, absl::string_view name) {
  for (int i = 0; i < model.options_size(); ++i) {
    if (model.options(i).name() == name) return i;
  }
  return -1;
}

absl::Status WrongValue(const CustomModel& model, int option, absl::string_view allowed) {
  return FieldError(absl::StrCat("model.custom.options[", option, "].value"),
                    Quoted(model.options(option).value()), allowed);
}

}  // namespace

absl::Status CheckOwnModels(const std::vector<OwnModel>& own) {
  absl::flat_hash_set<absl::string_view> names;
  for (const OwnModel& model : own) {
    if (model.name.empty() || model.make == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("own_models: ", Quoted(model.name), "; each needs a name and a function"));
    }
    if (!names.insert(model.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("own_models: two have the name ", Quoted(model.name)));
    }
  }
  return absl::OkStatus();
}

ModelFactory ModelsByName(std::vector<OwnModel> own, ModelFactory layers) {
  return [own = std::move(own), layers = std::move(layers)](
             const JobSpec& spec, const millrace::worker::Dataset& train,
             const millrace::worker::Dataset* evaluate) -> absl::StatusOr<std::unique_ptr<Model>> {
    if (!spec.model().has_custom()) return layers(spec, train, evaluate);
    const std::string& name = spec.model().custom().name();
    const auto found = std::find_if(own.begin(), own.end(),
                                    [&name](const OwnModel& model) { return model.name == name; });
    if (found == own.end()) return Unknown(name, own);
    return found->make(spec, train, evaluate, layers);
  };
}

absl::Status CheckOptionNames(const CustomModel& model, absl::Span<const absl::string_view> known) {
  for (int i = 0; i < model.options_size(); ++i) {
    const std::string& name = model.options(i).name();
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return FieldError(absl::StrCat("model.custom.options[", i, "].name"), Quoted(name),
                      known.empty() ? "none: the model has no options"
                                    : absl::StrCat("one of ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> NumberOption(const CustomModel& model, absl::string_view name,
                                      uint64_t unset, uint64_t lowest, uint64_t highest) {
  const int option = FindOption(model, name);
  if (option < 0) return unset;
  uint64_t value = 0;
  if (absl::SimpleAtoi(model.options(option).value(), &value) && value >= lowest &&
      value <= highest) {
    return value;
  }
  return WrongValue(model, option, absl::StrCat("a whole number from ", lowest, " to ", highest));
}

absl::StatusOr<double> RealOption(const CustomModel& model, absl::string_view name, double unset,
                                  double lowest, double highest) {
  const int option = FindOption(model, name);
  if (option < 0) return unset;
  double value = 0;
  if (absl::SimpleAtod(model.options(option).value(), &value) && value >= lowest &&
      value <= highest) {
    return value;
  }
  return WrongValue(model, option, absl::StrCat("a number from ", lowest, " to ", highest));
}

}  // namespace millrace::worker
