// Readers of files: whatever is in one, a reader says what is wrong, or opens it and reads all that
// it says there is.
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "glog/logging.h"
#include "testing/fuzz/fuzz_target.h"
#include "worker/input/batch.h"
#include "worker/input/cifar_dataset.h"
#include "worker/input/csv/csv_dataset.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/example_summary.h"
#include "worker/input/idx_dataset.h"
#include "worker/input/in_place_file.h"
#include "worker/input/input_file.h"
#include "worker/input/libsvm_dataset.h"
#include "worker/input/line_reader.h"
#include "worker/input/numpy_dataset.h"
#include "worker/input/record_dataset.h"
#include "worker/input/tf_example_decoder.h"
#include "worker/input/tfrecord_dataset.h"
#include "worker/input/zip_file.h"

namespace millrace::testing {
namespace {

using worker::Dataset;
using worker::ExampleSelection;

constexpr char kField[] = "data.train";
constexpr uint64_t kInPlace = 0;
constexpr uint64_t kInMemory = ~uint64_t{0};

// A folder in memory, for the life of the process.
const std::string& Folder() {
  static const std::string* const folder = [] {
    std::string path = "/dev/shm/millrace_fuzz_XXXXXX";
    CHECK(mkdtemp(path.data()) != nullptr);
    CHECK_EQ(std::atexit([] { CHECK_EQ(rmdir(Folder().c_str()), 0); }), 0);
    return new std::string(path);
  }();
  return *folder;
}

// A file of the folder, for the life of the object.
class FuzzFile {
 public:
  FuzzFile(const std::string& name, absl::string_view content) : path_(Folder() + "/" + name) {
    std::ofstream(path_, std::ios::binary).write(content.data(), content.size());
  }
  ~FuzzFile() { unlink(path_.c_str()); }

