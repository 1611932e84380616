#include "coordinator/checkpoint/restore_check.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

JobSpec Spec() {
  JobSpec spec;
  spec.set_name("first");
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(8);
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(1);
  spec.mutable_model()->set_loss(BINARY_CROSSENTROPY);
  spec.mutable_data()->set_directory("/data");
  spec.mutable_data()->mutable_train()->mutable_libsvm()->set_file("train");
  spec.mutable_data()->mutable_train()->mutable_libsvm()->set_features(3);
  spec.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  spec.mutable_synchronous()->set_replicas(4);
  spec.set_batch_size(32);
  spec.set_steps(100);
  spec.set_seed(5);
  return spec;
}

CheckpointManifest Manifest() {
  CheckpointManifest manifest;
  manifest.set_job_id("first-1");
  manifest.set_step(40);
  *manifest.mutable_spec() = Spec();
  manifest.mutable_plan()->set_train_examples(320);
  return manifest;
}

struct Change {
  std::function<void(JobSpec&)> change;
  std::string refusal;  // Empty: it may change.
};

TEST(RestoreCheckTest, FirstDifferenceIsNamedWithBothValues) {
  const Change changes[] = {
      {[](JobSpec& s) { s.mutable_model()->mutable_layers(0)->mutable_dense()->set_units(9); },
       "model.layers[0].dense.units: 9; must be 8 as in the checkpoint of job first-1 at step 40"},
      {[](JobSpec& s) { s.mutable_model()->mutable_layers(1)->mutable_flatten(); },
       "model.layers[1]: flatten; must be dense"},
      {[](JobSpec& s) { s.mutable_model()->add_layers(); },
       "model.layers: 3 of them; must be 2 of them"},
      {[](JobSpec& s) { s.mutable_model()->mutable_custom()->set_name("own"); },
       "model.custom: set; must be unset"},
      {[](JobSpec& s) { s.mutable_model()->set_loss(SPARSE_CATEGORICAL_CROSSENTROPY); },
       "model.loss: SPARSE_CATEGORICAL_CROSSENTROPY; must be BINARY_CROSSENTROPY"},
      {[](JobSpec& s) { s.mutable_data()->mutable_train()->mutable_libsvm()->set_file("x"); },
       "data.train.libsvm.file: \"x\"; must be \"train\""},
      {[](JobSpec& s) { s.mutable_data()->mutable_train()->mutable_idx(); },
       "data.train: idx; must be libsvm"},
      {[](JobSpec& s) { s.mutable_data()->set_no_shuffle(true); },
       "data.no_shuffle: true; must be false"},
      {[](JobSpec& s) { s.mutable_optimizer()->mutable_adam(); }, "optimizer: adam; must be sgd"},
      {[](JobSpec& s) { s.mutable_optimizer()->mutable_sgd()->set_momentum(0); },
       "optimizer.sgd.momentum: 0; must be 0.9"},
      {[](JobSpec& s) { s.mutable_asynchronous(); }, "mode: asynchronous; must be synchronous"},
      {[](JobSpec& s) { s.clear_mode(); }, "mode: asynchronous; must be synchronous"},
      {[](JobSpec& s) { s.mutable_synchronous()->set_replicas(2); },
       "synchronous.replicas: 2; must be 4"},
      {[](JobSpec& s) { s.set_batch_size(64); }, "batch_size: 64; must be 32"},
      {[](JobSpec& s) { s.set_seed(6); }, "seed: 6; must be 5"},
      {[](JobSpec& s) { s.set_steps(39); }, "steps: 39; must be 40 steps or more"},
      {[](JobSpec& s) { s.set_epochs(3); }, "epochs: 3; must be 40 steps or more (here 30)"},
  };
  for (const Change& change : changes) {
    JobSpec spec = Spec();
    change.change(spec);
    const absl::Status status = CheckRestoredSpec(spec, Manifest());
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << change.refusal << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(change.refusal));
  }
}

