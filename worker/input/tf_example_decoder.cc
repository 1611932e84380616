#include "worker/input/tf_example_decoder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/data_labels.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "google/protobuf/arena.h"
#include "protos/example.pb.h"

namespace millrace::worker {
namespace {

using ::google::protobuf::Arena;

TensorSpec DescribeTfFeature(const RecordFeature& feature) {
  TensorSpec tensor;
  tensor.name = TensorName(feature);
  tensor.shape.assign(feature.shape().begin(), feature.shape().end());
  tensor.ragged = feature.ragged();
  if (feature.type() == RecordFeature::INT64) tensor.type = ElementType::kId;
  if (feature.type() == RecordFeature::BYTES && !(feature.divide_by() > 0)) {
    tensor.type = ElementType::kByte;
  }
  return tensor;
}

const char* KindName(tfrecord::Feature::KindCase kind) {
  switch (kind) {
    case tfrecord::Feature::kBytesList:
      return "a bytes_list";
    case tfrecord::Feature::kFloatList:
      return "a float_list";
    case tfrecord::Feature::kInt64List:
      return "an int64_list";
    case tfrecord::Feature::KIND_NOT_SET:
      break;
  }
  return "nothing";
}

// One declared feature, and where its values go.
class TfFeatureDecoder {
 public:
  TfFeatureDecoder(const RecordFeature& feature, bool is_label, size_t index)
      : feature_(feature), is_label_(is_label), index_(index) {
    for (const uint64_t dimension : feature.shape()) elements_ *= dimension;
    if (feature.divide_by() > 0) divisor_ = static_cast<float>(feature.divide_by());
  }

  const std::string& key() const { return feature_.key(); }

  // `value`: null where the example has no such feature.
  absl::Status Append(const tfrecord::Feature* value, Batch* batch) const {
    Tensor& tensor = (is_label_ ? batch->labels : batch->features)[index_];
    const auto kind = IsMissing(value) ? tfrecord::Feature::KIND_NOT_SET : value->kind_case();
    if (kind == tfrecord::Feature::KIND_NOT_SET) return AppendMissing(&tensor);
    switch (feature_.type()) {
      case RecordFeature::FLOAT:
        if (kind == tfrecord::Feature::kFloatList) {
          return AppendFloats(value->float_list().value(), &tensor);
        }
        if (kind == tfrecord::Feature::kInt64List) {
          return AppendFloats(value->int64_list().value(), &tensor);
        }
        return OtherKind(kind, "a float_list or an int64_list");
      case RecordFeature::BYTES:
        if (kind != tfrecord::Feature::kBytesList) return OtherKind(kind, "a bytes_list");
        return AppendBytes(value->bytes_list(), &tensor);
      default:
        if (kind != tfrecord::Feature::kInt64List) return OtherKind(kind, "an int64_list");
        return AppendIds(value->int64_list(), &tensor);
    }
  }

 private:
  static bool IsMissing(const tfrecord::Feature* value) {
    return value == nullptr ||
           (value->bytes_list().value().empty() && value->float_list().value().empty() &&
            value->int64_list().value().empty());
  }

  absl::Status AppendMissing(Tensor* tensor) const {
    if (feature_.ragged()) {
      tensor->ends.push_back(tensor->ids.size());
      return absl::OkStatus();
    }
    if (!feature_.has_missing()) return absl::InvalidArgumentError("is missing");
    if (feature_.type() == RecordFeature::INT64) {
      tensor->ids.insert(tensor->ids.end(), elements_, static_cast<int64_t>(feature_.missing()));
    } else {
      tensor->floats.insert(tensor->floats.end(), elements_,
                            static_cast<float>(feature_.missing()));
    }
    return absl::OkStatus();
  }

  template <typename Values>
  absl::Status AppendFloats(const Values& values, Tensor* tensor) const {
    MILLRACE_RETURN_IF_ERROR(CheckCount(values.size(), "values"));
    for (const auto value : values) {
      tensor->floats.push_back(static_cast<float>(value) / divisor_);
    }
    return absl::OkStatus();
  }

