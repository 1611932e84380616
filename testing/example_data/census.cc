#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "testing/digits/random.h"
#include "testing/example_data/example_data.h"
#include "testing/example_data/write_file.h"

namespace millrace::testing {
namespace {

constexpr int kTrainRows = 4000;
constexpr int kTestRows = 1000;

constexpr const char* kWorkclasses[] = {"Federal-gov",      "Local-gov", "Private", "Self-emp-inc",
                                        "Self-emp-not-inc", "State-gov", "?"};
// The number of the first is 1.
constexpr const char* kEducations[] = {"Preschool", "1st-4th",      "5th-6th",     "7th-8th",
                                       "9th",       "10th",         "11th",        "12th",
                                       "HS-grad",   "Some-college", "Assoc-voc",   "Assoc-acdm",
                                       "Bachelors", "Masters",      "Prof-school", "Doctorate"};
constexpr const char* kMaritalStatuses[] = {"Divorced", "Married-civ-spouse", "Never-married",
                                            "Separated", "Widowed"};
constexpr const char* kOccupations[] = {"Adm-clerical",    "Craft-repair",  "Exec-managerial",
                                        "Farming-fishing", "Other-service", "Prof-specialty",
                                        "Sales",           "Tech-support",  "?"};
constexpr const char* kRelationships[] = {"Husband",   "Not-in-family", "Other-relative",
                                          "Own-child", "Unmarried",     "Wife"};
constexpr const char* kRaces[] = {"Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other",
                                  "White"};
constexpr const char* kSexes[] = {"Female", "Male"};
constexpr const char* kCountries[] = {"United-States", "Mexico", "Philippines", "Germany", "?"};

// What occupations pay, and how much more with each year of school: no sum of what an education and
// an occupation say on their own.
constexpr std::array<double, 9> kPay = {-0.5, 0.0, 0.8, -1.2, -1.5, 0.3, 0.2, 0.4, -0.6};
constexpr std::array<double, 9> kPayOfSchool = {0.2, -0.2, 0.7, 0.0, -0.3, 0.9, 0.5, 0.4, 0.0};

size_t Any(absl::Span<const char* const> words, Random* random) {
  return random->Below(words.size());
}

const char* AnyWord(absl::Span<const char* const> words, Random* random) {
  return words[Any(words, random)];
}

// Numbers as people in a census have them: around a mean, in bounds, whole.
int Whole(double mean, double deviation, int least, int most, Random* random) {
  return std::clamp(static_cast<int>(std::lround(mean + deviation * random->Normal())), least,
                    most);
}

// A row without its label, and the odds that the person earns more than $50,000.
struct Person {
  std::string row;
  double probability = 0;
};

Person MakePerson(Random* random) {
  const int age = Whole(38.6, 13.6, 17, 90, random);
  const int school = Whole(10.1, 2.6, 1, 16, random);
  const int hours = Whole(40.4, 12.3, 1, 99, random);
  const int gain = random->Below(12) == 0 ? Whole(9000, 4000, 100, 99999, random) : 0;
  const size_t status = Any(kMaritalStatuses, random);
  const size_t occupation = Any(kOccupations, random);
  const double years = (school - 10.1) / 2.6;
  const double working_life = 1 - std::pow((age - 48) / 20.0, 2);
  const double logit = -2.2 + (status == 1 ? 1.8 : 0) + kPay[occupation] +
                       (0.6 + kPayOfSchool[occupation]) * years + 0.6 * working_life +
                       0.4 * (hours - 40.4) / 12.3 + (gain > 5000 ? 3 : 0);
  const double probability = 1 / (1 + std::exp(-logit));
  // One after the other: arguments of a call are evaluated in any order.
  const uint64_t weight = 20000 + random->Below(300000);
  const char* workclass = AnyWord(kWorkclasses, random);
  const char* relationship = AnyWord(kRelationships, random);
  const char* race = AnyWord(kRaces, random);
  const char* sex = AnyWord(kSexes, random);
  const char* country = AnyWord(kCountries, random);
  return {
      absl::StrCat(age, ", ", workclass, ", ", weight, ", ", kEducations[school - 1], ", ", school,
                   ", ", kMaritalStatuses[status], ", ", kOccupations[occupation], ", ",
                   relationship, ", ", race, ", ", sex, ", ", gain, ", 0, ", hours, ", ", country),
      probability};
}

// `after_label`: a full stop in the test file, as it is published.
std::string MakeRows(int count, const char* after_label, Random* random) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const Person person = MakePerson(random);
    const bool earns_more = random->Uniform(0, 1) < person.probability;
    absl::StrAppend(&text, person.row, earns_more ? ", >50K" : ", <=50K", after_label, "\n");
  }
  return text;
}

}  // namespace

absl::Status WriteCensus(const std::string& directory, uint64_t seed) {
  Random random(seed);
  MILLRACE_RETURN_IF_ERROR(MakeFolder(directory));
  MILLRACE_RETURN_IF_ERROR(
      WriteBytes(directory + "/adult.data", MakeRows(kTrainRows, "", &random)));
  return WriteBytes(directory + "/adult.test",
                    absl::StrCat("|1x3 Cross validator\n", MakeRows(kTestRows, ".", &random)));
}

}  // namespace millrace::testing