TEST(RestoreCheckTest, WhatGivesAStepItsMeaningStaysAndTheRestMayChange) {
  const std::function<void(JobSpec&)> changes[] = {
      [](JobSpec&) {},
      [](JobSpec& s) { s.set_name("second"); },
      [](JobSpec& s) { s.set_steps(40); },
      [](JobSpec& s) { s.set_epochs(4); },
      [](JobSpec& s) { s.mutable_data()->set_directory("/elsewhere"); },
      [](JobSpec& s) { s.mutable_model()->add_metrics(ACCURACY); },
      [](JobSpec& s) { s.mutable_model()->mutable_layers(0)->set_trainable(false); },
      [](JobSpec& s) { s.mutable_optimizer()->mutable_sgd()->set_learning_rate(7); },
      [](JobSpec& s) { s.mutable_optimizer()->mutable_sgd()->set_momentum(0.5); },
      [](JobSpec& s) { s.mutable_optimizer()->mutable_sgd()->set_nesterov(true); },
      [](JobSpec& s) { s.mutable_optimizer()->mutable_schedule()->mutable_warmup(); },
      [](JobSpec& s) { s.mutable_optimizer()->set_clip_value(3); },
      [](JobSpec& s) { s.mutable_synchronous()->set_backup(2); },
      [](JobSpec& s) { s.mutable_evaluation()->set_every_steps(8); },
      [](JobSpec& s) { s.mutable_placement()->set_shards(8); },
      [](JobSpec& s) { s.mutable_cuts()->mutable_period()->set_seconds(1); },
      [](JobSpec& s) { s.mutable_checkpoints()->set_directory("/c"); },
      [](JobSpec& s) { s.mutable_precision()->set_compute(PrecisionSpec::BFLOAT16); },
      [](JobSpec& s) { s.mutable_precision()->set_wire(Encoding::BFLOAT16); },
  };
  for (const auto& change : changes) {
    JobSpec spec = Spec();
    change(spec);
    const absl::Status status = CheckRestoredSpec(spec, Manifest());
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(RestoreCheckTest, SlotsOfRmsPropStay) {
  CheckpointManifest manifest = Manifest();
  manifest.mutable_spec()->mutable_optimizer()->mutable_rmsprop();
  JobSpec spec = manifest.spec();
  spec.mutable_optimizer()->mutable_rmsprop()->set_rho(0.5);
  EXPECT_TRUE(CheckRestoredSpec(spec, manifest).ok());
  spec.mutable_optimizer()->mutable_rmsprop()->set_centered(true);
  EXPECT_THAT(std::string(CheckRestoredSpec(spec, manifest).message()),
              HasSubstr("optimizer.rmsprop.centered: true; must be false"));
}

TEST(RestoreCheckTest, SlotsOfEachOptimizerStayAndItsOtherNumbersMayChange) {
  struct Case {
    const char* before;
    const char* after;
    const char* refusal;  // Empty: it may change.
  };
  const Case cases[] = {
      {"adam {}", "adam { beta_1: 0.5 }", ""},
      {"adam {}", "adam { amsgrad: true }", "optimizer.adam.amsgrad: true; must be false"},
      {"adam {}", "adamw {}", "optimizer: adamw; must be adam"},
      {"adamw {}", "adamw { weight_decay: 0 } clip_value: 1", ""},
      {"adamw { amsgrad: true }", "adamw {}", "optimizer.adamw.amsgrad: false; must be true"},
      {"nadam {}", "nadam { epsilon: 1 } schedule { warmup { steps: 1 } }", ""},
      {"nadam {}", "adam {}", "optimizer: adam; must be nadam"},
      {"adagrad {}", "adagrad { initial_accumulator_value: 7 }", ""},
      {"adagrad {}", "sgd {}", "optimizer: sgd; must be adagrad"},
      {"adadelta {}", "adadelta { rho: 0.5 }", ""},
      {"adadelta {}", "adagrad {}", "optimizer: adagrad; must be adadelta"},
      {"ftrl { l1: 1 }", "ftrl { learning_rate_power: -1 }", ""},
      {"ftrl {}", "adagrad {}", "optimizer: adagrad; must be ftrl"},
      {"lamb {}", "lamb { beta_2: 0.9 } clip_norm: 1", ""},
      {"lamb {}", "adam {}", "optimizer: adam; must be lamb"},
      {"sgd {}", "sgd {} clip_norm: 1", ""},
  };
  for (const Case& c : cases) {
    CheckpointManifest manifest = Manifest();
    JobSpec spec = manifest.spec();
    OptimizerSpec* const saved = manifest.mutable_spec()->mutable_optimizer();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(c.before, saved));
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(c.after, spec.mutable_optimizer()));
    EXPECT_THAT(std::string(CheckRestoredSpec(spec, manifest).message()), StartsWith(c.refusal));
    EXPECT_EQ(CheckRestoredSpec(spec, manifest).ok(), std::string(c.refusal).empty()) << c.after;
  }
}