  absl::Status AppendIds(const tfrecord::Int64List& list, Tensor* tensor) const {
    if (!feature_.ragged()) MILLRACE_RETURN_IF_ERROR(CheckCount(list.value_size(), "values"));
    tensor->ids.insert(tensor->ids.end(), list.value().begin(), list.value().end());
    if (feature_.ragged()) tensor->ends.push_back(tensor->ids.size());
    return absl::OkStatus();
  }

  absl::Status AppendBytes(const tfrecord::BytesList& list, Tensor* tensor) const {
    if (list.value_size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", list.value_size(), " byte strings; must have 1"));
    }
    const std::string& bytes = list.value(0);
    MILLRACE_RETURN_IF_ERROR(CheckCount(bytes.size(), "bytes"));
    if (!(feature_.divide_by() > 0)) {
      tensor->bytes.insert(tensor->bytes.end(), bytes.begin(), bytes.end());
      return absl::OkStatus();
    }
    for (const char byte : bytes) {
      tensor->floats.push_back(static_cast<float>(static_cast<uint8_t>(byte)) / divisor_);
    }
    return absl::OkStatus();
  }

  absl::Status CheckCount(uint64_t count, const char* what) const {
    if (count == elements_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("has ", count, " ", what, "; must have ",
                                                   elements_, " (shape [",
                                                   absl::StrJoin(feature_.shape(), ", "), "])"));
  }

  static absl::Status OtherKind(tfrecord::Feature::KindCase kind, const char* wanted) {
    return absl::InvalidArgumentError(absl::StrCat("is ", KindName(kind), "; must be ", wanted));
  }

  const RecordFeature feature_;
  const bool is_label_;
  const size_t index_;
  uint64_t elements_ = 1;
  float divisor_ = 1;
};

// Which features there are, for the message about one that is not.
std::string KeysOf(const tfrecord::Example& example) {
  constexpr size_t kMaxKeys = 20;
  std::vector<std::string> keys;
  for (const auto& [key, value] : example.features().feature()) keys.push_back(Printable(key));
  std::sort(keys.begin(), keys.end());
  if (keys.size() > kMaxKeys) keys.resize(kMaxKeys);
  return absl::StrJoin(keys, ", ");
}

class TfExampleDecoder final : public RecordDecoder {
 public:
  explicit TfExampleDecoder(const TfRecordFiles& spec) {
    for (int i = 0; i < spec.features_size(); ++i) {
      features_.emplace_back(spec.features(i), /*is_label=*/false, i);
    }
    for (int i = 0; i < spec.label_size(); ++i) {
      features_.emplace_back(spec.label(i), /*is_label=*/true, i);
    }
  }

  absl::Status Append(absl::string_view record, Batch* batch) const override {
    Arena arena;
    auto* example = Arena::CreateMessage<tfrecord::Example>(&arena);
    if (!example->ParseFromArray(record.data(), static_cast<int>(record.size()))) {
      return absl::InvalidArgumentError("not a tf.train.Example");
    }
    const auto& values = example->features().feature();
    for (const TfFeatureDecoder& feature : features_) {
      const auto found = values.find(feature.key());
      const bool absent = found == values.end();
      const absl::Status status = feature.Append(absent ? nullptr : &found->second, batch);
      if (status.ok()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", Printable(feature.key()), "' ", status.message(),
                       absent ? absl::StrCat("; the example has ", KeysOf(*example)) : ""));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<TfFeatureDecoder> features_;
};

}  // namespace

ExampleSpec DescribeTfExamples(const TfRecordFiles& spec) {
  ExampleSpec example;
  for (const RecordFeature& feature : spec.features()) {
    example.features.push_back(DescribeTfFeature(feature));
  }
  for (const RecordFeature& label : spec.label()) {
    example.labels.push_back(DescribeTfFeature(label));
  }
  return example;
}

std::unique_ptr<const RecordDecoder> MakeTfExampleDecoder(const TfRecordFiles& spec) {
  return std::make_unique<TfExampleDecoder>(spec);
}

}  // namespace millrace::worker
