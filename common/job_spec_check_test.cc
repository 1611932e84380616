#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kJob[] = R"(
name: "good"
model {
  layers { conv2d { filters: 8 kernel_size: [3, 3] strides: 2 } }
  layers { max_pool2d { pool_size: 2 strides: [2, 1] } }
  layers { flatten {} }
  layers { dropout { rate: 0.25 } }
  layers { dense { units: 1 } }
  layers { activation {} }
  loss: BINARY_CROSSENTROPY
  metrics: [ACCURACY, AUC]
}
data {
  directory: "/data"
  train { libsvm { file: "a9a" features: 123 } }
  evaluate { idx { images: "i" labels: "l" } range { begin: 3 end: 4 } }
}
optimizer { sgd {} }
batch_size: 1
steps: 1
)";

class CheckJobSpecTest : public ::testing::Test {
 protected:
  CheckJobSpecTest() { EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kJob, &spec_)); }

  // Applies assignments, as SetField takes them, to a good job.
  JobSpec With(const std::vector<std::string>& assignments) {
    JobSpec spec = spec_;
    for (const std::string& assignment : assignments) {
      const absl::Status status = SetField(assignment, &spec);
      EXPECT_TRUE(status.ok()) << status;
    }
    return spec;
  }

  std::string ErrorOf(const JobSpec& spec) {
    const absl::Status status = CheckJobSpec(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << spec.ShortDebugString();
    return std::string(status.message());
  }

  std::string ErrorOf(const std::string& assignment) { return ErrorOf(With({assignment})); }

  void ExpectGood(const std::vector<std::string>& assignments) {
    const absl::Status status = CheckJobSpec(With(assignments));
    EXPECT_TRUE(status.ok()) << status;
  }

  JobSpec spec_;
};

TEST_F(CheckJobSpecTest, GoodJobsPass) {
  ExpectGood({});
  ExpectGood({"name=", "epochs=9007199254740992"});
  ExpectGood({"synchronous.replicas=4096"});
  ExpectGood({"asynchronous.staleness_bound=0"});
  ExpectGood({"cuts.period=1ns"});
  ExpectGood({"data.train.range.begin=7"});
  ExpectGood({"data.directory=", "data.train.libsvm.file=/a", "data.evaluate.idx.images=/b",
              "data.evaluate.idx.labels=/c"});
}

TEST_F(CheckJobSpecTest, LayersAreBounded) {
  for (int i = 0; i < 10001; ++i) spec_.mutable_model()->add_layers()->mutable_flatten();
  const int layers = spec_.model().layers_size();
  EXPECT_EQ(ErrorOf(spec_),
            absl::StrCat("model.layers: ", layers, " layers; must be at most 10000"));
}

TEST_F(CheckJobSpecTest, Names) {
  EXPECT_EQ(ErrorOf("name=a b"),
            "name: 'a b'; must be at most 100 letters, digits, '_', '-' and '.'");
  EXPECT_THAT(ErrorOf("name=" + std::string(101, 'x')), StartsWith("name: 'xxx"));
  EXPECT_THAT(ErrorOf("model.layers[0].name=a/b"), StartsWith("model.layers[0].name: 'a/b';"));
}

TEST_F(CheckJobSpecTest, Layers) {
  EXPECT_EQ(ErrorOf("model.layers[4].dense.units=0"),
            "model.layers[4].dense.units: 0; must be at least 1");
  EXPECT_EQ(ErrorOf("model.layers[4].dense.units=16777217"),
            "model.layers[4].dense.units: 16777217; must be from 1 to 16777216");
  EXPECT_THAT(ErrorOf("model.layers[0].conv2d.filters=0"), HasSubstr("conv2d.filters: 0;"));
  EXPECT_EQ(
      ErrorOf("model.layers[0].conv2d.kernel_size="),
      "model.layers[0].conv2d.kernel_size: 0 numbers; must be one number, or height and width");
  EXPECT_THAT(ErrorOf("model.layers[0].conv2d.kernel_size=3,0"),
              HasSubstr("kernel_size[1]: 0; must be at least 1"));
  EXPECT_THAT(ErrorOf("model.layers[0].conv2d.strides=1,1,1"), HasSubstr("strides: 3 numbers;"));
  EXPECT_THAT(ErrorOf("model.layers[1].max_pool2d.pool_size=0"), HasSubstr("pool_size[0]: 0;"));
  EXPECT_THAT(ErrorOf("model.layers[1].max_pool2d.strides=70000"), HasSubstr("strides[0]: 70000;"));
  EXPECT_THAT(ErrorOf("model.layers[2]={}"),
              StartsWith("model.layers[2]: not set; must be one of"));
  for (const char* rate : {"1", "-0.1", "nan", "inf", "0.99999999999"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("model.layers[3].dropout.rate=", rate)),
                HasSubstr("dropout.rate: "))
        << rate;
  }
  JobSpec spec = spec_;
  spec.mutable_model()->clear_layers();
  EXPECT_EQ(ErrorOf(spec),
            "model.layers: not set; must be at least one layer, or model.custom set in their "
            "place");
}

