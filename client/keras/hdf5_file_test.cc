#include "client/keras/hdf5_file.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/keras/keras_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hdf5/serial/hdf5.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Puts a dataset of 4 x 3 elements into a file.
void AddDataset(hid_t file, const char* name, hid_t type, hid_t creation) {
  const hsize_t sizes[] = {4, 3};
  const hid_t space = H5Screate_simple(2, sizes, nullptr);
  const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  const std::vector<double> values(12, 2.5);
  H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(set);
  H5Sclose(space);
}

// What Keras does not write.
std::string OddFile() {
  const std::string path = absl::StrCat(::testing::TempDir(), "/odd.h5");
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  AddDataset(file, "double", H5T_IEEE_F64LE, H5P_DEFAULT);
  AddDataset(file, "whole", H5T_STD_I32LE, H5P_DEFAULT);
  const hid_t chunked = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[] = {2, 2};
  H5Pset_chunk(chunked, 2, chunk);
  AddDataset(file, "chunked", H5T_IEEE_F32LE, chunked);
  H5Pclose(chunked);
  H5Lcreate_soft("/double", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("/etc/other.h5", "/x", file, "external", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  return path;
}

TEST(Hdf5FileTest, ReadsWhatKerasWrote) {
  const auto file = Hdf5File::Open(KerasSamplePath("sequences.keras3.weights.h5"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Has("layers/embedding/vars/0"));
  EXPECT_FALSE(file->Has("layers/embedding/vars/1"));
  EXPECT_FALSE(file->Has("layers//vars"));
  EXPECT_THAT(*file->Shape("layers/embedding/vars/0"), ElementsAre(50, 6));
  EXPECT_EQ(file->Values("layers/embedding/vars/0")->size(), 300u);
  EXPECT_THAT(*file->Texts("layers/embedding/vars", "name"), ElementsAre("embedding"));
  EXPECT_THAT(*file->Texts("", "none"), IsEmpty());
}

TEST(Hdf5FileTest, AFileInMemoryIsTheSame) {
  const std::string bytes = ReadKerasSample("trained.keras2.h5");
  const auto file = Hdf5File::FromBytes(bytes, "bytes");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(*file->Texts("model_weights/flat", "weight_names"),
              ElementsAre("flat/kernel:0", "flat/bias:0"));
  EXPECT_THAT(*file->Texts("model_weights/flatten", "weight_names"), IsEmpty());
  EXPECT_THAT(Hdf5File::FromBytes("text", "bytes").status().message(),
              HasSubstr("bytes: no whole HDF5 file: "));
}

TEST(Hdf5FileTest, WhatKerasDoesNotWriteIsRefused) {
  const auto file = Hdf5File::Open(OddFile());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(*file->Values("double"), ::testing::Each(2.5f));
  EXPECT_THAT(file->Values("whole").status().message(),
              HasSubstr("odd.h5: whole: its values are no floating-point numbers"));
  EXPECT_THAT(file->Values("chunked").status().message(),
              HasSubstr("chunked: its values are not in one piece"));
  EXPECT_THAT(file->Shape("").status().message(), HasSubstr("it is no dataset"));
  EXPECT_FALSE(file->Has("soft"));
  EXPECT_FALSE(file->Has("external"));
}

}  // namespace
}  // namespace millrace::client
