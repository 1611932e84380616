// Prints what our code makes of docs/protocol.md, for protocol.py: see there. The argument is a
// folder that it may write its data files to.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "ps/dense/initial_value.h"
#include "testing/example_data/npz.h"
#include "worker/device/cpu/layers/dropout.h"
#include "worker/input/augmenter.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/step_order.h"
#include "worker/training/prepared_job.h"
#include "worker/training/step_seed.h"

namespace millrace::testing {
namespace {

constexpr uint64_t kSeeds[] = {0, 1, 0xfedcba9876543210};

void Print(const std::string& what, const std::vector<uint64_t>& values) {
  std::cout << what << " = " << absl::StrJoin(values, " ") << "\n";
}

void PrintExamples() {
  for (const uint64_t seed : kSeeds) {
    for (const uint64_t examples : {1, 2, 5, 64, 100, 60000}) {
      const worker::StepOrder order(examples, /*batch_size=*/7, seed, /*shuffle=*/true);
      for (const uint64_t step : {0, 1, 13, 20000}) {
        Print(absl::StrCat("examples ", examples, " 7 ", seed, " ", step), order.Examples(step));
      }
    }
  }
}

void PrintDropped() {
  constexpr size_t kElements = 50;
  constexpr size_t kRows = 3;
  for (const double rate : {0.25, 0.5, 0.9}) {
    for (const uint64_t layer : {1, 7}) {
      worker::LayerPlan plan;
      plan.spec.mutable_dropout()->set_rate(rate);
      plan.output = {kElements};
      plan.inputs = {plan.output};
      worker::DropoutLayer dropout(plan, layer);
      worker::CpuPass pass;
      pass.batch = kRows;
      pass.training = true;
      pass.seed = worker::StepSeed(/*job_seed=*/77, /*step=*/5);
      const std::vector<float> ones(kRows * kElements, 1.0f);
      std::vector<float> y(ones.size());
      dropout.Forward(pass, ones.data(), y.data());
      for (size_t row = 0; row < kRows; ++row) {
        std::vector<uint64_t> zeros;
        for (size_t i = 0; i < kElements; ++i) zeros.push_back(y[row * kElements + i] == 0);
        Print(absl::StrCat("dropped ", rate, " 77 5 ", layer, " ", row, " ", kElements), zeros);
      }
    }
  }
}

void PrintChangedPictures() {
  constexpr uint64_t kHeight = 4;
  constexpr uint64_t kWidth = 3;
  constexpr uint64_t kPixels = kHeight * kWidth;
  constexpr uint64_t kRows = 6;
  for (const uint64_t seed : kSeeds) {
    for (const uint32_t padding : {0, 1, 5}) {
      for (const bool flip : {false, true}) {
        Augmentation spec;
        spec.set_crop_padding(padding);
        spec.set_horizontal_flip(flip);
        worker::Batch batch;
        batch.features.resize(1);
        for (uint64_t i = 0; i < kRows * kPixels; ++i) {
          batch.features[0].floats.push_back(static_cast<float>(i % kPixels + 1));
        }
        worker::Augmenter(spec, worker::FloatsAndClass({kHeight, kWidth, 1}, 1))
            .Apply(worker::StepSeed(seed, /*step=*/5), &batch);
        for (uint64_t row = 0; row < kRows; ++row) {
          const auto begin = batch.features[0].floats.begin() + row * kPixels;
          Print(absl::StrCat("changed ", kHeight, " ", kWidth, " ", padding, " ", int{flip}, " ",
                             seed, " 5 ", row),
                {begin, begin + kPixels});
        }
      }
    }
  }
}

uint64_t InitialBits(const InitialValue& initial_value, uint64_t seed, uint64_t element) {
  float value;
  ps::FillInitialValues(initial_value, seed, "dense_1/kernel", element, absl::MakeSpan(&value, 1));
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

void PrintInitialValues() {
  InitialValue uniform;
  uniform.mutable_uniform()->set_low(-0.25);
  uniform.mutable_uniform()->set_high(0.75);
  InitialValue normal;
  normal.mutable_truncated_normal()->set_stddev(0.0625);
  for (const uint64_t seed : kSeeds) {
    for (const uint64_t i : {uint64_t{0}, uint64_t{1}, uint64_t{99}, uint64_t{1} << 33}) {
      Print(absl::StrCat("uniform -0.25 0.75 ", seed, " dense_1/kernel ", i),
            {InitialBits(uniform, seed, i)});
      Print(absl::StrCat("truncated_normal 0.0625 ", seed, " dense_1/kernel ", i),
            {InitialBits(normal, seed, i)});
    }
  }
}

void PrintHeldOut() {
  for (const uint64_t seed : kSeeds) {
    for (const double fraction : {0.1, 0.5}) {
      HoldOut hold_out;
      hold_out.set_fraction(fraction);
      hold_out.set_seed(seed);
      std::vector<uint64_t> held_out;
      for (uint64_t i = 0; i < 200; ++i) {
        if (worker::IsHeldOut(hold_out, i)) held_out.push_back(i);
      }
      Print(absl::StrCat("held_out ", fraction, " ", seed, " 200"), held_out);
    }
  }
}

std::string BigEndian(std::vector<uint32_t> words) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(word >> shift));
  }
  return bytes;
}