TEST_F(CheckJobSpecTest, DilationIsWithoutStridesAndGroupsDivideTheFilters) {
  ExpectGood({"model.layers[0].conv2d.strides=1", "model.layers[0].conv2d.dilation_rate=2,3",
              "model.layers[0].conv2d.groups=4"});
  EXPECT_EQ(ErrorOf("model.layers[0].conv2d.dilation_rate=1,2"),
            "model.layers[0].conv2d.dilation_rate: [1, 2]; must be 1, since strides is 2");
  EXPECT_THAT(ErrorOf("model.layers[0].conv2d.dilation_rate=0"),
              HasSubstr("conv2d.dilation_rate[0]: 0; must be at least 1"));
  EXPECT_EQ(ErrorOf("model.layers[0].conv2d.groups=3"),
            "model.layers[0].conv2d.groups: 3; must be a divisor of filters, 8");
}

TEST_F(CheckJobSpecTest, DepthwiseConvolutions) {
  const auto error = [&](const std::string& fields) {
    return ErrorOf("model.layers[0]={depthwise_conv2d {" + fields + "}}");
  };
  ExpectGood({"model.layers[0]={depthwise_conv2d {kernel_size: 3 strides: [2, 2]}}"});
  EXPECT_EQ(error(""),
            "model.layers[0].depthwise_conv2d.kernel_size: 0 numbers; must be one number, or "
            "height and width");
  EXPECT_EQ(error("kernel_size: 3 strides: [1, 2]"),
            "model.layers[0].depthwise_conv2d.strides: [1, 2]; must be equal for height and width");
  EXPECT_EQ(error("kernel_size: 3 strides: 2 dilation_rate: 2"),
            "model.layers[0].depthwise_conv2d.dilation_rate: 2; must be 1, since strides is 2");
  EXPECT_EQ(error("kernel_size: 3 depth_multiplier: 16777217"),
            "model.layers[0].depthwise_conv2d.depth_multiplier: 16777217; must be from 0 to "
            "16777216");
  EXPECT_EQ(error("kernel_size: 3 depthwise_regularizer { l2: -1 }"),
            "model.layers[0].depthwise_conv2d.depthwise_regularizer.l2: -1; must be a finite "
            "number, at least 0");
  EXPECT_THAT(error("kernel_size: 3 bias_regularizer { l1: inf }"),
              HasSubstr("depthwise_conv2d.bias_regularizer.l1: inf;"));
}

TEST_F(CheckJobSpecTest, LayersOfSequences) {
  const auto error = [&](const std::string& layer) {
    return ErrorOf("model.layers[0]={" + layer + "}");
  };
  ExpectGood({"model.layers[0]={conv1d {filters: 4 kernel_size: 2 padding: CAUSAL groups: 2}}"});
  ExpectGood({"model.layers[0]={max_pool1d {}}"});
  ExpectGood({"model.layers[0]={global_max_pooling1d {}}"});
  ExpectGood({"model.layers[0]={global_average_pooling1d {}}"});
  EXPECT_EQ(error("conv1d {filters: 4}"),
            "model.layers[0].conv1d.kernel_size: 0; must be at least 1");
  EXPECT_EQ(error("conv1d {kernel_size: 4}"),
            "model.layers[0].conv1d.filters: 0; must be at least 1");
  EXPECT_EQ(error("conv1d {filters: 4 kernel_size: 2 groups: 3}"),
            "model.layers[0].conv1d.groups: 3; must be a divisor of filters, 4");
  EXPECT_EQ(error("conv1d {filters: 4 kernel_size: 2 strides: 2 dilation_rate: 3}"),
            "model.layers[0].conv1d.dilation_rate: 3; must be 1, since strides is 2");
  EXPECT_EQ(error("conv1d {filters: 4 kernel_size: 2 strides: 70000}"),
            "model.layers[0].conv1d.strides: 70000; must be from 0 to 65536");
  EXPECT_THAT(error("conv1d {filters: 4 kernel_size: 2 kernel_regularizer { l2: -1 }}"),
              HasSubstr("conv1d.kernel_regularizer.l2: -1;"));
  EXPECT_THAT(error("max_pool1d {pool_size: 70000}"), HasSubstr("max_pool1d.pool_size: 70000;"));
  EXPECT_THAT(error("average_pooling1d {strides: 70000}"),
              HasSubstr("average_pooling1d.strides: 70000;"));
}

