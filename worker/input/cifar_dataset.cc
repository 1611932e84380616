#include "worker/input/cifar_dataset.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/data_labels.h"
#include "common/status_macros.h"
#include "worker/input/byte_images.h"
#include "worker/input/input_file.h"
#include "worker/input/record_dataset.h"

namespace millrace::worker {
namespace {

constexpr size_t kCifarSide = 32;
constexpr size_t kCifarPixels = kCifarSide * kCifarSide;
constexpr size_t kCifarColours = 3;

struct CifarLabel {
  size_t index;  // Of its byte in the record.
  int classes;
};

constexpr CifarLabel kCifar10 = {0, 10};
constexpr CifarLabel kCifar100Fine = {1, 100};
constexpr CifarLabel kCifar100Coarse = {0, 20};

// What CifarFiles.label says of a record.
struct CifarLabels {
  size_t bytes = 1;                // Of all labels that the record has.
  std::vector<CifarLabel> labels;  // Those that are used.
  std::vector<std::string> names;  // Of these.
};

CifarLabels Resolve(const CifarFiles& spec) {
  const std::vector<std::string> names = LabelNames(spec);
  switch (spec.label()) {
    case CifarFiles::CIFAR_100_FINE:
      return {2, {kCifar100Fine}, names};
    case CifarFiles::CIFAR_100_COARSE:
      return {2, {kCifar100Coarse}, names};
    case CifarFiles::CIFAR_100_BOTH:
      return {2, {kCifar100Fine, kCifar100Coarse}, names};
    default:
      return {1, {kCifar10}, names};
  }
}

size_t RecordBytes(const CifarLabels& labels) {
  return labels.bytes + kCifarColours * kCifarPixels;
}

class CifarDecoder final : public RecordDecoder {
 public:
  explicit CifarDecoder(const CifarLabels& labels)
      : labels_(labels), value_of_byte_(ValuesOfBytes()) {}

  absl::Status Append(absl::string_view record, Batch* batch) const override {
    for (size_t i = 0; i < labels_.labels.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(AppendLabel(record, i, batch));
    }
    std::vector<float>& floats = batch->features[0].floats;
    const size_t begin = floats.size();
    floats.resize(begin + kCifarColours * kCifarPixels);
    for (size_t colour = 0; colour < kCifarColours; ++colour) {
      const char* plane = record.data() + labels_.bytes + colour * kCifarPixels;
      float* out = floats.data() + begin + colour;
      for (size_t i = 0; i < kCifarPixels; ++i) {
        out[i * kCifarColours] = value_of_byte_[static_cast<uint8_t>(plane[i])];
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AppendLabel(absl::string_view record, size_t i, Batch* batch) const {
    const int label = static_cast<uint8_t>(record[labels_.labels[i].index]);
    if (label < labels_.labels[i].classes) {
      batch->labels[i].ids.push_back(label);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "label ", labels_.labels.size() > 1 ? absl::StrCat("'", labels_.names[i], "' ") : "", label,
        "; must be below ", labels_.labels[i].classes));
  }

  const CifarLabels labels_;
  const std::array<float, 256> value_of_byte_;
};

absl::Status AddCifarFile(const CifarLabels& labels, InputFile* file, RecordCollector* collector) {
  std::string record(RecordBytes(labels), '\0');
  while (true) {
    const uint64_t offset = file->offset();
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file->Read(absl::MakeSpan(record)));
    if (got == 0 && offset > 0) return absl::OkStatus();
    if (got == 0) return file->Error("holds no images: it is empty");
    if (got < record.size()) {
      return file->Error(absl::StrCat("truncated at offset ", offset + got, ": a record of ",
                                      record.size(), " bytes begins at offset ", offset,
                                      "; is it CIFAR-", labels.bytes == 1 ? "10" : "100", "?"));
    }
    MILLRACE_RETURN_IF_ERROR(collector->Add(record, offset));
  }
}

}  // namespace

ExampleSpec CifarExample(const CifarFiles& spec) {
  const std::vector<std::string> names = LabelNames(spec);
  ExampleSpec example = FloatsAndClass({kCifarSide, kCifarSide, kCifarColours}, 0);
  example.labels.resize(names.size(), example.labels[0]);
  for (size_t i = 0; i < names.size(); ++i) example.labels[i].name = names[i];
  return example;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenCifarDataset(
    const CifarFiles& spec, const ExampleSelection& selection, const DataDirectory& directory,
    const std::string& field, uint64_t data_memory, uint64_t most_kept) {
  const CifarLabels labels = Resolve(spec);
  return CollectRecords(
      {{spec.files().begin(), spec.files().end()}, directory, field, "cifar", data_memory},
      [&labels](InputFile* file, RecordCollector* collector) {
        return AddCifarFile(labels, file, collector);
      },
      RecordCollector(CifarExample(spec), std::make_unique<CifarDecoder>(labels), selection,
                      RecordLayout(), most_kept));
}

}  // namespace millrace::worker