void WriteData(const std::string& directory) {
  std::string pixels;
  for (int i = 0; i < 30; ++i) pixels.push_back(static_cast<char>(i * 37));
  std::ofstream(directory + "/images") << BigEndian({0x803, 5, 3, 2}) << pixels;
  std::ofstream(directory + "/labels") << BigEndian({0x801, 5}) << "\3\1\4\1\5";
  std::ofstream(directory + "/table") << "x,word,y,w\n2,red,1,1\n-7.25,blue,0,0.5\n"
                                         "3,\"a, long \"\"word\"\" of more than 32 bytes\",4,2\n";
  for (const auto& [name, label, factor] : {std::make_tuple("cifar-1", "\3", 37),
                                            {"cifar-2", "\x9", 41},
                                            {"cifar-100", "\x13\x63", 43}}) {
    std::string record = label;
    for (int i = 0; i < 3072; ++i) record.push_back(static_cast<char>(i * factor));
    std::ofstream(absl::StrCat(directory, "/", name)) << record;
  }
  std::ofstream(directory + "/x.npy")
      << NpyFile({"x", "<f8", {3, 2}, BytesOf<double>({0.1, -2.5, 1e10, 0.0, 7.0, 1.0 / 3})});
  std::ofstream(directory + "/y.npy") << NpyFile({"y", "<i4", {3}, BytesOf<int32_t>({2, 0, 5})});
  std::ofstream(directory + "/rows") << "-1 1:0.5 5:-2.25\n\n+1\n+1 2:0 3:3\n";
}

// A PNG file of 2x3 pixels, which are 0, 50, 255; 200, 7, 90.
void WritePicture(const std::string& directory) {
  const std::string file = absl::HexStringToBytes(
      "89504e470d0a1a0a0000000d4948445200000003000000020800000000b81f39c600000010494441"
      "54789c636030facf70823d0a0008ef025bc1fd1f420000000049454e44ae426082");
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directories(absl::StrCat(directory, "/pictures/", name));
  }
  std::ofstream(directory + "/pictures/dog/1.png") << file;
}

Dataset FolderSpec() {
  Dataset set;
  ImageFolder* folder = set.mutable_image_folder();
  folder->set_folder("pictures");
  folder->set_height(3);
  folder->set_width(2);
  folder->set_grey(true);
  return set;
}