TEST_F(CheckJobSpecTest, CausalPaddingIsOfConv1D) {
  for (const char* layer :
       {"conv2d {filters: 1 kernel_size: 3 ", "depthwise_conv2d {kernel_size: 3 ", "max_pool2d {",
        "average_pooling2d {", "max_pool1d {", "average_pooling1d {"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("model.layers[0]={", layer, "padding: CAUSAL}}")),
                HasSubstr(".padding: CAUSAL; must be VALID or SAME"));
  }
}

TEST_F(CheckJobSpecTest, PermutationsHaveEachDimensionOnce) {
  ExpectGood({"model.layers[0]={permute {dims: [2, 3, 1]}}"});
  EXPECT_EQ(ErrorOf("model.layers[0]={permute {dims: [1, 1]}}"),
            "model.layers[0].permute.dims: [1, 1]; must be each of 1 to 2 once");
  EXPECT_EQ(ErrorOf("model.layers[0]={permute {dims: [0, 1]}}"),
            "model.layers[0].permute.dims: [0, 1]; must be each of 1 to 2 once");
  EXPECT_THAT(ErrorOf("model.layers[0]={permute {}}"), HasSubstr("permute.dims: not set; must be"));
}

TEST_F(CheckJobSpecTest, RegularizersOfEmbeddingsAndNormalizations) {
  const auto error = [&](const std::string& layer) {
    return ErrorOf("model.layers[0]={" + layer + "}");
  };
  EXPECT_EQ(error("embedding {input_dim: 4 output_dim: 2 embeddings_regularizer { l1: -1 }}"),
            "model.layers[0].embedding.embeddings_regularizer.l1: -1; must be a finite number, at "
            "least 0");
  for (const char* kind : {"batch_normalization", "layer_normalization"}) {
    EXPECT_THAT(error(absl::StrCat(kind, " {beta_regularizer { l1: nan }}")),
                HasSubstr(absl::StrCat(kind, ".beta_regularizer.l1: nan;")));
    EXPECT_THAT(error(absl::StrCat(kind, " {gamma_regularizer { l2: -1 }}")),
                HasSubstr(absl::StrCat(kind, ".gamma_regularizer.l2: -1;")));
    EXPECT_THAT(error(absl::StrCat(kind, " {epsilon: 0}")), HasSubstr(".epsilon: 0;"));
  }
}

TEST_F(CheckJobSpecTest, CustomModelNeedsNoMoreThanItsName) {
  JobSpec spec = spec_;
  spec.mutable_model()->clear_layers();
  spec.mutable_model()->clear_loss();
  spec.mutable_model()->mutable_custom()->set_name("own");
  EXPECT_EQ(CheckJobSpec(spec), absl::OkStatus());
  // What it may have beside it is checked as ever.
  spec.mutable_model()->add_layers()->mutable_dense();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("model.layers[0].dense.units: 0;"));
}

TEST_F(CheckJobSpecTest, NamesAndOptionsOfCustomModels) {
  EXPECT_EQ(ErrorOf("model.custom={}"), "model.custom.name: not set; must be a name");
  EXPECT_THAT(ErrorOf("model.custom.name=a b"), HasSubstr("model.custom.name: 'a b';"));
  EXPECT_EQ(ErrorOf("model.custom={name: 'own' options {value: '1'}}"),
            "model.custom.options[0].name: not set; must be a name");
  EXPECT_EQ(ErrorOf("model.custom={name: 'own' options {name: 'a'} options {name: 'a'}}"),
            "model.custom.options[1].name: 'a'; must be different from the names of the options "
            "before it");
  const std::string value(1001, 'x');
  EXPECT_EQ(
      ErrorOf(absl::StrCat("model.custom={name: 'own' options {name: 'a' value: '", value, "'}}")),
      "model.custom.options[0].value: 1001 bytes; must be at most 1000");
  JobSpec spec = spec_;
  CustomModel& custom = *spec.mutable_model()->mutable_custom();
  custom.set_name("own");
  for (int i = 0; i < 101; ++i) custom.add_options()->set_name(absl::StrCat("o", i));
  EXPECT_EQ(ErrorOf(spec), "model.custom.options: 101 options; must be at most 100");
}

