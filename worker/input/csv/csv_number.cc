// Columns of numbers, as they are or as buckets.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/input/csv/csv_column.h"
#include "worker/input/number_text.h"

namespace millrace::worker {
namespace {

// The value's number, or the one that stands for missing ones. None: *error says why.
absl::optional<double> NumberOf(const CsvValue& value, const absl::optional<double>& if_missing,
                                absl::optional<CsvError>* error) {
  if (value.missing) {
    if (!if_missing.has_value()) {
      *error = CsvError{0,
                        "is missing, and the column says nothing of that; set `missing` to the "
                        "number that it is to be"};
    }
    return if_missing;
  }
  const absl::optional<double> number = ParseFinite(value.text);
  if (!number.has_value()) *error = CsvError{0, NoFiniteNumber(value.text)};
  return number;
}

class NumberEncoder final : public CsvEncoder {
 public:
  explicit NumberEncoder(const CsvNumber& spec)
      : subtract_(spec.subtract()), divide_(spec.has_divide() ? spec.divide() : 1) {
    if (spec.has_missing()) missing_ = spec.missing();
  }

  int64_t ids() const override { return 0; }

  absl::optional<CsvError> Encode(absl::Span<const CsvValue> values, CsvCell* cell) const override {
    absl::optional<CsvError> error;
    const absl::optional<double> x = NumberOf(values[0], missing_, &error);
    if (!x.has_value()) return error;
    cell->number = static_cast<float>((*x - subtract_) / divide_);
    if (std::isfinite(cell->number)) return absl::nullopt;
    return CsvError{
        0, absl::StrCat("(", *x, " - ", subtract_, ") / ", divide_, " does not fit float32")};
  }

 private:
  const double subtract_;
  const double divide_;
  absl::optional<double> missing_;
};

class BucketsEncoder final : public CsvEncoder {
 public:
  explicit BucketsEncoder(const CsvBuckets& spec)
      : boundaries_(spec.boundaries().begin(), spec.boundaries().end()) {
    if (spec.has_missing()) missing_ = spec.missing();
  }

  int64_t ids() const override { return static_cast<int64_t>(boundaries_.size()) + 1; }

  absl::optional<CsvError> Encode(absl::Span<const CsvValue> values, CsvCell* cell) const override {
    absl::optional<CsvError> error;
    const absl::optional<double> x = NumberOf(values[0], missing_, &error);
    if (x.has_value()) cell->id = BucketOf(boundaries_, *x);
    return error;
  }

 private:
  const std::vector<double> boundaries_;
  absl::optional<double> missing_;
};

}  // namespace

absl::optional<double> ParseFinite(absl::string_view text) {
  const absl::optional<double> number = ParseNumber(text);
  return number.has_value() && std::isfinite(*number) ? number : absl::nullopt;
}

std::string NoFiniteNumber(absl::string_view text) {
  return absl::StrCat(ShowWord(text), "; must be a finite number");
}

int32_t BucketOf(absl::Span<const double> boundaries, double x) {
  const auto* above = std::upper_bound(boundaries.begin(), boundaries.end(), x);
  return static_cast<int32_t>(above - boundaries.begin());
}

std::unique_ptr<CsvEncoder> MakeNumberEncoder(const CsvNumber& spec) {
  return std::make_unique<NumberEncoder>(spec);
}

std::unique_ptr<CsvEncoder> MakeBucketsEncoder(const CsvBuckets& spec) {
  return std::make_unique<BucketsEncoder>(spec);
}

}  // namespace millrace::worker
