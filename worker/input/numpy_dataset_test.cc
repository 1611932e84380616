#include "worker/input/numpy_dataset.h"

#include <cmath>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/in_place_file.h"
#include "worker/input/input_test_util.h"
#include "worker/input/zip_file.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::Gzip;
using ::millrace::testing::Mutate;
using ::millrace::testing::ReadAllExamples;
using ::millrace::testing::ReadExamples;
using ::millrace::testing::ReferenceFile;
using ::millrace::testing::WriteTestFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

constexpr uint64_t kPlenty = uint64_t{1} << 40;

// As NumPy writes them, of version 1.
std::string Npy(const std::string& dictionary, const std::string& elements) {
  std::string header = dictionary + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() % 256) +
         static_cast<char>(header.size() / 256) + header + elements;
}

class NumpyDatasetTest : public ::testing::Test {
 protected:
  NumpyDatasetTest() {
    NumpyArrays& numpy = *set_.mutable_numpy();
    numpy.add_features()->add_files("x.npy");
    numpy.add_label()->add_files("y.npy");
    WriteTestFile(directory_, "x.npy", ReferenceFile("f4.npy"));
    WriteTestFile(directory_, "y.npy", ReferenceFile("i8.npy"));
  }

  NumpyArray& x() { return *set_.mutable_numpy()->mutable_features(0); }
  NumpyArray& y() { return *set_.mutable_numpy()->mutable_label(0); }

  DatasetOr Open(uint64_t memory = kPlenty) {
    return OpenNumpyDataset(set_.numpy(), ExampleSelection(set_), directory_, "data.train", memory);
  }

  std::unique_ptr<Dataset> OpenX(const std::string& content) {
    WriteTestFile(directory_, "x.npy", content);
    return Open().value();
  }