TEST_F(CheckJobSpecTest, LayerNamesDifferAlsoFromThoseThatAreMadeUp) {
  EXPECT_EQ(
      ErrorOf("model.layers[0].name=dense_4"),
      "model.layers[4].name: 'dense_4'; must be different from the names of the layers before "
      "it");
  ExpectGood({"model.layers[0].name=dense_3"});
}

TEST_F(CheckJobSpecTest, LossAndMetrics) {
  EXPECT_THAT(ErrorOf("model.loss=LOSS_UNSPECIFIED"),
              StartsWith("model.loss: not set; must be one of SPARSE_CATEGORICAL_CROSSENTROPY,"));
  EXPECT_THAT(ErrorOf("model.metrics=METRIC_UNSPECIFIED"),
              StartsWith("model.metrics[0]: not set;"));
  EXPECT_EQ(ErrorOf("model.metrics=AUC,AUC"), "model.metrics[1]: AUC; must be named once");
  EXPECT_THAT(ErrorOf("model.loss=SPARSE_CATEGORICAL_CROSSENTROPY"),
              StartsWith("model.metrics[1]: AUC;"));
}

TEST_F(CheckJobSpecTest, Data) {
  EXPECT_EQ(
      ErrorOf("data.train={}"),
      "data.train: not set; must be idx, libsvm, cifar, numpy, csv, tfrecord or image_folder");
  EXPECT_EQ(ErrorOf("data.train.libsvm.file="),
            "data.train.libsvm.file: not set; must be the name of a file");
  EXPECT_THAT(ErrorOf("data.evaluate.idx.labels="),
              StartsWith("data.evaluate.idx.labels: not set"));
  EXPECT_EQ(ErrorOf("data.train.libsvm.features=0"),
            "data.train.libsvm.features: 0; must be at least 1");
  EXPECT_EQ(ErrorOf("data.directory="),
            "data.directory: not set; must be the folder of 'a9a' (millrace --data=DIR sets it)");
  EXPECT_EQ(ErrorOf("data.evaluate.range.begin=4"),
            "data.evaluate.range: [4, 4); must be not empty: begin below end, or end 0 for all the "
            "rest");
}

TEST_F(CheckJobSpecTest, ListsOfFiles) {
  ExpectGood({"data.train.cifar.files=a,b-*"});
  EXPECT_EQ(ErrorOf("data.train.cifar.label=CIFAR_10"),
            "data.train.cifar.files: not set; must be the names of files");
  EXPECT_EQ(ErrorOf("data.train.cifar={files: ['a', '']}"),
            "data.train.cifar.files[1]: not set; must be the name of a file");
}

TEST_F(CheckJobSpecTest, NumpyArrays) {
  ExpectGood({"data.train.numpy={features {files: 'a'} features {name: 'b' files: ['c', 'd']}}"});
  EXPECT_EQ(ErrorOf("data.train.numpy={label {files: 'a'}}"),
            "data.train.numpy.features: not set; must be at least one");
  EXPECT_EQ(ErrorOf("data.train.numpy={features {name: 'a'}}"),
            "data.train.numpy.features[0].files: not set; must be the names of files");
  EXPECT_EQ(ErrorOf("data.train.numpy={features {files: 'a'} features {files: 'b'}}"),
            "data.train.numpy.features[1].name: 'features'; must be different from the names of "
            "the features before it");
  EXPECT_EQ(ErrorOf("data.train.numpy={features {files: 'a' divide_by: -1}}"),
            "data.train.numpy.features[0].divide_by: -1; must be a finite number above 0, or not "
            "set");
  EXPECT_EQ(ErrorOf("data.train.numpy={features {files: 'a' divide_by: 1e-300}}"),
            "data.train.numpy.features[0].divide_by: 1e-300; must be a finite number above 0 as a "
            "float32, or not set");
}

