#include "worker/input/cifar_dataset.h"

#include <array>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/input/byte_images.h"
#include "worker/input/input_file.h"
#include "worker/input/record_dataset.h"

namespace millrace::worker {
namespace {

constexpr size_t kCifarSide = 32;
constexpr size_t kCifarPixels = kCifarSide * kCifarSide;
constexpr size_t kCifarColours = 3;

// What CifarFiles.label says of a record.
struct CifarLabel {
  size_t count = 1;  // Label bytes.
  size_t index = 0;  // Of the one that is used.
  int classes = 10;
};

CifarLabel Resolve(CifarFiles::Label label) {
  switch (label) {
    case CifarFiles::CIFAR_100_FINE:
      return {2, 1, 100};
    case CifarFiles::CIFAR_100_COARSE:
      return {2, 0, 20};
    default:
      return {1, 0, 10};
  }
}

size_t RecordBytes(const CifarLabel& label) { return label.count + kCifarColours * kCifarPixels; }

class CifarDecoder final : public RecordDecoder {
 public:
  explicit CifarDecoder(const CifarLabel& label) : label_(label), value_of_byte_(ValuesOfBytes()) {}

  absl::Status Append(absl::string_view record, Batch* batch) const override {
    const int label = static_cast<uint8_t>(record[label_.index]);
    if (label >= label_.classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("label ", label, "; must be below ", label_.classes));
    }
    batch->labels[0].ids.push_back(label);
    std::vector<float>& floats = batch->features[0].floats;
    const size_t begin = floats.size();
    floats.resize(begin + kCifarColours * kCifarPixels);
    for (size_t colour = 0; colour < kCifarColours; ++colour) {
      const char* plane = record.data() + label_.count + colour * kCifarPixels;
      float* out = floats.data() + begin + colour;
      for (size_t i = 0; i < kCifarPixels; ++i) {
        out[i * kCifarColours] = value_of_byte_[static_cast<uint8_t>(plane[i])];
      }
    }
    return absl::OkStatus();
  }

 private:
  const CifarLabel label_;
  const std::array<float, 256> value_of_byte_;
};

absl::Status AddCifarFile(const CifarLabel& label, InputFile* file, RecordCollector* collector) {
  std::string record(RecordBytes(label), '\0');
  while (true) {
    const uint64_t offset = file->offset();
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file->Read(absl::MakeSpan(record)));
    if (got == 0 && offset > 0) return absl::OkStatus();
    if (got == 0) return file->Error("holds no images: it is empty");
    if (got < record.size()) {
      return file->Error(absl::StrCat("truncated at offset ", offset + got, ": a record of ",
                                      record.size(), " bytes begins at offset ", offset,
                                      "; is it CIFAR-", label.count == 1 ? "10" : "100", "?"));
    }
    MILLRACE_RETURN_IF_ERROR(collector->Add(record, offset));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenCifarDataset(
    const CifarFiles& spec, const ExampleSelection& selection, const std::string& directory,
    const std::string& field, uint64_t data_memory, uint64_t most_kept) {
  const CifarLabel label = Resolve(spec.label());
  return CollectRecords(
      {{spec.files().begin(), spec.files().end()}, directory, field, "cifar", data_memory},
      [&label](InputFile* file, RecordCollector* collector) {
        return AddCifarFile(label, file, collector);
      },
      RecordCollector(FloatsAndClass({kCifarSide, kCifarSide, kCifarColours}, 0),
                      std::make_unique<CifarDecoder>(label), selection, RecordLayout(), most_kept));
}

}  // namespace millrace::worker