Dataset CsvSpec() {
  Dataset set;
  CsvFiles* csv = set.mutable_csv();
  csv->add_files("table");
  csv->add_label()->set_name("y");
  csv->set_weight("w");
  CsvColumn* column = csv->add_columns();
  column->set_name("x");
  column->mutable_number()->set_subtract(1.5);
  column->mutable_number()->set_divide(4);
  column = csv->add_columns();
  column->set_name("word");
  for (const char* word : {"red", "blue"}) column->mutable_vocabulary()->add_words(word);
  column->mutable_vocabulary()->set_others(true);
  column = csv->add_columns();
  column->set_name("word");
  column->mutable_hash()->set_buckets(1000);
  CsvCross* cross = csv->add_columns()->mutable_cross();
  cross->set_buckets(99);
  cross->add_parts()->set_name("word");
  cross->add_parts()->set_name("x");
  for (const double boundary : {0, 3}) cross->mutable_parts(1)->add_boundaries(boundary);
  return set;
}

// The same with a label of numbers as well.
Dataset TwoCsvLabels() {
  Dataset set = CsvSpec();
  CsvLabel* label = set.mutable_csv()->add_label();
  label->set_name("x");
  label->set_label("size");
  label->set_number(true);
  return set;
}

Dataset NumpySpec() {
  Dataset set;
  NumpyArray* features = set.mutable_numpy()->add_features();
  features->add_files("x.npy");
  features->set_divide_by(3);
  set.mutable_numpy()->add_label()->add_files("y.npy");
  return set;
}

// The same with a label of floats as well.
Dataset TwoNumpyLabels() {
  Dataset set = NumpySpec();
  NumpyArray* label = set.mutable_numpy()->add_label();
  label->set_name("row");
  label->add_files("x.npy");
  return set;
}

Dataset BothCifarLabels() {
  Dataset set;
  set.mutable_cifar()->add_files("cifar-100");
  set.mutable_cifar()->set_label(CifarFiles::CIFAR_100_BOTH);
  return set;
}

std::unique_ptr<worker::Dataset> Open(const Dataset& spec, const std::string& directory) {
  auto dataset = worker::OpenDataset(spec, directory, "data");
  CHECK(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

void PrintFingerprints(const std::string& directory) {
  WriteData(directory);
  Dataset idx;
  idx.mutable_idx()->set_images("images");
  idx.mutable_idx()->set_labels("labels");
  Dataset range = idx;
  range.mutable_range()->set_begin(1);
  range.mutable_range()->set_end(4);
  Dataset libsvm;
  libsvm.mutable_libsvm()->set_file("rows");
  libsvm.mutable_libsvm()->set_features(5);
  Dataset part = libsvm;
  part.mutable_range()->set_begin(1);
  part.mutable_hold_out()->set_fraction(0.5);
  part.mutable_hold_out()->set_seed(7);
  part.mutable_hold_out()->set_part(HoldOut::REST);
  Dataset cifar;
  cifar.mutable_cifar()->add_files("cifar-?");
  worker::PreparedJob job;
  job.train = Open(idx, directory);
  job.evaluate = Open(libsvm, directory);
  Print("idx", {job.train->fingerprint()});
  Print("idx_range", {Open(range, directory)->fingerprint()});
  Print("libsvm", {job.evaluate->fingerprint()});
  Print("csv", {Open(CsvSpec(), directory)->fingerprint()});
  Print("csv_labels", {Open(TwoCsvLabels(), directory)->fingerprint()});
  Print("libsvm_part", {Open(part, directory)->fingerprint()});
  Print("cifar", {Open(cifar, directory)->fingerprint()});
  Print("numpy", {Open(NumpySpec(), directory)->fingerprint()});
  Print("cifar_labels", {Open(BothCifarLabels(), directory)->fingerprint()});
  Print("numpy_labels", {Open(TwoNumpyLabels(), directory)->fingerprint()});
  WritePicture(directory);
  Print("image_folder", {Open(FolderSpec(), directory)->fingerprint()});
  Print("plan", {worker::DataFingerprint(job)});
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) {
  CHECK_EQ(argc, 2) << "give a folder to write to";
  millrace::testing::PrintExamples();
  millrace::testing::PrintHeldOut();
  millrace::testing::PrintDropped();
  millrace::testing::PrintChangedPictures();
  millrace::testing::PrintInitialValues();
  millrace::testing::PrintFingerprints(argv[1]);
  return 0;
}
