// Small data files for tests, whole and damaged.
#ifndef MILLRACE_WORKER_INPUT_INPUT_TEST_UTIL_H_
#define MILLRACE_WORKER_INPUT_INPUT_TEST_UTIL_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "worker/input/batch.h"
#include "worker/input/dataset.h"

namespace millrace::testing {

// A new, empty folder of the running test.
std::string MakeTestDirectory();

void WriteTestFile(const std::string& directory, const std::string& name, const std::string& bytes);

// The same as a new file: whoever has an old one of this name open goes on reading that. Much
// faster where many are written: some file systems write one that is cut to nothing to the disk at
// once.
void ReplaceTestFile(const std::string& directory, const std::string& name,
                     const std::string& bytes);

// A file that NumPy or TensorFlow wrote: testing/reference/data_files.py.
std::string ReferenceFile(const std::string& name);

// As gzip would compress it.
std::string Gzip(const std::string& bytes);

// Numbers in IDX's byte order.
std::string BigEndian32(uint32_t value);

// IDX files. REQUIRES: `pixels` holds whole images.
std::string IdxImages(uint32_t rows, uint32_t columns, const std::vector<uint8_t>& pixels);
std::string IdxLabels(const std::vector<uint8_t>& labels);

// `bytes` with one to three small changes: bytes replaced, inserted or removed, the end cut off, a
// part repeated.
std::string Mutate(const std::string& bytes, std::mt19937_64* random);

// The examples at `indices`, or all of them. Stops the test where they cannot be read.
worker::Batch ReadExamples(const worker::Dataset& dataset, const std::vector<uint64_t>& indices);
worker::Batch ReadAllExamples(const worker::Dataset& dataset);

// The folder of real data sets (environment variable MILLRACE_TEST_DATA); empty where there is
// none.
std::string RealDataDirectory();

}  // namespace millrace::testing

#endif  // MILLRACE_WORKER_INPUT_INPUT_TEST_UTIL_H_
