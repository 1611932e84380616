#include "coordinator/checkpoint/warm_start.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/checkpoint/checkpoint_finder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

JobPlan PlanOf(const std::vector<std::string>& names) {
  JobPlan plan;
  for (const std::string& name : names) {
    VariableSpec& variable = *plan.add_variables();
    variable.set_name(name);
    variable.add_shape(2);
    variable.add_shape(3);
  }
  return plan;
}

StoredShapes TensorsOf(const std::vector<std::string>& names) {
  StoredShapes stored;
  stored.where = "/m.safetensors";
  for (const std::string& name : names) stored.shapes[name] = {2, 3};
  return stored;
}

WarmStartSpec Rules(const std::vector<std::pair<std::string, std::string>>& rules) {
  WarmStartSpec spec;
  spec.set_path("/m.safetensors");
  for (const auto& [pattern, replacement] : rules) {
    NameRule& rule = *spec.add_rules();
    rule.set_pattern(pattern);
    rule.set_replacement(replacement);
  }
  return spec;
}

TEST(WarmStartTest, FirstRuleThatMatchesTheWholeNameCounts) {
  const WarmStartSpec spec =
      Rules({{"head/.*", ""}, {"encoder/(\\w+)/(\\w+)", "bert.\\1.\\2"}, {"enc.*", "wrong"}});
  const auto start =
      MatchTensors(spec, PlanOf({"encoder/a/kernel", "head/kernel", "my_head/kernel"}),
                   TensorsOf({"bert.a.kernel", "my_head/kernel"}));
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_THAT(start->tensors, ElementsAre("bert.a.kernel", "", "my_head/kernel"));
  EXPECT_THAT(start->notice,
              AllOf(HasSubstr("2 variables from /m.safetensors"), Not(HasSubstr("left out"))));
}

// It once was taken for a file whose disk fails, and the job waited for that.
TEST(WarmStartTest, DirectoryWithoutCheckpointsIsRefused) {
  const std::string directory = ::testing::TempDir() + "/empty";
  std::filesystem::create_directories(directory);
  JobSpec spec;
  spec.mutable_warm_start()->set_path(directory);
  EXPECT_EQ(FindWarmStart(RealFileSystem(), spec, PlanOf({"w"})).status(),
            absl::NotFoundError("warm_start.path: there is no checkpoint in " + directory));
  spec.mutable_warm_start()->set_path(directory + "/absent");
  EXPECT_EQ(FindWarmStart(RealFileSystem(), spec, PlanOf({"w"})).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(WarmStartTest, MissingAndLeftOverAreListedAndRefusedUnlessAllowed) {
  WarmStartSpec spec = Rules({{"w(\\d+)", "v\\1"}});
  std::vector<std::string> names;
  for (int i = 10; i < 40; ++i) names.push_back(absl::StrCat("w", i));
  const JobPlan plan = PlanOf(names);
  const StoredShapes stored = TensorsOf({"v10", "other"});
  absl::Status refused = MatchTensors(spec, plan, stored).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("29 variables (w11 as v11, "), HasSubstr("w30 as v30, ...)"),
                    HasSubstr("allow_missing (--init_allow_missing)"),
                    HasSubstr("allow_unused (--init_allow_unused)"), Not(HasSubstr("w31")),
                    HasSubstr("1 tensor (other)")));
  spec.set_allow_missing(true);
  refused = MatchTensors(spec, plan, stored).status();
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("allow_unused"), Not(HasSubstr("w11"))));
  spec.set_allow_unused(true);
  const auto start = MatchTensors(spec, plan, stored);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->tensors[0], "v10");
  EXPECT_EQ(start->tensors[1], "");
  EXPECT_THAT(start->notice, AllOf(HasSubstr("1 variable from"), HasSubstr("w11 as v11"),
                                   HasSubstr("left out 1: other")));
}

TEST(WarmStartTest, ShapesMustBeEqual) {
  StoredShapes stored;
  stored.shapes["w"] = {6};
  const absl::Status refused = MatchTensors(Rules({}), PlanOf({"w"}), stored).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("variable 'w' is [2, 3]"), HasSubstr("tensor 'w' is [6]")));
}

// Such a tensor counted as absent, so that a variable could begin with its initial values.
TEST(WarmStartTest, TensorOfAnotherTypeIsRefusedAndIsInNobodysWayElsewhere) {
  StoredShapes stored = TensorsOf({"w"});
  stored.unreadable["positions"] = "I64";
  EXPECT_TRUE(MatchTensors(Rules({}), PlanOf({"w"}), stored).ok());
  WarmStartSpec spec = Rules({{"b", "positions"}});
  spec.set_allow_missing(true);
  const absl::Status refused = MatchTensors(spec, PlanOf({"w", "b"}), stored).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("variable 'b': tensor 'positions' in /m.safetensors is I64; must be F32, "
                        "F64, F16 or BF16"));
}

TEST(WarmStartTest, RuleThatMatchesNoVariableIsRefused) {
  const absl::Status refused = MatchTensors(Rules({{"w", "v"}, {"no", "foo"}}),
                                            PlanOf({"w", "nos"}), TensorsOf({"v", "nos"}))
                                   .status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("warm_start.rules[1].pattern: 'no'; must be the whole name of"),
                    HasSubstr("(w, nos)")));
}

TEST(WarmStartTest, BrokenRulesAreNamed) {
  EXPECT_THAT(
      std::string(
          MatchTensors(Rules({{"a", "b"}, {"(", ""}}), PlanOf({"a"}), {}).status().message()),
      HasSubstr("warm_start.rules[1].pattern: '('; must be a regular expression"));
  EXPECT_THAT(
      std::string(MatchTensors(Rules({{"(a)", "\\2"}}), PlanOf({"w"}), {}).status().message()),
      HasSubstr("warm_start.rules[0].replacement: '\\2'"));
}

}  // namespace
}  // namespace millrace::coordinator
