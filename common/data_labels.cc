#include "common/data_labels.h"

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr char kOnlyLabel[] = "label";

template <typename Labels>
std::vector<std::string> NamesOfLabels(const Labels& labels) {
  std::vector<std::string> names;
  for (const auto& label : labels) names.push_back(LabelName(label));
  return names;
}

}  // namespace

std::string LabelName(const NumpyArray& label) {
  return label.name().empty() ? kOnlyLabel : label.name();
}

std::string LabelName(const RecordFeature& label) {
  return label.name().empty() ? label.key() : label.name();
}

std::string LabelName(const CsvLabel& label) {
  return label.label().empty() ? kOnlyLabel : label.label();
}

std::vector<std::string> LabelNames(const CifarFiles& files) {
  if (files.label() == CifarFiles::CIFAR_100_BOTH) return {"fine", "coarse"};
  return {kOnlyLabel};
}

std::vector<std::string> LabelNames(const Dataset& set) {
  switch (set.format_case()) {
    case Dataset::kNumpy:
      return NamesOfLabels(set.numpy().label());
    case Dataset::kTfrecord:
      return NamesOfLabels(set.tfrecord().label());
    case Dataset::kCsv:
      return NamesOfLabels(set.csv().label());
    case Dataset::kCifar:
      return LabelNames(set.cifar());
    default:
      return {kOnlyLabel};
  }
}

std::string LabelPath(const std::string& path, int index, int count) {
  return count > 1 ? absl::StrCat(path, ".label[", index, "]") : absl::StrCat(path, ".label");
}

}  // namespace millrace
