#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SetFieldTest : public ::testing::Test {
 protected:
  SetFieldTest() {
    const char* const text = R"(
      epochs: 3
      model {
        layers { dense { units: 8 } }
        layers { conv2d { filters: 4 kernel_size: [3, 3] } }
        metrics: ACCURACY
      }
      optimizer { adam { learning_rate: 0.5 } }
    )";
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec_));
  }

  void Set(const std::string& assignment) {
    const absl::Status status = SetField(assignment, &spec_);
    EXPECT_TRUE(status.ok()) << status;
  }

  // The message; the spec must not have changed.
  std::string ErrorOf(const std::string& assignment) {
    const JobSpec before = spec_;
    const absl::Status status = SetField(assignment, &spec_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << assignment;
    EXPECT_TRUE(MessageDifferencer::Equals(spec_, before)) << assignment;
    return std::string(status.message());
  }

  JobSpec spec_;
};

TEST_F(SetFieldTest, SetsValuesOfEveryType) {
  Set("name=a=b c");
  EXPECT_EQ(spec_.name(), "a=b c");
  Set("name=");
  EXPECT_EQ(spec_.name(), "");
  Set("batch_size=64");
  EXPECT_EQ(spec_.batch_size(), 64u);
  Set("seed=18446744073709551615");
  EXPECT_EQ(spec_.seed(), ~uint64_t{0});
  Set("data.no_shuffle=true");
  EXPECT_TRUE(spec_.data().no_shuffle());
  Set("data.no_shuffle=false");
  EXPECT_FALSE(spec_.data().no_shuffle());
  Set("model.loss=BINARY_CROSSENTROPY");
  EXPECT_EQ(spec_.model().loss(), BINARY_CROSSENTROPY);
  Set("model.layers[0].dense.activation=relu");
  EXPECT_EQ(spec_.model().layers(0).dense().activation(), RELU);
  Set("precision.compute=TF32");
  EXPECT_EQ(spec_.precision().compute(), PrecisionSpec::TF32);
  Set("precision.wire=BFLOAT16");
  EXPECT_EQ(spec_.precision().wire(), Encoding::BFLOAT16);
}

TEST_F(SetFieldTest, SetsOptionalFieldsEvenToTheirZero) {
  Set("asynchronous.staleness_bound=0");
  EXPECT_TRUE(spec_.asynchronous().has_staleness_bound());
  Set("optimizer.adam.learning_rate=1e-3");
  EXPECT_EQ(spec_.optimizer().adam().learning_rate(), 1e-3);
  Set("optimizer.adam.learning_rate=nan");  // For CheckJobSpec to refuse.
  EXPECT_TRUE(std::isnan(spec_.optimizer().adam().learning_rate()));
}

TEST_F(SetFieldTest, SetsDurations) {
  Set("cuts.period=2s");
  EXPECT_EQ(CutPeriod(spec_), absl::Seconds(2));
  Set("cuts.period=1m250ms");
  EXPECT_EQ(CutPeriod(spec_), absl::Minutes(1) + absl::Milliseconds(250));
}

// The fields of a Duration are signed, and such fields were once unknown.
TEST_F(SetFieldTest, SetsTheFieldsOfADuration) {
  Set("cuts.period.seconds=4");
  Set("cuts.period.nanos=500000000");
  EXPECT_EQ(CutPeriod(spec_), absl::Milliseconds(4500));
  EXPECT_EQ(ErrorOf("cuts.period.seconds=4s"),
            "cuts.period.seconds: '4s'; must be a whole number from -9223372036854775808 to "
            "9223372036854775807");
  EXPECT_THAT(ErrorOf("cuts.period.nanos=3000000000"), HasSubstr("to 2147483647"));
}

TEST_F(SetFieldTest, MemberOfAOneofReplacesTheOther) {
  Set("steps=100");
  EXPECT_EQ(spec_.length_case(), JobSpec::kSteps);
  EXPECT_EQ(spec_.steps(), 100u);
  Set("optimizer.sgd.momentum=0.9");
  EXPECT_FALSE(spec_.optimizer().has_adam());
  Set("synchronous.replicas=2");
  EXPECT_FALSE(spec_.has_asynchronous());
  EXPECT_EQ(Replicas(spec_), 2u);
}

TEST_F(SetFieldTest, SetsElementsAndWholeLists) {
  Set("model.layers[1].conv2d.kernel_size[1]=5");
  EXPECT_THAT(spec_.model().layers(1).conv2d().kernel_size(), ElementsAre(3, 5));
  Set("model.layers[1].conv2d.kernel_size=7");
  EXPECT_THAT(spec_.model().layers(1).conv2d().kernel_size(), ElementsAre(7));
  Set("model.layers[1].conv2d.kernel_size=1, 2");
  EXPECT_THAT(spec_.model().layers(1).conv2d().kernel_size(), ElementsAre(1, 2));
  Set("model.metrics=ACCURACY,AUC");
  EXPECT_THAT(spec_.model().metrics(), ElementsAre(ACCURACY, AUC));
  Set("model.metrics[0]=AUC");
  EXPECT_THAT(spec_.model().metrics(), ElementsAre(AUC, AUC));
  Set("model.metrics=");
  EXPECT_THAT(spec_.model().metrics(), IsEmpty());
}

