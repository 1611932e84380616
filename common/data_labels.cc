#include "common/data_labels.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"

namespace millrace {
namespace {

constexpr char kOnlyLabel[] = "label";

template <typename Label>
std::vector<std::string> NamesOf(const google::protobuf::RepeatedPtrField<Label>& labels,
                                 std::string (*name_of)(const Label&)) {
  std::vector<std::string> names;
  for (const Label& label : labels) names.push_back(name_of(label));
  return names;
}

}  // namespace

std::string LabelName(const NumpyArray& label) {
  return label.name().empty() ? kOnlyLabel : label.name();
}

std::string LabelName(const CsvLabel& label) {
  return label.label().empty() ? kOnlyLabel : label.label();
}

std::string FeatureName(const NumpyArray& feature) {
  return feature.name().empty() ? "features" : feature.name();
}

std::string TensorName(const RecordFeature& tensor) {
  return tensor.name().empty() ? tensor.key() : tensor.name();
}

std::string TensorNamePath(const RecordFeature& tensor, const std::string& path) {
  return absl::StrCat(path, tensor.name().empty() ? ".key" : ".name");
}

std::vector<std::string> LabelNames(const CifarFiles& files) {
  if (files.label() == CifarFiles::CIFAR_100_BOTH) return {"fine", "coarse"};
  return {kOnlyLabel};
}

std::vector<std::string> LabelNames(const Dataset& set) {
  switch (set.format_case()) {
    case Dataset::kNumpy:
      return NamesOf(set.numpy().label(), LabelName);
    case Dataset::kTfrecord:
      return NamesOf(set.tfrecord().label(), TensorName);
    case Dataset::kCsv:
      return NamesOf(set.csv().label(), LabelName);
    case Dataset::kCifar:
      return LabelNames(set.cifar());
    case Dataset::kIdx:
    case Dataset::kLibsvm:
    case Dataset::kImageFolder:
    case Dataset::FORMAT_NOT_SET:
      break;
  }
  return {kOnlyLabel};
}

absl::optional<std::string> LabelNamePath(const Dataset& set, const std::string& path,
                                          size_t index) {
  const size_t count = LabelNames(set).size();
  if (index >= count) return absl::nullopt;
  const int i = static_cast<int>(index);
  const auto label = [&](absl::string_view format) {
    return LabelPath(absl::StrCat(path, format), i, static_cast<int>(count));
  };
  if (set.has_numpy()) return absl::StrCat(label(".numpy"), ".name");
  if (set.has_tfrecord()) return TensorNamePath(set.tfrecord().label(i), label(".tfrecord"));
  if (set.has_csv()) return absl::StrCat(label(".csv"), ".label");
  return absl::nullopt;
}

std::string LabelPath(const std::string& path, int index, int count) {
  return count > 1 ? absl::StrCat(path, ".label[", index, "]") : absl::StrCat(path, ".label");
}

}  // namespace millrace
