// Feeds the readers of worker/input with arbitrary files: whatever is in one, a reader says what is
// wrong, or opens it and reads all that it says there is. Each input is a file for all of them.
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "glog/logging.h"
#include "worker/input/batch.h"
#include "worker/input/cifar_dataset.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/idx_dataset.h"
#include "worker/input/libsvm_dataset.h"
#include "worker/input/numpy_dataset.h"
#include "worker/input/tfrecord_dataset.h"

namespace millrace::worker {
namespace {

constexpr char kField[] = "data.train";
constexpr uint64_t kInPlace = 0;
constexpr uint64_t kInMemory = ~uint64_t{0};

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

// A folder in memory, for the life of the process.
const std::string& Folder() {
  static const std::string* const folder = [] {
    std::string path = "/dev/shm/millrace_fuzz_XXXXXX";
    CHECK(mkdtemp(path.data()) != nullptr);
    return new std::string(path);
  }();
  return *folder;
}

void Write(const std::string& name, const std::string& content) {
  const std::string path = Folder() + "/" + name;
  unlink(path.c_str());
  std::ofstream(path, std::ios::binary) << content;
}

DatasetOr OpenIdx() {
  // The file has the images.
  Write("labels", std::string("\0\0\x08\x01\0\0\0\x02\1\2", 10));
  IdxFiles files;
  files.set_images("file");
  files.set_labels("labels");
  return OpenIdxDataset(files, ExampleSelection(), Folder(), kField);
}

DatasetOr OpenNumpy(uint64_t memory) {
  NumpyArrays spec;
  spec.add_features()->add_files("file");
  spec.mutable_features(0)->set_array("x");
  return OpenNumpyDataset(spec, ExampleSelection(), Folder(), kField, memory);
}

RecordFeature Feature(const char* key, RecordFeature::Type type) {
  RecordFeature feature;
  feature.set_key(key);
  feature.set_type(type);
  return feature;
}

DatasetOr OpenRecords(uint64_t memory) {
  TfRecordFiles spec;
  spec.add_files("file");
  *spec.add_features() = Feature("floats", RecordFeature::FLOAT);
  spec.mutable_features(0)->add_shape(3);
  spec.mutable_features(0)->set_missing(1);
  *spec.add_features() = Feature("image", RecordFeature::BYTES);
  spec.mutable_features(1)->add_shape(4);
  *spec.add_features() = Feature("words", RecordFeature::INT64);
  spec.mutable_features(2)->set_ragged(true);
  return OpenTfRecordDataset(spec, ExampleSelection(), Folder(), kField, memory);
}

constexpr int kReaders = 7;

DatasetOr Open(int reader) {
  CifarFiles cifar;
  cifar.add_files("file");
  LibsvmFile libsvm;
  libsvm.set_file("file");
  libsvm.set_features(5);
  switch (reader) {
    case 0:
      return OpenIdx();
    case 1:
      return OpenLibsvmDataset(libsvm, ExampleSelection(), Folder(), kField);
    case 2:
      return OpenCifarDataset(cifar, ExampleSelection(), Folder(), kField, kInPlace);
    case 3:
      return OpenNumpy(kInMemory);
    case 4:
      return OpenNumpy(kInPlace);
    case 5:
      return OpenRecords(kInMemory);
    default:
      return OpenRecords(kInPlace);
  }
}

void ReadAll(const Dataset& dataset) {
  CHECK_GT(dataset.size(), 0u);
  std::vector<uint64_t> indices(dataset.size());
  std::iota(indices.begin(), indices.end(), 0);
  Batch batch;
  CHECK_EQ(dataset.Read(indices, &batch), absl::OkStatus());
  CHECK_EQ(batch.size, dataset.size());
}

}  // namespace
}  // namespace millrace::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace::worker;  // NOLINT: the entry point has to be outside.
  Write("file", std::string(reinterpret_cast<const char*>(data), size));
  for (int reader = 0; reader < kReaders; ++reader) {
    const DatasetOr dataset = Open(reader);
    if (dataset.ok()) {
      ReadAll(**dataset);
    } else {
      CHECK(absl::IsInvalidArgument(dataset.status())) << dataset.status();
    }
  }
  return 0;
}