TEST_F(CheckJobSpecTest, LabelsOfArrays) {
  const auto labels = [](const std::string& text) {
    return absl::StrCat("data.train.numpy={features {files: 'a'} ", text, "}");
  };
  spec_.mutable_data()->clear_evaluate();  // Its label has another name.
  ExpectGood({labels("label {files: 'a' name: 'features'}")});
  EXPECT_EQ(ErrorOf(labels("label {}")),
            "data.train.numpy.label.files: not set; must be the names of files");
  EXPECT_EQ(ErrorOf(labels("label {files: 'a' divide_by: -1}")),
            "data.train.numpy.label.divide_by: -1; must be a finite number above 0, or not set");
  EXPECT_EQ(ErrorOf(labels("label {files: 'a'} label {name: 'b'}")),
            "data.train.numpy.label[1].files: not set; must be the names of files");
  EXPECT_EQ(ErrorOf(labels("label {files: 'a'} label {files: 'b'}")),
            "data.train.numpy.label[1].name: 'label'; must be different from the names of the "
            "labels before it");
}

TEST_F(CheckJobSpecTest, FeaturesOfRecords) {
  const auto error = [this](const std::string& features) {
    return ErrorOf(absl::StrCat("data.train.tfrecord={files: 'a' ", features, "}"));
  };
  spec_.mutable_data()->clear_evaluate();  // Its label has another name.
  ExpectGood(
      {"data.train.tfrecord={files: 'a' features {key: 'x/y' type: FLOAT shape: [2, 3] "
       "missing: -1} features {key: 'x/y' name: 'z' type: INT64 ragged: true} "
       "label {key: 'x/y' type: INT64 missing: 3}}"});
  EXPECT_EQ(error(""), "data.train.tfrecord.features: not set; must be at least one");
  EXPECT_EQ(error("features {key: 'x'}"),
            "data.train.tfrecord.features[0].type: not set; must be one of FLOAT, INT64, BYTES");
  EXPECT_EQ(error("features {type: FLOAT}"),
            "data.train.tfrecord.features[0].key: not set; must be a feature of the examples");
  EXPECT_THAT(error("features {key: 'x' type: FLOAT} features {key: 'x' type: FLOAT}"),
              StartsWith("data.train.tfrecord.features[1].key: 'x'; must be different"));
  EXPECT_THAT(error("features {key: 'x' type: FLOAT shape: [99999999, 99999999]}"),
              StartsWith("data.train.tfrecord.features[0].shape: it has 99999999; must be"));
  EXPECT_THAT(error("features {key: 'x' type: FLOAT ragged: true}"),
              StartsWith("data.train.tfrecord.features[0].ragged: true; must be false"));
  EXPECT_THAT(error("features {key: 'x' type: INT64 missing: 0.5}"),
              StartsWith("data.train.tfrecord.features[0].missing: 0.5; must be a whole number"));
  EXPECT_THAT(error("features {key: 'x' type: BYTES missing: 0}"),
              StartsWith("data.train.tfrecord.features[0].missing: 0; must be not set"));
  EXPECT_THAT(error("features {key: 'x' type: INT64 divide_by: 2}"),
              StartsWith("data.train.tfrecord.features[0].divide_by: 2; must be not set"));
  EXPECT_EQ(error("features {key: 'x' type: INT64} label {key: 'y' type: BYTES}"),
            "data.train.tfrecord.label.type: BYTES; must be FLOAT or INT64 of a label");
  EXPECT_EQ(error("features {key: 'x' type: INT64} label {key: 'y' type: FLOAT} "
                  "label {key: 'z' name: 'y' type: FLOAT}"),
            "data.train.tfrecord.label[1].name: 'y'; must be different from the names of the "
            "labels before it");
}

