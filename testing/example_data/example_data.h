// Small generated data for the examples whose own data are not to be had everywhere, so that each
// of them runs as it stands, and tests know what it must come to.
#ifndef MILLRACE_TESTING_EXAMPLE_DATA_EXAMPLE_DATA_H_
#define MILLRACE_TESTING_EXAMPLE_DATA_EXAMPLE_DATA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace millrace::testing {

// What these functions have in common: they make `directory` where it is absent, replace files of
// the same names, write the same bytes for the same seed, and block while they write. UNAVAILABLE:
// a file cannot be written, with its path.

// For regression_csv: friedman.csv, 6,000 rows of "x1", ..., "x10", each uniform from 0 to 1, and
// "y" = 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + e (J. H. Friedman, Multivariate
// Adaptive Regression Splines, 1991). The error e has standard deviation 1, which no model gets
// below.
absl::Status WriteRegressionData(const std::string& directory, uint64_t seed);

// For movielens_mf: 20,000 ratings of 200 movies by 300 users in MovieLens's format, and users.txt
// and movies.txt with the ids. A rating is 3.5 + what the user and the movie add + the product of
// three hidden numbers of each + an error with standard deviation 0.4, rounded to halves, from 0.5
// to 5.
absl::Status WriteRatings(const std::string& directory, uint64_t seed);

// For image_folder: train/CLASS/NNNN.png, 250 pictures each of circles, crosses, squares and
// triangles in any colours and place, of 24 to 48 pixels each way.
absl::Status WriteShapes(const std::string& directory, uint64_t seed);

// For two_inputs: train.npz (2,400 examples) and test.npz (600), with the arrays "picture", bytes
// [n, 28, 28, 1], a drawn digit; "sound", float32 [n, 8], the digit's own eight numbers, all as
// much higher as the pitch says, with errors as large as these; "digit", int64 [n]; and "pitch",
// float32 [n], with standard deviation 1, as the errors. Neither input alone says for sure which
// digit it is. Who knows the digit can tell the pitch with a standard error of 1/3, and no model
// better.
absl::Status WriteTwoInputs(const std::string& directory, uint64_t seed);

// For census_csv and census_wide_deep: adult.data (4,000 rows) and adult.test (1,000 rows after a
// line that is none) as the UCI Adult set is published, but of no real person: who earns more
// follows from age, education, occupation, marriage and hours, by odds that the generator knows.
absl::Status WriteCensus(const std::string& directory, uint64_t seed);

// All of them, each in a folder of `directory` that is called as its example; census_csv has its
// own as well.
absl::Status WriteExampleData(const std::string& directory, uint64_t seed);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_EXAMPLE_DATA_EXAMPLE_DATA_H_
