#include "coordinator/checkpoint/warm_start.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "re2/re2.h"

namespace millrace::coordinator {
namespace {

constexpr size_t kMostNames = 20;

struct Rule {
  std::unique_ptr<RE2> pattern;
  std::string replacement;
};

absl::StatusOr<std::vector<Rule>> Compile(const WarmStartSpec& spec) {
  std::vector<Rule> rules;
  for (int i = 0; i < spec.rules_size(); ++i) {
    const std::string path = absl::StrCat("warm_start.rules[", i, "].");
    auto pattern = std::make_unique<RE2>(spec.rules(i).pattern(), RE2::Quiet);
    if (!pattern->ok()) {
      return FieldError(path + "pattern", absl::StrCat("'", spec.rules(i).pattern(), "'"),
                        absl::StrCat("a regular expression (", pattern->error(), ")"));
    }
    std::string error;
    if (!pattern->CheckRewriteString(spec.rules(i).replacement(), &error)) {
      return FieldError(path + "replacement", absl::StrCat("'", spec.rules(i).replacement(), "'"),
                        absl::StrCat("a name with the pattern's groups (", error, ")"));
    }
    rules.push_back({std::move(pattern), spec.rules(i).replacement()});
  }
  return rules;
}

std::string ListOf(const std::vector<std::string>& names) {
  const auto first = absl::MakeConstSpan(names).subspan(0, kMostNames);
  std::string list = absl::StrJoin(first, ", ");
  if (names.size() > kMostNames) absl::StrAppend(&list, ", ...");
  return list;
}

// One that matches nothing is a mistake, and nobody would see that.
absl::Status CheckMatches(const JobPlan& plan, const std::vector<Rule>& rules) {
  for (size_t i = 0; i < rules.size(); ++i) {
    const auto matches = [&](const VariableSpec& variable) {
      return RE2::FullMatch(variable.name(), *rules[i].pattern);
    };
    const auto& variables = plan.variables();
    if (std::any_of(variables.begin(), variables.end(), matches)) continue;
    std::vector<std::string> names;
    for (const VariableSpec& variable : variables) names.push_back(variable.name());
    return FieldError(absl::StrCat("warm_start.rules[", i, "].pattern"),
                      absl::StrCat("'", rules[i].pattern->pattern(), "'"),
                      absl::StrCat("the whole name of one variable or more (", ListOf(names), ")"));
  }
  return absl::OkStatus();
}

// The tensor's name; empty: the variable is not taken from the file.
std::string NameFor(const std::string& variable, const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    std::vector<re2::StringPiece> groups(1 + rule.pattern->NumberOfCapturingGroups());
    if (!rule.pattern->Match(variable, 0, variable.size(), RE2::ANCHOR_BOTH, groups.data(),
                             static_cast<int>(groups.size()))) {
      continue;
    }
    std::string name;
    rule.pattern->Rewrite(&name, rule.replacement, groups.data(), static_cast<int>(groups.size()));
    return name;
  }
  return variable;
}

std::string Count(size_t count, const std::string& what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string Describe(absl::Span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status CheckShape(const VariableSpec& variable, const std::string& tensor,
                        const std::vector<uint64_t>& shape) {
  if (std::equal(shape.begin(), shape.end(), variable.shape().begin(), variable.shape().end())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("warm_start: variable '", variable.name(), "' is ", Describe(variable.shape()),
                   ", and tensor '", tensor, "' is ", Describe(shape),
                   "; a rule with an empty replacement leaves the variable out"));
}

absl::Status CheckType(const VariableSpec& variable, const std::string& tensor,
                       const StoredShapes& stored) {
  const auto found = stored.unreadable.find(tensor);
  if (found == stored.unreadable.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("warm_start: variable '", variable.name(), "': tensor '", tensor, "' in ",
                   stored.where, " is ", found->second, "; must be F32, F64, F16 or BF16"));
}

struct Odds {
  std::vector<std::string> missing;  // Variables, with the names that they were looked for under.
  std::vector<std::string> unused;   // Tensors.
};

absl::Status CheckAllowed(const WarmStartSpec& spec, const Odds& odds) {
  std::vector<std::string> refused;
  if (!odds.missing.empty() && !spec.allow_missing()) {
    refused.push_back(absl::StrCat(
        "it lacks ", Count(odds.missing.size(), "variable"), " (", ListOf(odds.missing),
        "): allow_missing (--init_allow_missing) lets them begin with ", "their initial values"));
  }
  if (!odds.unused.empty() && !spec.allow_unused()) {
    refused.push_back(absl::StrCat("no variable has use for ", Count(odds.unused.size(), "tensor"),
                                   " (", ListOf(odds.unused),
                                   "): allow_unused (--init_allow_unused) leaves them out"));
  }
  if (refused.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("warm_start.path: ", spec.path(), ": ", absl::StrJoin(refused, "; ")));
}

std::string NoticeOf(const StoredShapes& stored, size_t taken, const Odds& odds) {
  std::string notice =
      absl::StrCat("begins with ", Count(taken, "variable"), " from ", stored.where);
  if (!odds.missing.empty()) {
    absl::StrAppend(&notice, "; with their initial values ", odds.missing.size(), ": ",
                    ListOf(odds.missing));
  }
  if (!odds.unused.empty()) {
    absl::StrAppend(&notice, "; left out ", odds.unused.size(), ": ", ListOf(odds.unused));
  }
  return notice;
}

}  // namespace

absl::StatusOr<WarmStart> MatchTensors(const WarmStartSpec& spec, const JobPlan& plan,
                                       const StoredShapes& stored) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Rule> rules, Compile(spec));
  MILLRACE_RETURN_IF_ERROR(CheckMatches(plan, rules));
  WarmStart start;
  Odds odds;
  std::set<std::string> used;
  for (const VariableSpec& variable : plan.variables()) {
    std::string name = NameFor(variable.name(), rules);
    const auto tensor = stored.shapes.find(name);
    MILLRACE_RETURN_IF_ERROR(CheckType(variable, name, stored));
    if (name.empty()) {
      // As the rules say.
    } else if (tensor == stored.shapes.end()) {
      odds.missing.push_back(name == variable.name() ? name
                                                     : absl::StrCat(variable.name(), " as ", name));
      name.clear();
    } else {
      MILLRACE_RETURN_IF_ERROR(CheckShape(variable, name, tensor->second));
      used.insert(name);
    }
    start.tensors.push_back(std::move(name));
  }
  for (const auto& [name, shape] : stored.shapes) {
    if (!used.contains(name)) odds.unused.push_back(name);
  }
  MILLRACE_RETURN_IF_ERROR(CheckAllowed(spec, odds));
  const auto taken =
      static_cast<size_t>(std::count_if(start.tensors.begin(), start.tensors.end(),
                                        [](const std::string& name) { return !name.empty(); }));
  start.notice = NoticeOf(stored, taken, odds);
  return start;
}

}  // namespace millrace::coordinator