TEST_F(CheckJobSpecTest, HoldOut) {
  const std::string train = "data.train.hold_out={fraction: 0.1 seed: 7 part: REST}";
  ExpectGood({train, "data.evaluate.hold_out={fraction: 0.1 seed: 7 part: HELD_OUT}"});
  ExpectGood({train, "data.evaluate.hold_out={fraction: 0.2 seed: 8 part: REST}"});
  EXPECT_EQ(ErrorOf("data.train.hold_out={seed: 7 part: REST}"),
            "data.train.hold_out.fraction: 0; must be above 0 and below 1");
  EXPECT_THAT(ErrorOf("data.train.hold_out={fraction: nan part: REST}"),
              StartsWith("data.train.hold_out.fraction: nan; must be"));
  EXPECT_EQ(ErrorOf("data.evaluate.hold_out={fraction: 0.5}"),
            "data.evaluate.hold_out.part: not set; must be one of REST, HELD_OUT");
  EXPECT_EQ(ErrorOf(With({train, "data.evaluate.hold_out={fraction: 0.2 seed: 7 part: HELD_OUT}"})),
            "data.evaluate.hold_out.fraction: 0.2; must be 0.1 as in data.train.hold_out");
  EXPECT_EQ(ErrorOf(With({train, "data.evaluate.hold_out={fraction: 0.1 seed: 8 part: HELD_OUT}"})),
            "data.evaluate.hold_out.seed: 8; must be 7 as in data.train.hold_out");
}

// A spec with a path of 1.5 MB was taken, and cost the coordinator three times that.
TEST_F(CheckJobSpecTest, PathsAreBounded) {
  const std::string longest(4096, 'p');
  const std::string field_names[] = {"data.directory", "data.train.libsvm.file",
                                     "data.evaluate.idx.images", "data.evaluate.idx.labels"};
  for (const std::string& field : field_names) {
    ExpectGood({absl::StrCat(field, "=", longest)});
    EXPECT_EQ(ErrorOf(absl::StrCat(field, "=", longest, "p")),
              absl::StrCat(field, ": 4097 bytes; must be at most 4096 bytes"));
  }
}

TEST_F(CheckJobSpecTest, Mode) {
  EXPECT_EQ(ErrorOf("synchronous={}"), "synchronous.replicas: 0; must be at least 1");
  EXPECT_EQ(ErrorOf("synchronous.replicas=4097"),
            "synchronous.replicas: 4097; must be from 1 to 4096");
  EXPECT_EQ(ErrorOf("synchronous={replicas: 1 backup: 1025}"),
            "synchronous.backup: 1025; must be from 0 to 1024");
  EXPECT_THAT(ErrorOf("asynchronous.staleness_bound=4000000000"),
              StartsWith("asynchronous.staleness_bound: 4000000000;"));
  ExpectGood({"synchronous.replicas=1", "synchronous.backup=1024"});
  EXPECT_EQ(ErrorOf(With({"synchronous.replicas=1", "synchronous.backup=1025"})),
            "synchronous.backup: 1025; must be from 0 to 1024");
}

TEST_F(CheckJobSpecTest, Numbers) {
  EXPECT_EQ(ErrorOf("batch_size=0"), "batch_size: 0; must be at least 1");
  EXPECT_THAT(ErrorOf("batch_size=4000000000"), StartsWith("batch_size: 4000000000;"));
  EXPECT_EQ(ErrorOf("epochs=0"), "epochs: 0; must be at least 1");
  EXPECT_EQ(ErrorOf("steps=0"), "steps: 0; must be at least 1");
  EXPECT_THAT(ErrorOf("steps=9007199254740993"), StartsWith("steps: 9007199254740993;"));
  EXPECT_THAT(ErrorOf("evaluation.batch_size=4000000000"), StartsWith("evaluation.batch_size:"));
  EXPECT_THAT(ErrorOf("placement.shards=65537"), StartsWith("placement.shards: 65537;"));
  JobSpec spec = spec_;
  spec.clear_steps();
  EXPECT_EQ(ErrorOf(spec), "epochs: not set; must be at least 1, or `steps` set in its place");
}

