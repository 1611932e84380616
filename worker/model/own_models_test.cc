#include "worker/model/own_models.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/dataset.h"

namespace millrace::worker {
namespace {

using ::testing::HasSubstr;

// Nobody reads it here.
class NoExamples final : public Dataset {
 public:
  uint64_t size() const override { return 1; }
  const ExampleSpec& example() const override { return spec_; }
  absl::Status Read(absl::Span<const uint64_t>, Batch*) const override { return absl::OkStatus(); }

 private:
  ExampleSpec spec_ = FloatsAndClass({1}, 2);
};

ModelFactory Saying(const std::string& words) {
  return [words](const JobSpec&, const Dataset&, const Dataset*) {
    return absl::StatusOr<std::unique_ptr<Model>>(absl::AbortedError(words));
  };
}

OwnModel OwnSaying(const std::string& name) {
  return {name, [name](const JobSpec&, const Dataset&, const Dataset*, const ModelFactory&) {
            return absl::StatusOr<std::unique_ptr<Model>>(absl::AbortedError(name));
          }};
}

absl::Status Make(const std::vector<OwnModel>& own, const std::string& name) {
  JobSpec spec;
  if (!name.empty()) spec.mutable_model()->mutable_custom()->set_name(name);
  return ModelsByName(own, Saying("layers"))(spec, NoExamples(), nullptr).status();
}

CustomModel WithOption(const std::string& name, const std::string& value) {
  CustomModel model;
  model.add_options()->set_name("first");
  model.add_options()->set_name(name);
  model.mutable_options(1)->set_value(value);
  return model;
}

TEST(OwnModelsTest, JobsGetTheModelThatTheyName) {
  EXPECT_EQ(Make({OwnSaying("a"), OwnSaying("b")}, "b").message(), "b");
  EXPECT_EQ(Make({OwnSaying("a")}, "").message(), "layers");
}

TEST(OwnModelsTest, UnknownModelIsLeftToOthersAndTheKnownOnesAreNamed) {
  EXPECT_EQ(Make({OwnSaying("a"), OwnSaying("b")}, "c"),
            absl::UnavailableError(
                "model.custom.name: 'c'; this worker knows 'a', 'b' and models of layers"));
  EXPECT_EQ(Make({}, "c"),
            absl::UnavailableError(
                "model.custom.name: 'c'; this worker knows none, only models of layers"));
}

TEST(OwnModelsTest, ModelsWithoutANameOrWithTheSameAreRefused) {
  EXPECT_EQ(CheckOwnModels({OwnSaying("a"), OwnSaying("b")}), absl::OkStatus());
  EXPECT_THAT(CheckOwnModels({OwnSaying("a"), OwnSaying("a")}).ToString(),
              HasSubstr("two have the name 'a'"));
  EXPECT_THAT(CheckOwnModels({OwnSaying("")}).ToString(), HasSubstr("needs a name"));
  EXPECT_THAT(CheckOwnModels({{"a", nullptr}}).ToString(), HasSubstr("and a function"));
}

TEST(OwnModelsTest, OptionsAreReadOrHaveTheirDefaults) {
  EXPECT_EQ(*NumberOption(WithOption("units", "12"), "units", 8, 1, 64), 12u);
  EXPECT_EQ(*NumberOption(WithOption("other", "12"), "units", 8, 1, 64), 8u);
  EXPECT_EQ(*RealOption(WithOption("decay", "0.5"), "decay", 0, 0, 1), 0.5);
  EXPECT_EQ(*RealOption(CustomModel(), "decay", 0.25, 0, 1), 0.25);
}

TEST(OwnModelsTest, WrongOptionsAreNamedWithWhatIsAllowed) {
  for (const char* value : {"many", "0", "65", "-1", ""}) {
    EXPECT_EQ(NumberOption(WithOption("units", value), "units", 8, 1, 64).status(),
              absl::InvalidArgumentError(absl::StrCat("model.custom.options[1].value: '", value,
                                                      "'; must be a whole number from 1 to 64")));
  }
  for (const char* value : {"nan", "-0.1", "x"}) {
    EXPECT_THAT(RealOption(WithOption("decay", value), "decay", 0, 0, 1).status().ToString(),
                HasSubstr("must be a number from 0 to 1"));
  }
  EXPECT_EQ(CheckOptionNames(WithOption("unit", "1"), {"first", "units"}),
            absl::InvalidArgumentError(
                "model.custom.options[1].name: 'unit'; must be one of first, units"));
  EXPECT_EQ(CheckOptionNames(WithOption("units", "1"), {"first", "units"}), absl::OkStatus());
}

}  // namespace
}  // namespace millrace::worker