  FuzzFile(const FuzzFile&) = delete;
  FuzzFile& operator=(const FuzzFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

void CheckInvalid(const absl::Status& status) { CHECK(absl::IsInvalidArgument(status)) << status; }

void ReadAllOf(const absl::StatusOr<std::unique_ptr<Dataset>>& opened) {
  if (!opened.ok()) return CheckInvalid(opened.status());
  const Dataset& dataset = **opened;
  CHECK_GT(dataset.size(), 0u);
  std::vector<uint64_t> indices(dataset.size());
  std::iota(indices.begin(), indices.end(), 0);
  worker::Batch batch;
  CHECK_EQ(dataset.Read(indices, &batch), absl::OkStatus());
  CHECK_EQ(batch.size, dataset.size());
}

RecordFeature Feature(const char* key, RecordFeature::Type type) {
  RecordFeature feature;
  feature.set_key(key);
  feature.set_type(type);
  return feature;
}

TfRecordFiles RecordSpec() {
  TfRecordFiles spec;
  spec.add_files("file");
  *spec.add_features() = Feature("floats", RecordFeature::FLOAT);
  spec.mutable_features(0)->add_shape(3);
  spec.mutable_features(0)->set_missing(1);
  *spec.add_features() = Feature("image", RecordFeature::BYTES);
  spec.mutable_features(1)->add_shape(4);
  *spec.add_features() = Feature("words", RecordFeature::INT64);
  spec.mutable_features(2)->set_ragged(true);
  *spec.add_label() = Feature("label", RecordFeature::INT64);
  *spec.add_label() = Feature("sometimes", RecordFeature::FLOAT);
  spec.mutable_label(0)->set_missing(0);
  spec.mutable_label(1)->set_missing(0);
  return spec;
}

// All kinds of columns. `mode` chooses how the file is written.
CsvFiles CsvSpec(unsigned mode) {
  CsvFiles spec;
  spec.add_files("file");
  if ((mode & 1) != 0) spec.set_delimiter(";");
  if ((mode & 2) != 0) spec.set_comment("#");
  spec.set_skip_initial_space((mode & 4) != 0);
  spec.set_no_quotes((mode & 8) != 0);
  for (const char* name : {"a", "b", "c", "d", "y", "w"}) spec.add_names(name);
  const auto add = [&spec](const char* name) {
    CsvColumn* column = spec.add_columns();
    column->set_name(name);
    return column;
  };
  add("a")->mutable_number()->set_missing(1);
  add("b")->mutable_buckets()->add_boundaries(1);
  add("c")->mutable_hash()->set_buckets(7);
  CsvVocabulary* words = add("d")->mutable_vocabulary();
  words->add_words("x");
  words->set_others(true);
  spec.add_label()->set_name("y");
  CsvLabel* number = spec.add_label();
  number->set_name("w");
  number->set_label("number");
  number->set_number(true);
  spec.set_weight("w");
  return spec;
}

// Streams say INVALID_ARGUMENT, or end; a part of a long one will do.
void ReadStream(worker::ByteStream* stream) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  std::string bytes;
  const absl::Status status = ReadUpTo(stream, kMaxBytes, &bytes);
  if (!status.ok()) return CheckInvalid(status);
  CHECK_EQ(stream->offset(), bytes.size());
}

absl::StatusOr<worker::ZipFile> OpenZip(const std::string& path) {
  auto opened = worker::InPlaceFile::Open(path, kField);
  CHECK_EQ(opened.status(), absl::OkStatus());
  return worker::ZipFile::Open(*std::move(opened));
}

}  // namespace

void FeedCifar(absl::string_view input) {
  const FuzzFile file("file", input);
  CifarFiles spec;
  spec.add_files("file");
  for (const uint64_t memory : {kInPlace, kInMemory}) {
    ReadAllOf(OpenCifarDataset(spec, ExampleSelection(), Folder(), kField, memory));
  }
  spec.set_label(CifarFiles::CIFAR_100_BOTH);
  ReadAllOf(OpenCifarDataset(spec, ExampleSelection(), Folder(), kField, kInMemory));
}

// The first byte says how the file is written.
void FeedCsv(absl::string_view input) {
  if (input.empty()) return;
  const FuzzFile file("file", input.substr(1));
  ReadAllOf(OpenCsvDataset(CsvSpec(static_cast<uint8_t>(input[0])), ExampleSelection(), Folder(),
                           kField));
}

void FeedGzip(absl::string_view input) {
  const FuzzFile file("file", input);
  auto stream = worker::InputFile::Open(Folder(), "file", kField);
  CHECK_EQ(stream.status(), absl::OkStatus());
  ReadStream(&*stream);
  auto lines_file = worker::InputFile::Open(Folder(), "file", kField);
  CHECK_EQ(lines_file.status(), absl::OkStatus());
  worker::LineReader lines(&*lines_file);
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) more = lines.Next();
  if (!more.ok()) CheckInvalid(more.status());
}

// The file has the images; and again the labels.
void FeedIdx(absl::string_view input) {
  const FuzzFile file("file", input);
  const FuzzFile labels("labels", absl::string_view("\0\0\x08\x01\0\0\0\x02\1\2", 10));
  const FuzzFile images("images",
                        absl::string_view("\0\0\x08\x03\0\0\0\x02\0\0\0\1\0\0\0\1\1\2", 18));
  IdxFiles files;
  files.set_images("file");
  files.set_labels("labels");
  ReadAllOf(OpenIdxDataset(files, ExampleSelection(), Folder(), kField));
  files.set_images("images");
  files.set_labels("file");
  ReadAllOf(OpenIdxDataset(files, ExampleSelection(), Folder(), kField));
}

void FeedLibsvm(absl::string_view input) {
  const FuzzFile file("file", input);
  LibsvmFile spec;
  spec.set_file("file");
  spec.set_features(5);
  ReadAllOf(OpenLibsvmDataset(spec, ExampleSelection(), Folder(), kField));
}

// .npy, and .npz with an array "x".
void FeedNumpy(absl::string_view input) {
  const FuzzFile file("file", input);
  NumpyArrays spec;
  spec.add_features()->add_files("file");
  spec.mutable_features(0)->set_array("x");
  for (const uint64_t memory : {kInPlace, kInMemory}) {
    ReadAllOf(OpenNumpyDataset(spec, ExampleSelection(), Folder(), kField, memory));
  }
}

void FeedTfExample(absl::string_view input) {
  static const auto* const decoder = worker::MakeTfExampleDecoder(RecordSpec()).release();
  const worker::ExampleSpec example = worker::DescribeTfExamples(RecordSpec());
  worker::Batch batch;
  ClearBatch(example, &batch);
  absl::Status status = decoder->Append(input, &batch);
  if (!status.ok()) return CheckInvalid(status);
  CHECK_EQ(batch.features[0].floats.size(), 3u);
  CHECK_EQ(batch.features[1].bytes.size(), 4u);
  CHECK_EQ(batch.labels[1].floats.size(), 1u);
  batch.size = 1;
  status = worker::ExampleSummary(example).Add(batch, "file", 0);
  if (!status.ok()) CheckInvalid(status);
}

void FeedTfRecord(absl::string_view input) {
  const FuzzFile file("file", input);
  for (const uint64_t memory : {kInPlace, kInMemory}) {
    ReadAllOf(OpenTfRecordDataset(RecordSpec(), ExampleSelection(), Folder(), kField, memory));
  }
}

void FeedZip(absl::string_view input) {
  constexpr size_t kMaxEntries = 16;
  const FuzzFile file("file", input);
  const auto archive = OpenZip(file.path());
  if (!archive.ok()) return CheckInvalid(archive.status());
  for (size_t i = 0; i < archive->entries().size() && i < kMaxEntries; ++i) {
    const auto stream = archive->Read(archive->entries()[i]);
    if (stream.ok()) {
      ReadStream(stream->get());
    } else {
      CheckInvalid(stream.status());
    }
  }
}

}  // namespace millrace::testing