TEST_F(SetFieldTest, SetsWholeMessagesInBraces) {
  Set("optimizer.adam={beta_1: 0.95}");
  EXPECT_EQ(spec_.optimizer().adam().beta_1(), 0.95);
  EXPECT_FALSE(spec_.optimizer().adam().has_learning_rate());
  Set("optimizer.sgd={}");
  EXPECT_TRUE(spec_.optimizer().has_sgd());
  Set("model.layers[0]={flatten {}}");
  EXPECT_TRUE(spec_.model().layers(0).has_flatten());
}

TEST_F(SetFieldTest, SetsAnOptimizersSchedule) {
  Set("optimizer.adamw.learning_rate=0.01");
  EXPECT_EQ(spec_.optimizer().adamw().learning_rate(), 0.01);
  Set("optimizer.schedule.warmup.steps=100");
  Set("optimizer.schedule.cosine_decay.decay_steps=1000");
  Set("optimizer.schedule.piecewise_constant.boundaries=10,20");
  Set("optimizer.schedule.piecewise_constant.learning_rates=0.1, 0.01");
  EXPECT_FALSE(spec_.optimizer().schedule().has_cosine_decay());
  EXPECT_EQ(spec_.optimizer().schedule().warmup().steps(), 100u);
  EXPECT_THAT(spec_.optimizer().schedule().piecewise_constant().boundaries(), ElementsAre(10, 20));
  EXPECT_EQ(spec_.optimizer().schedule().piecewise_constant().learning_rates(1), 0.01);
  EXPECT_TRUE(spec_.optimizer().has_adamw());
}

TEST_F(SetFieldTest, NamesTheFieldsThatThereAre) {
  EXPECT_EQ(ErrorOf("optimizer.adam.lr=1"),
            "optimizer.adam.lr: there is no such field; must be one of learning_rate, beta_1, "
            "beta_2, epsilon, amsgrad");
  EXPECT_THAT(ErrorOf("batchsize=1"), HasSubstr("must be one of name, model, data, optimizer,"));
  EXPECT_THAT(ErrorOf("model.=1"), HasSubstr("model.: there is no such field"));
}

TEST_F(SetFieldTest, NamesTheValueAndWhatIsAllowed) {
  EXPECT_EQ(ErrorOf("batch_size=-1"),
            "batch_size: '-1'; must be a whole number from 0 to 4294967295");
  EXPECT_THAT(ErrorOf("batch_size=4294967296"), HasSubstr("'4294967296'; must be"));
  EXPECT_THAT(ErrorOf("seed=18446744073709551616"), HasSubstr("to 18446744073709551615"));
  EXPECT_EQ(ErrorOf("optimizer.adam.beta_1=high"),
            "optimizer.adam.beta_1: 'high'; must be a number");
  EXPECT_EQ(ErrorOf("data.no_shuffle=yes"), "data.no_shuffle: 'yes'; must be true or false");
  EXPECT_EQ(ErrorOf("model.loss=HINGE"),
            "model.loss: 'HINGE'; must be one of SPARSE_CATEGORICAL_CROSSENTROPY, "
            "BINARY_CROSSENTROPY, CATEGORICAL_CROSSENTROPY, MEAN_SQUARED_ERROR, "
            "MEAN_ABSOLUTE_ERROR, HUBER");
  EXPECT_EQ(ErrorOf("cuts.period=10"),
            "cuts.period: '10'; must be a duration with its unit, such as 90s, 500ms or 1h30m");
  EXPECT_THAT(ErrorOf("cuts.period=inf"), HasSubstr("must be a duration"));
  EXPECT_EQ(ErrorOf("precision.compute=FLOAT16"),
            "precision.compute: 'FLOAT16'; must be one of FLOAT32, TF32, BFLOAT16");
  EXPECT_EQ(ErrorOf("precision.wire=TF32"),
            "precision.wire: 'TF32'; must be one of FLOAT32, FLOAT16, BFLOAT16");
  EXPECT_THAT(ErrorOf("model.metrics=ACCURACY,AUK"), HasSubstr("'AUK'; must be one of"));
}

// Fields that were single once are lists now, such as a data set's label.
TEST_F(SetFieldTest, AListOfOneMessageOrNoneNeedsNoIndex) {
  Set("data.train.csv.label.name=y");
  Set("data.train.csv.label.number=true");
  ASSERT_EQ(spec_.data().train().csv().label_size(), 1);
  EXPECT_EQ(spec_.data().train().csv().label(0).name(), "y");
  EXPECT_TRUE(spec_.data().train().csv().label(0).number());
  Set("data.train.csv.label={name: 'z'}");
  ASSERT_EQ(spec_.data().train().csv().label_size(), 1);
  EXPECT_EQ(spec_.data().train().csv().label(0).name(), "z");
  EXPECT_FALSE(spec_.data().train().csv().label(0).number());
}

