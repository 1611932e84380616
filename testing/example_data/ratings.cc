#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "testing/digits/random.h"
#include "testing/example_data/example_data.h"
#include "testing/example_data/write_file.h"

namespace millrace::testing {
namespace {

constexpr int kUsers = 300;
constexpr int kMovies = 200;
constexpr int kRatings = 20000;
constexpr double kRatingError = 0.4;
constexpr int kFirstTimestamp = 1500000000;

// What is hidden behind the ratings of a user, or those of a movie.
struct Taste {
  double bias = 0;
  std::array<double, 3> factors = {};
};

std::vector<Taste> MakeTastes(int count, Random* random) {
  std::vector<Taste> tastes(static_cast<size_t>(count));
  for (Taste& taste : tastes) {
    taste.bias = 0.4 * random->Normal();
    for (double& factor : taste.factors) factor = 0.65 * random->Normal();
  }
  return tastes;
}

double Rating(const Taste& user, const Taste& movie, Random* random) {
  const double product =
      std::inner_product(user.factors.begin(), user.factors.end(), movie.factors.begin(), 0.0);
  const double liking = 3.5 + user.bias + movie.bias + product + kRatingError * random->Normal();
  return std::clamp(std::round(2 * liking) / 2, 0.5, 5.0);
}

// MovieLens's ids begin at 1, and those of movies have gaps.
int UserId(size_t user) { return static_cast<int>(user) + 1; }
int MovieId(size_t movie) { return 7 * static_cast<int>(movie) + 1; }

std::string Ids(int count, int (*id)(size_t)) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, id(static_cast<size_t>(i)), "\n");
  return text;
}

// Of all pairs of a user and a movie, so many: no user rates a movie twice.
std::vector<int> ChoosePairs(Random* random) {
  std::vector<int> pairs(kUsers * kMovies);
  std::iota(pairs.begin(), pairs.end(), 0);
  for (size_t i = pairs.size() - 1; i > 0; --i) std::swap(pairs[i], pairs[random->Below(i + 1)]);
  pairs.resize(kRatings);
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace

absl::Status WriteRatings(const std::string& directory, uint64_t seed) {
  Random random(seed);
  const std::vector<Taste> users = MakeTastes(kUsers, &random);
  const std::vector<Taste> movies = MakeTastes(kMovies, &random);
  std::string text = "userId,movieId,rating,timestamp\n";
  for (const int pair : ChoosePairs(&random)) {
    const size_t user = static_cast<size_t>(pair / kMovies);
    const size_t movie = static_cast<size_t>(pair % kMovies);
    absl::StrAppend(&text, UserId(user), ",", MovieId(movie), ",",
                    Rating(users[user], movies[movie], &random), ",", kFirstTimestamp + pair, "\n");
  }
  MILLRACE_RETURN_IF_ERROR(MakeFolder(directory));
  MILLRACE_RETURN_IF_ERROR(WriteBytes(directory + "/ratings.csv", text));
  MILLRACE_RETURN_IF_ERROR(WriteBytes(directory + "/users.txt", Ids(kUsers, UserId)));
  return WriteBytes(directory + "/movies.txt", Ids(kMovies, MovieId));
}

}  // namespace millrace::testing