TEST_F(CheckJobSpecTest, CutPeriods) {
  EXPECT_EQ(ErrorOf("cuts.period=0s"),
            "cuts.period: 0; must be a duration above 0, of at most 315576000000s");
  EXPECT_THAT(ErrorOf("cuts.period=-1s"), StartsWith("cuts.period: -1s;"));
  JobSpec spec = spec_;
  spec.mutable_cuts()->mutable_period()->set_seconds(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(ErrorOf(spec), StartsWith("cuts.period:"));
  spec.mutable_cuts()->mutable_period()->set_seconds(1);
  spec.mutable_cuts()->mutable_period()->set_nanos(-1);
  EXPECT_EQ(ErrorOf(spec),
            "cuts.period: seconds: 1 nanos: -1; must be a duration above 0, of at most "
            "315576000000s, the nanos a part of a second of its sign");
  spec.mutable_cuts()->mutable_period()->set_seconds(315576000001);
  spec.mutable_cuts()->mutable_period()->set_nanos(0);
  EXPECT_THAT(ErrorOf(spec), StartsWith("cuts.period: seconds: 315576000001 nanos: 0; must be"));
}

TEST_F(CheckJobSpecTest, Checkpoints) {
  ExpectGood({"checkpoints.directory=/runs/1", "checkpoints.every_steps=1000",
              "checkpoints.period=10m", "checkpoints.keep=1", "checkpoints.keep_one_every=1s",
              "checkpoints.exact=true"});
  EXPECT_EQ(ErrorOf("checkpoints.directory=runs/1"),
            "checkpoints.directory: 'runs/1'; must be an absolute path");
  JobSpec spec = With({"checkpoints.directory=/runs/1"});
  spec.mutable_checkpoints()->mutable_directory()->append("\0x", 2);
  EXPECT_EQ(ErrorOf(spec),
            "checkpoints.directory: '/runs/1\\x00x'; must be a path that has no byte that is 0");
  EXPECT_EQ(ErrorOf("checkpoints.directory=/" + std::string(4096, 'x')),
            "checkpoints.directory: 4097 bytes; must be at most 4096 bytes");
  EXPECT_EQ(ErrorOf("checkpoints.every_steps=5"),
            "checkpoints.directory: not set; must be an absolute path, where other fields of "
            "checkpoints are set");
  EXPECT_EQ(ErrorOf("checkpoints.period=0s"),
            "checkpoints.period: 0; must be a duration above 0, of at most 315576000000s");
  EXPECT_EQ(ErrorOf("checkpoints.keep_one_every=999ms"),
            "checkpoints.keep_one_every: 999ms; must be a duration of at least 1s, of at most "
            "315576000000s");
}

TEST_F(CheckJobSpecTest, WhereTheJobBegins) {
  ExpectGood({"restore.directory=/runs/1", "restore.checkpoint=17"});
  EXPECT_EQ(ErrorOf("restore.checkpoint=17"),
            "restore.directory: not set; must be an absolute path");
  EXPECT_EQ(ErrorOf("restore.directory=."), "restore.directory: '.'; must be an absolute path");
  EXPECT_EQ(ErrorOf("warm_start.allow_missing=true"),
            "warm_start.path: not set; must be an absolute path");
  EXPECT_EQ(ErrorOf(With({"warm_start.path=/w", "restore.directory=/runs/1"})),
            "warm_start: set, and so is restore; must be left out, or restore left out");
}

TEST_F(CheckJobSpecTest, RulesOfNames) {
  const auto with_rule = [&](const std::string& pattern, const std::string& replacement) {
    JobSpec spec = With({"warm_start.path=/w"});
    spec.mutable_warm_start()->add_rules()->set_pattern("head/.*");
    NameRule& rule = *spec.mutable_warm_start()->add_rules();
    rule.set_pattern(pattern);
    rule.set_replacement(replacement);
    return spec;
  };
  EXPECT_TRUE(CheckJobSpec(with_rule("encoder/(.*)", "body/\\1")).ok());
  EXPECT_THAT(ErrorOf(with_rule("encoder/(.*", "")),
              AllOf(StartsWith("warm_start.rules[1].pattern: 'encoder/(.*' ("),
                    HasSubstr("must be a regular expression in RE2's syntax")));
  EXPECT_THAT(ErrorOf(with_rule("encoder/(.*)", "body/\\2")),
              AllOf(StartsWith("warm_start.rules[1].replacement: 'body/\\\\2' ("),
                    HasSubstr("must be a name in which \\1 to \\1 stand for groups")));
}

TEST_F(CheckJobSpecTest, Optimizer) {
  EXPECT_THAT(ErrorOf("optimizer={}"), StartsWith("optimizer: not set; must be sgd,"));
  EXPECT_EQ(ErrorOf("optimizer.schedule.warmup.steps=0"),
            "optimizer.schedule.warmup.steps: 0; must be at least 1");
}

TEST_F(CheckJobSpecTest, LayersOfGraphsAreChecked) {
  JobSpec spec = spec_;
  LayerSpec* layer = spec.mutable_model()->mutable_layers(4);
  layer->add_inputs("");
  EXPECT_EQ(ErrorOf(spec),
            "model.layers[4].inputs[0]: not set; must be the name of a layer or of a feature of "
            "the data");
  layer->clear_inputs();
  layer->mutable_dense()->mutable_kernel_regularizer()->set_l2(-1);
  EXPECT_EQ(ErrorOf(spec),
            "model.layers[4].dense.kernel_regularizer.l2: -1; must be a finite number, at least 0");
  layer->mutable_dense()->mutable_kernel_regularizer()->set_l2(1e300);
  EXPECT_EQ(ErrorOf(spec),
            "model.layers[4].dense.kernel_regularizer.l2: 1e+300; must be a finite number, at "
            "least 0, as a float32");
  layer->mutable_batch_normalization()->set_momentum(1);
  EXPECT_THAT(ErrorOf(spec),
              ::testing::StartsWith("model.layers[4].batch_normalization.momentum: 1; must be"));
  layer->mutable_embedding()->set_output_dim(3);
  EXPECT_EQ(ErrorOf(spec), "model.layers[4].embedding.input_dim: 0; must be at least 1");
}

TEST_F(CheckJobSpecTest, EnumValuesOfNewerClientsAreRefused) {
  JobSpec spec = spec_;
  spec.mutable_model()->mutable_layers(4)->mutable_dense()->set_activation(
      static_cast<Activation>(17));
  EXPECT_EQ(ErrorOf(spec),
            "model.layers[4].dense.activation: 17; must be one of LINEAR, RELU, SIGMOID, SOFTMAX, "
            "TANH, RELU6, ELU, LEAKY_RELU, SILU, GELU, GELU_TANH");
  spec = spec_;
  spec.mutable_model()->add_metrics(static_cast<Metric>(-3));
  EXPECT_EQ(ErrorOf(spec),
            absl::StrCat("model.metrics[2]: -3; must be one of ",
                         "ACCURACY, AUC, TOP_K_ACCURACY, PRECISION, RECALL, MAE, MSE, "
                         "RMSE, CONFUSION_MATRIX"));
  spec = spec_;
  spec.mutable_precision()->set_compute(static_cast<PrecisionSpec::Compute>(3));
  EXPECT_EQ(ErrorOf(spec), "precision.compute: 3; must be one of FLOAT32, TF32, BFLOAT16");
  spec.mutable_precision()->set_compute(PrecisionSpec::FLOAT32);
  spec.mutable_precision()->set_wire(static_cast<Encoding::Kind>(4));
  EXPECT_EQ(ErrorOf(spec), "precision.wire: 4; must be one of FLOAT32, FLOAT16, BFLOAT16");
}

TEST_F(CheckJobSpecTest, EveryPrecisionIsGood) {
  for (const char* compute : {"FLOAT32", "TF32", "BFLOAT16"}) {
    ExpectGood({absl::StrCat("precision.compute=", compute)});
  }
}

TEST_F(CheckJobSpecTest, LabelsOfOutputsAndOfTheEvaluation) {
  const std::string train = "data.train.numpy={features {files: 'a'} label {files: 'a' name: 'y'}}";
  EXPECT_EQ(ErrorOf(train), "data.evaluate: labels 'label'; must be labels 'y', as in data.train");
  spec_.mutable_model()->clear_loss();
  spec_.mutable_model()->clear_metrics();
  EXPECT_EQ(ErrorOf("model.outputs={loss: HUBER label: 'size'}"),
            "model.outputs[0].label: 'size'; must be 'label', the only label of data.train, or "
            "left out");
}

TEST_F(CheckJobSpecTest, FieldsOfNewerClientsAreRefused) {
  JobSpec spec = spec_;
  // Not a spec's own unknown field, but one that came over the wire.
  const std::string field_99 = {'\x98', '\x06', '\x01'};
  ASSERT_TRUE(spec.mutable_model()->mutable_layers(0)->MergeFromString(field_99));
  EXPECT_THAT(ErrorOf(spec), StartsWith("job has unknown field 99 in model.layers[0]; this program "
                                        "is older"));
  spec = spec_;
  ASSERT_TRUE(spec.MergeFromString(field_99));
  EXPECT_THAT(ErrorOf(spec), StartsWith("job has unknown field 99; this program is older"));
}

}  // namespace
}  // namespace millrace