// The version that was the last one had fewer contributions; nobody could add the others.
TEST(RestoreCheckTest, EndInTheMiddleOfAVersionCannotBeGoneBeyond) {
  CheckpointManifest manifest = Manifest();
  manifest.mutable_spec()->set_steps(42);
  manifest.set_step(42);
  JobSpec spec = manifest.spec();
  EXPECT_TRUE(CheckRestoredSpec(spec, manifest).ok());
  spec.set_steps(50);
  EXPECT_THAT(std::string(CheckRestoredSpec(spec, manifest).message()),
              HasSubstr("steps: 50; must be 42 steps"));
}

TEST(RestoreCheckTest, VariablesAndDataMustBeTheSame) {
  JobPlan saved;
  saved.set_train_examples(10);
  saved.set_data_fingerprint(7);
  for (const char* name : {"w", "b"}) {
    VariableSpec& variable = *saved.add_variables();
    variable.set_name(name);
    variable.add_shape(3);
  }
  EXPECT_TRUE(CheckRestoredPlan(saved, saved).ok());
  JobPlan plan = saved;
  plan.mutable_variables(1)->add_shape(2);
  EXPECT_THAT(std::string(CheckRestoredPlan(plan, saved).message()),
              HasSubstr("variable 1 is 'b' [3, 2]; must be 'b' [3]"));
  plan = saved;
  plan.mutable_variables()->RemoveLast();
  EXPECT_THAT(std::string(CheckRestoredPlan(plan, saved).message()),
              HasSubstr("variable 1 is none; must be 'b' [3]"));
  plan = saved;
  plan.set_train_examples(11);
  EXPECT_THAT(std::string(CheckRestoredPlan(plan, saved).message()),
              HasSubstr("data.train: 11 examples; must be 10"));
  plan = saved;
  plan.set_data_fingerprint(8);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckRestoredPlan(plan, saved)));
  plan.set_data_fingerprint(0);
  EXPECT_TRUE(CheckRestoredPlan(plan, saved).ok()) << "0 is not known, and not compared";
  EXPECT_TRUE(CheckRestoredPlan(saved, plan).ok());
}

TEST(RestoreCheckTest, OtherVariablesMayBeFrozenButAStepMeansTheSameToTheOthers) {
  JobPlan saved;
  saved.set_train_examples(10);
  VariableSpec& variable = *saved.add_variables();
  variable.set_name("w");
  JobPlan frozen = saved;
  frozen.mutable_variables(0)->mutable_update()->mutable_frozen();
  JobPlan average = saved;
  average.mutable_variables(0)->mutable_update()->mutable_moving_average()->set_momentum(0.9);
  JobPlan slower = average;
  slower.mutable_variables(0)->mutable_update()->mutable_moving_average()->set_momentum(0.99);
  for (const JobPlan& other : {saved, average}) {
    EXPECT_TRUE(CheckRestoredPlan(frozen, other).ok());
    EXPECT_TRUE(CheckRestoredPlan(other, frozen).ok());
  }
  EXPECT_TRUE(CheckRestoredPlan(average, slower).ok());
  EXPECT_EQ(CheckRestoredPlan(average, saved),
            absl::InvalidArgumentError("model: a step brings a statistic for its variable 0, 'w' "
                                       "[]; must be a gradient as in the checkpoint (restore)"));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckRestoredPlan(saved, average)));
}

}  // namespace
}  // namespace millrace::coordinator