TEST_F(SetFieldTest, PathsMustFitTheMessages) {
  EXPECT_EQ(ErrorOf("model.layers[2].dense.units=1"),
            "model.layers[2]: there is no such element; the list has 2, [0] to [1]");
  EXPECT_THAT(ErrorOf("model.layers[-1].name=x"), HasSubstr("no such element"));
  EXPECT_THAT(ErrorOf("model.layers[x].name=x"), HasSubstr("no such element"));
  EXPECT_THAT(ErrorOf("model.layers[0.name=x"), HasSubstr("no such element"));
  EXPECT_EQ(ErrorOf("model.layers[0].conv2d.strides[0]=1"),
            "model.layers[0].conv2d.strides[0]: there is no such element; the list has 0");
  EXPECT_THAT(ErrorOf("model.layers.name=x"), HasSubstr("must have the index of an element"));
  EXPECT_EQ(ErrorOf("epochs[0]=1"), "epochs[0]: not a list; must have no index");
  EXPECT_EQ(ErrorOf("epochs.count=1"), "epochs: a value; it has no fields");
  EXPECT_THAT(ErrorOf("optimizer=adam"),
              HasSubstr("must be set by its fields (sgd, rmsprop, adam, adamw, nadam,"));
  EXPECT_THAT(ErrorOf("optimizer.adam={lr: 1}"),
              HasSubstr("no field named \"lr\". It has: learning_rate, beta_1, "));
  EXPECT_THAT(ErrorOf("batch_size"), HasSubstr("batch_size: no value; must be written PATH=VALUE"));
  EXPECT_THAT(ErrorOf("=1"), HasSubstr("=1: no path; must be written PATH=VALUE"));
}

// Paths to a value of each field that a JobSpec can have: a field of a new type must not be left
// out.
void CollectPaths(const google::protobuf::Descriptor* descriptor, const std::string& prefix,
                  std::vector<std::string>* paths) {
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    const std::string path = absl::StrCat(prefix, field->name());
    if (field->message_type() == nullptr || field->message_type()->name() == "Duration") {
      paths->push_back(path);
    } else {
      CollectPaths(field->message_type(), absl::StrCat(path, field->is_repeated() ? "[0]." : "."),
                   paths);
    }
  }
}

// Gives each list of messages that `path` goes through an element: lists have the elements that
// they have.
void AddElements(const std::string& path, google::protobuf::Message* message) {
  const size_t dot = path.find('.');
  if (dot == std::string::npos) return;
  const bool element = dot > 3 && path.compare(dot - 3, 3, "[0]") == 0;
  const FieldDescriptor* field =
      message->GetDescriptor()->FindFieldByName(path.substr(0, element ? dot - 3 : dot));
  const auto* reflection = message->GetReflection();
  const std::string rest = path.substr(dot + 1);
  if (!field->is_repeated()) return AddElements(rest, reflection->MutableMessage(message, field));
  if (reflection->FieldSize(*message, field) == 0) reflection->AddMessage(message, field);
  AddElements(rest, reflection->MutableRepeatedMessage(message, field, 0));
}

TEST_F(SetFieldTest, EveryFieldCanBeSet) {
  std::vector<std::string> paths;
  CollectPaths(JobSpec::descriptor(), "", &paths);
  EXPECT_GT(paths.size(), 40u);
  for (const std::string& path : paths) {
    bool done = false;
    for (const char* value :
         {"1", "true", "1s", "RELU", "SAME", "ZEROS", "SUM", "ACCURACY", "BINARY_CROSSENTROPY",
          "CIFAR_10", "REST", "FLOAT", "LARGER_IS_BETTER", "TF32", "FLOAT16"}) {
      JobSpec spec = spec_;
      if (path.find("[0]") != std::string::npos) AddElements(path, &spec);
      done = done || SetField(absl::StrCat(path, "=", value), &spec).ok();
    }
    EXPECT_TRUE(done) << path;
  }
}

TEST_F(SetFieldTest, SurvivesMutations) {
  constexpr unsigned kSeed = 13;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  const std::vector<std::string> originals = {
      "model.layers[1].conv2d.kernel_size[0]=5", "optimizer.adam={beta_1: 0.95}",
      "cuts.period=1m250ms", "model.metrics=ACCURACY,AUC", "data.train.idx.images=a"};
  const std::string alphabet = "[]{}.=,: 0123456789-esmn\xff";
  int done = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = originals[round % originals.size()];
    for (int change = 0; change <= round % 3; ++change) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = alphabet[random() % alphabet.size()];
      } else {
        text.insert(at, 1, alphabet[random() % alphabet.size()]);
      }
    }
    JobSpec spec = spec_;
    const absl::Status status = SetField(text, &spec);
    done += status.ok();
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
      EXPECT_TRUE(MessageDifferencer::Equals(spec, spec_)) << text;
    }
    (void)CheckJobSpec(spec);
  }
  EXPECT_GT(done, 0);
}

}  // namespace
}  // namespace millrace