  std::string Error() {
    const absl::Status status = Open().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  std::string ErrorOfX(const std::string& content) {
    WriteTestFile(directory_, "x.npy", content);
    return Error();
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
  millrace::Dataset set_;
};

TEST_F(NumpyDatasetTest, RowsAreExamples) {
  const std::unique_ptr<Dataset> dataset = Open().value();
  EXPECT_EQ(dataset->size(), 4u);
  EXPECT_EQ(dataset->example().features[0].name, "features");
  EXPECT_EQ(dataset->example().labels[0].name, "label");
  EXPECT_THAT(dataset->example().features[0].shape, ElementsAre(3, 2));
  EXPECT_THAT(dataset->example().labels[0].shape, ElementsAre());
  EXPECT_EQ(dataset->example().labels[0].limit, 8);
  EXPECT_EQ(dataset->example().labels[0].largest_id, "y.npy: example 3");
  const Batch batch = ReadExamples(*dataset, {3, 0});
  EXPECT_EQ(batch.size, 2u);
  EXPECT_THAT(batch.features[0].floats, ElementsAre(13, 14, 15, 16, 17, 18, -5, -4, -3, -2, -1, 0));
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(7, 3));
}

TEST_F(NumpyDatasetTest, EveryWayToWriteTheSameFloatsIsTheSame) {
  const std::unique_ptr<Dataset> plain = Open().value();
  for (const char* name :
       {"f8.npy", "f4_big.npy", "f4_fortran.npy", "version_2.npy", "version_3.npy"}) {
    SCOPED_TRACE(name);
    const std::unique_ptr<Dataset> other = OpenX(ReferenceFile(name));
    EXPECT_EQ(other->fingerprint(), plain->fingerprint());
    EXPECT_EQ(ReadAllExamples(*other).features[0].floats,
              ReadAllExamples(*plain).features[0].floats);
  }
  EXPECT_EQ(OpenX(Gzip(ReferenceFile("f4.npy")))->fingerprint(), plain->fingerprint());
  const Batch halves = ReadAllExamples(*OpenX(ReferenceFile("f2.npy")));
  EXPECT_EQ(halves.features[0].floats[0], -5.0f / 16);
  EXPECT_EQ(halves.features[0].floats[23], 18.0f / 16);
}

// Element [a, b, 0, c, d] of shape [2, 3, 1, 2, 4] is number ((a * 3 + b) * 2 + c) * 4 + d in C's
// order, and a + 2 * (b + 3 * (c + 2 * d)) in Fortran's.
TEST_F(NumpyDatasetTest, FortransOrderIsOfAllDimensions) {
  set_.mutable_numpy()->clear_label();
  std::string elements(48, '\0');
  for (int number = 0; number < 48; ++number) {
    const int a = number / 24, b = number / 8 % 3, c = number / 4 % 2, d = number % 4;
    elements[a + 2 * (b + 3 * (c + 2 * d))] = static_cast<char>(number);
  }
  const std::string dictionary =
      "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 1, 2, 4), }";
  const Batch batch = ReadAllExamples(*OpenX(Npy(dictionary, elements)));
  ASSERT_EQ(batch.features[0].bytes.size(), 48u);
  for (int i = 0; i < 48; ++i) EXPECT_EQ(batch.features[0].bytes[i], i);
}

// The array, the row that is made of it and the row that is kept; nothing for each element.
TEST_F(NumpyDatasetTest, RowInFortransOrderTakesThreeTimesItsBytes) {
  set_.mutable_numpy()->clear_label();
  WriteTestFile(directory_, "x.npy",
                Gzip(Npy("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 100, 1000), }",
                         std::string(100'000, '\1'))));
  const auto open = [&](uint64_t most) {
    return OpenNumpyDataset(set_.numpy(), ExampleSelection(), directory_, "data.train",
                            /*data_memory=*/0, most)
        .status();
  };
  EXPECT_EQ(open(301'000), absl::OkStatus());
  EXPECT_EQ(open(299'000).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(open(199'000).code(), absl::StatusCode::kResourceExhausted);
}

// Every second row or so is a stretch of its own.
TEST_F(NumpyDatasetTest, IndexOfRowsInTheirFilesCountsAsMemory) {
  set_.mutable_numpy()->clear_label();
  set_.mutable_hold_out()->set_fraction(0.5);
  set_.mutable_hold_out()->set_part(HoldOut::REST);
  WriteTestFile(directory_, "x.npy",
                Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (10000,), }",
                    std::string(10'000, '\1')));
  const auto open = [&](uint64_t most) {
    return OpenNumpyDataset(set_.numpy(), ExampleSelection(set_), directory_, "data.train",
                            /*data_memory=*/0, most)
        .status();
  };
  EXPECT_EQ(open(200'000), absl::OkStatus());
  EXPECT_EQ(open(20'000).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(NumpyDatasetTest, ArchivesAreRead) {
  const uint64_t fingerprint = Open().value()->fingerprint();
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    SCOPED_TRACE(name);
    WriteTestFile(directory_, "both.npz", ReferenceFile(name));
    x().set_files(0, "both.npz");
    x().set_array("x");
    y().set_files(0, "both.npz");
    y().set_array("y");
    EXPECT_EQ(Open().value()->fingerprint(), fingerprint);
    EXPECT_EQ(Open(/*memory=*/0).value()->fingerprint(), fingerprint);
    y().set_array("z");
    EXPECT_THAT(Error(), HasSubstr("both.npz: no array 'z'; it has 2 arrays: x, y"));
    y().set_array("");
    EXPECT_THAT(Error(), HasSubstr("both.npz: which array? Set `array`; it has 2 arrays: x, y"));
  }
}

TEST_F(NumpyDatasetTest, ArchiveThatNobodyWantsAnyMoreIsReadNoFurther) {
  WriteTestFile(directory_, "both.npz", ReferenceFile("deflated.npz"));
  std::stop_source stop;
  const ZipFile archive =
      ZipFile::Open(InPlaceFile::Open(directory_ + "/both.npz", "field").value()).value();
  const std::unique_ptr<ZipStream> stream =
      archive.Read(archive.entries().front(), stop.get_token()).value();
  char byte;
  EXPECT_EQ(stream->Read(absl::MakeSpan(&byte, 1)).value(), 1u);
  stop.request_stop();
  EXPECT_EQ(stream->Read(absl::MakeSpan(&byte, 1)).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(NumpyDatasetTest, TypesFollowFromTheArrays) {
  x().set_name("image");
  const std::unique_ptr<Dataset> bytes = OpenX(ReferenceFile("u1.npy"));
  EXPECT_EQ(bytes->example().features[0].name, "image");
  EXPECT_EQ(bytes->example().features[0].type, ElementType::kByte);
  EXPECT_THAT(ReadExamples(*bytes, {3, 1}).features[0].bytes, ElementsAre(216, 252, 72, 108));

  const std::unique_ptr<Dataset> ids = OpenX(ReferenceFile("i4_big.npy"));
  EXPECT_EQ(ids->example().features[0].type, ElementType::kId);
  EXPECT_EQ(ids->example().features[0].limit, 8);
  EXPECT_THAT(ReadAllExamples(*ids).features[0].ids, ElementsAre(3, 0, 2, 7));

  const std::unique_ptr<Dataset> booleans = OpenX(ReferenceFile("bool.npy"));
  EXPECT_THAT(ReadAllExamples(*booleans).features[0].floats, ElementsAre(1, 0, 0, 1));
}

TEST_F(NumpyDatasetTest, DivideByMakesFloats) {
  x().set_divide_by(255);
  const Batch batch = ReadAllExamples(*OpenX(ReferenceFile("u1.npy")));
  EXPECT_THAT(batch.features[0].floats,
              ElementsAre(0, 36.0f / 255, 72.0f / 255, 108.0f / 255, 144.0f / 255, 180.0f / 255,
                          216.0f / 255, 252.0f / 255));
  x().set_divide_by(1);
  EXPECT_THAT(ReadAllExamples(*OpenX(ReferenceFile("i8.npy"))).features[0].floats,
              ElementsAre(3, 0, 2, 7));
}

// The bits of IEEE 754's binary16, and what they stand for.
TEST_F(NumpyDatasetTest, HalvesOfAllKinds) {
  set_.mutable_numpy()->clear_label();
  const std::string dictionary = "{'descr': '<f2', 'fortran_order': False, 'shape': (8,), }";
  const uint16_t bits[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0x7bff, 0xfbff};
  std::string elements;
  for (const uint16_t half : bits) {
    elements += {static_cast<char>(half & 0xff), static_cast<char>(half >> 8)};
  }
  const Batch batch = ReadAllExamples(*OpenX(Npy(dictionary, elements)));
  EXPECT_THAT(batch.features[0].floats, ElementsAre(0.0f, -0.0f, 0x1p-24f, -1023 * 0x1p-24f,
                                                    0x1p-14f, 1.0f, 65504.0f, -65504.0f));
  elements[13] = 0x7c;
  EXPECT_THAT(ErrorOfX(Npy(dictionary, elements)),
              HasSubstr("x.npy: example 6: features: element"));
}

TEST_F(NumpyDatasetTest, LabelsAreIdsOrFloatsOrMissing) {
  WriteTestFile(directory_, "y.npy", ReferenceFile("bool.npy"));
  EXPECT_THAT(ReadAllExamples(*Open().value()).labels[0].ids, ElementsAre(1, 0, 0, 1));
  WriteTestFile(directory_, "y.npy", ReferenceFile("u8.npy"));
  EXPECT_THAT(ReadAllExamples(*Open().value()).labels[0].ids, ElementsAre(3, 0, 2, 7));
  WriteTestFile(directory_, "y.npy", ReferenceFile("f8.npy"));
  const std::unique_ptr<Dataset> dataset = Open().value();
  EXPECT_EQ(dataset->example().labels[0].type, ElementType::kFloat);
  EXPECT_THAT(dataset->example().labels[0].shape, ElementsAre(3, 2));
  set_.mutable_numpy()->clear_label();
  EXPECT_TRUE(Open().value()->example().labels.empty());
}

// One is ids, one a vector of floats, one a float.
TEST_F(NumpyDatasetTest, SeveralLabelsAreEachOfItsOwnKind) {
  WriteTestFile(directory_, "z.npz", ReferenceFile("stored.npz"));
  const auto add = [this](const char* name, const char* array, double divide_by) {
    NumpyArray& label = *set_.mutable_numpy()->add_label();
    label.set_name(name);
    label.add_files("z.npz");
    label.set_array(array);
    label.set_divide_by(divide_by);
  };
  add("rows", "x", 0);
  add("half", "y", 2);
  for (const uint64_t memory : {uint64_t{0}, kPlenty}) {
    const std::unique_ptr<Dataset> dataset = Open(memory).value();
    const std::vector<TensorSpec>& labels = dataset->example().labels;
    ASSERT_EQ(labels.size(), 3u);
    EXPECT_EQ(labels[0].name, "label");
    EXPECT_EQ(labels[0].limit, 8);
    EXPECT_EQ(labels[1].name, "rows");
    EXPECT_THAT(labels[1].shape, ElementsAre(3, 2));
    EXPECT_EQ(labels[2].name, "half");
    EXPECT_EQ(labels[2].type, ElementType::kFloat);
    const Batch batch = ReadExamples(*dataset, {3, 1});
    EXPECT_THAT(batch.labels[0].ids, ElementsAre(7, 0));
    EXPECT_THAT(batch.labels[1].floats, ElementsAre(13, 14, 15, 16, 17, 18, 1, 2, 3, 4, 5, 6));
    EXPECT_THAT(batch.labels[2].floats, ElementsAre(3.5f, 0));
  }
}

TEST_F(NumpyDatasetTest, WhatIsWrongWithOneOfSeveralLabelsNamesIt) {
  NumpyArray& z = *set_.mutable_numpy()->add_label();
  z.set_name("z");
  z.add_files("z.npy");
  EXPECT_THAT(Error(), HasSubstr("data.train.numpy.label[1].files"));
  WriteTestFile(directory_, "z.npy",
                Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "ab"));
  EXPECT_THAT(Error(),
              HasSubstr("data.train.numpy.label[1].files: z.npy has 2 rows, but x.npy has 4"));
  WriteTestFile(directory_, "z.npy",
                Npy("{'descr': '|i1', 'fortran_order': False, 'shape': (4,), }",
                    std::string("\1\1\xfd\1", 4)));
  EXPECT_THAT(Error(), HasSubstr("z.npy: example 2: z: -3; ids are whole numbers from 0, below "
                                 "2^63 - 1; numbers that are no ids must be floats (numpy's "
                                 "divide_by: 1"));
}

TEST_F(NumpyDatasetTest, RowsOfSeveralFilesFollowEachOther) {
  const uint64_t fingerprint = Open().value()->fingerprint();
  const std::string f4 = ReferenceFile("f4.npy").substr(128);
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  WriteTestFile(directory_, "x-0.npy", Npy(dictionary + "1, 3, 2)}", f4.substr(0, 24)));
  WriteTestFile(directory_, "x-1.npy", Npy(dictionary + "3, 3, 2), }", f4.substr(24)));
  x().set_files(0, "x-?.npy");
  EXPECT_EQ(Open().value()->fingerprint(), fingerprint);
  EXPECT_EQ(Open(/*memory=*/0).value()->fingerprint(), fingerprint);
  const std::string i8 = ReferenceFile("i8.npy").substr(128);
  const std::string label = "{'descr': '<i8', 'fortran_order': False, 'shape': (";
  WriteTestFile(directory_, "y-0.npy", Npy(label + "2,), }", i8.substr(0, 16)));
  WriteTestFile(directory_, "y-1.npy", Npy(label + "2,), }", i8.substr(16)));
  y().set_files(0, "y-?.npy");
  EXPECT_EQ(Open().value()->fingerprint(), fingerprint);
  EXPECT_EQ(Open().value()->example().labels[0].largest_id, "y-1.npy: example 1");
  WriteTestFile(directory_, "x-2.npy", ReferenceFile("f8.npy"));
  EXPECT_THAT(Error(), HasSubstr("x-2.npy: float64 [4, 3, 2], but x-0.npy has float32 [1, 3, 2]"));
}

TEST_F(NumpyDatasetTest, RangeAndHoldOutSelectRows) {
  set_.mutable_range()->set_begin(1);
  set_.mutable_hold_out()->set_fraction(0.5);
  set_.mutable_hold_out()->set_seed(3);  // Holds out 2 and 3, of the first four.
  set_.mutable_hold_out()->set_part(HoldOut::REST);
  EXPECT_THAT(ReadAllExamples(*Open().value()).labels[0].ids, ElementsAre(0));
  set_.mutable_hold_out()->set_part(HoldOut::HELD_OUT);
  for (const uint64_t memory : {uint64_t{0}, kPlenty}) {
    const Batch batch = ReadAllExamples(*Open(memory).value());
    EXPECT_THAT(batch.labels[0].ids, ElementsAre(2, 7));
    EXPECT_EQ(batch.features[0].floats[0], 7);
  }
}

TEST_F(NumpyDatasetTest, FileThatChangesLaterIsNoticed) {
  const std::unique_ptr<Dataset> dataset = Open(/*memory=*/0).value();
  WriteTestFile(directory_, "y.npy", ReferenceFile("i8.npy").substr(0, 140));
  Batch batch;
  const absl::Status status = dataset->Read({3}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("y.npy: has changed"));
}

TEST_F(NumpyDatasetTest, ArraysMustHaveAsManyRows) {
  const std::string dictionary = "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }";
  WriteTestFile(directory_, "y.npy", Npy(dictionary, "ab"));
  EXPECT_THAT(Error(),
              HasSubstr("data.train.numpy.label.files: y.npy has 2 rows, but x.npy has 4"));
}

TEST_F(NumpyDatasetTest, WhatIsWrongIsReportedWithItsPlace) {
  const std::string f4 = ReferenceFile("f4.npy");
  EXPECT_THAT(ErrorOfX(f4.substr(0, 223)),
              HasSubstr("x.npy: truncated at offset 223: the header says float32 [4, 3, 2], 96 "
                        "bytes"));
  EXPECT_THAT(ErrorOfX(f4 + "x"), HasSubstr("x.npy: goes on after offset 224"));
  EXPECT_THAT(ErrorOfX(f4.substr(0, 50)), HasSubstr("truncated at offset 50, within its header"));
  EXPECT_THAT(ErrorOfX("abc"), HasSubstr("not an array of NumPy"));
  EXPECT_THAT(ErrorOfX(""), HasSubstr("not an array of NumPy"));
  std::string nan = f4;
  nan.replace(128 + 4 * 7, 4, std::string("\0\0\xc0\x7f", 4));
  EXPECT_THAT(ErrorOfX(nan), HasSubstr("x.npy: example 1: features: element 1 is nan"));
}

// They were said to be inf, which the file does not have.
TEST_F(NumpyDatasetTest, Float64ThatNoFloat32HoldsIsShown) {
  set_.mutable_numpy()->clear_label();
  const auto file = [](double second) {
    const double values[] = {1.5, second};
    return Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }",
               std::string(reinterpret_cast<const char*>(values), sizeof(values)));
  };
  EXPECT_THAT(ErrorOfX(file(-1e300)),
              HasSubstr("x.npy: example 0: features: element 1 is -1e+300; must be between "
                        "-3.40282e+38 and 3.40282e+38, as float32 is"));
  EXPECT_THAT(ErrorOfX(file(HUGE_VAL)), HasSubstr("features: element 1 is inf; must be finite"));
  EXPECT_THAT(ReadAllExamples(*OpenX(file(3.4e38))).features[0].floats, ElementsAre(1.5f, 3.4e38f));
}

TEST_F(NumpyDatasetTest, ArraysThatCannotBeUsedAreRefused) {
  const auto error = [this](const std::string& descr, const std::string& shape) {
    return ErrorOfX(Npy(
        absl::StrCat("{'descr': ", descr, ", 'fortran_order': False, 'shape': ", shape, "}"), ""));
  };
  EXPECT_THAT(error("'<U3'", "(4,)"), HasSubstr("elements of type '<U3'; must be booleans"));
  EXPECT_THAT(error("'<c8'", "(4,)"), HasSubstr("elements of type '<c8'"));
  EXPECT_THAT(error("[('a', '<f4')]", "(4,)"), HasSubstr("its header is not of a plain array"));
  EXPECT_THAT(error("'<f4'", "()"), HasSubstr("one number without a shape"));
  EXPECT_THAT(error("'<f4'", "(0, 3)"), HasSubstr("of shape [0, 3]; has to have rows"));
  EXPECT_THAT(error("'<f4'", "(3, 0)"), HasSubstr("of shape [3, 0]; a row has 1 to"));
  EXPECT_THAT(error("'<f4'", "(4611686018427387904, 4)"), HasSubstr("below 2^63 bytes"));
  EXPECT_THAT(error("'<f4'", "(2, 99999999, 99999999)"), HasSubstr("a row has 1 to"));
  EXPECT_THAT(error("'<f4'", "(4, -1)"), HasSubstr("its header is not"));
}

TEST_F(NumpyDatasetTest, HeaderThatClaimsMuchCostsNothing) {
  for (const char* order : {"True", "False"}) {
    EXPECT_THAT(ErrorOfX(Npy(absl::StrCat("{'descr': '<f8', 'fortran_order': ", order,
                                          ", 'shape': (1000000000, 100000000)}"),
                             "abc")),
                HasSubstr("truncated at offset "));
  }
}

// Messages named the file of the first array, whichever was at fault.
TEST_F(NumpyDatasetTest, IdsMustNotBeNegative) {
  const std::string y = "{'descr': '|i1', 'fortran_order': False, 'shape': (4,), }";
  WriteTestFile(directory_, "y.npy", Npy(y, "\1\2\xff\3"));
  EXPECT_THAT(Error(), HasSubstr("y.npy: example 2: label: -1; ids are whole numbers from 0"));
  const std::string wide = "{'descr': '<u8', 'fortran_order': False, 'shape': (4,), }";
  WriteTestFile(directory_, "y.npy", Npy(wide, std::string(32, '\xff')));
  EXPECT_THAT(Error(), HasSubstr("y.npy: example 0: 18446744073709551615; ids are"));
}

TEST_F(NumpyDatasetTest, DamagedArchivesAreReported) {
  x().set_array("x");
  const std::string stored = ReferenceFile("stored.npz");
  std::string flipped = stored;
  flipped[stored.find("NUMPY") + 130] ^= 1;
  EXPECT_THAT(ErrorOfX(flipped), HasSubstr("x.npy: x.npy: damaged: its CRC-32 is another one"));
  EXPECT_THAT(ErrorOfX(stored.substr(0, 300)),
              HasSubstr("truncated: a zip archive's directory is missing"));
}

TEST_F(NumpyDatasetTest, DamagedFilesNeverCrash) {
  constexpr uint64_t kSeed = 20260202;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  x().set_array("x");
  std::vector<std::string> originals;
  for (const char* name : {"f4.npy", "f4_fortran.npy", "i8.npy", "stored.npz", "deflated.npz"}) {
    originals.push_back(ReferenceFile(name));
  }
  originals.push_back(Gzip(originals[0]));
  for (int i = 0; i < 6000; ++i) {
    millrace::testing::ReplaceTestFile(directory_, "x.npy",
                                       Mutate(originals[i % originals.size()], &random));
    const DatasetOr dataset = Open(i % 4 < 2 ? 0 : kPlenty);
    if (!dataset.ok()) {
      EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
      continue;
    }
    EXPECT_EQ(ReadAllExamples(**dataset).size, (*dataset)->size());
  }
}

}  // namespace
}  // namespace millrace::worker
