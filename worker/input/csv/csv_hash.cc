// Columns of any text: one, or several at once, hashed.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/input/csv/csv_column.h"
#include "worker/input/fingerprint.h"

namespace millrace::worker {
namespace {

uint64_t HashText(uint64_t seed, absl::string_view text) {
  return Fingerprint(
      seed, absl::MakeConstSpan(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

class HashEncoder final : public CsvEncoder {
 public:
  explicit HashEncoder(uint32_t buckets) : buckets_(buckets) {}

  int64_t ids() const override { return buckets_; }

  absl::optional<CsvError> Encode(absl::Span<const CsvValue> values, CsvCell* cell) const override {
    const absl::string_view text = values[0].missing ? "" : values[0].text;
    cell->id = static_cast<int32_t>(HashText(0, text) % buckets_);
    return absl::nullopt;
  }

 private:
  const uint32_t buckets_;
};

class CrossEncoder final : public CsvEncoder {
 public:
  explicit CrossEncoder(const CsvCross& spec) : buckets_(spec.buckets()) {
    for (const CsvCrossPart& part : spec.parts()) {
      boundaries_.emplace_back(part.boundaries().begin(), part.boundaries().end());
    }
  }

  int64_t ids() const override { return buckets_; }

  absl::optional<CsvError> Encode(absl::Span<const CsvValue> values, CsvCell* cell) const override {
    uint64_t hash = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].missing) {
        hash = HashText(hash, "");
      } else if (boundaries_[i].empty()) {
        hash = HashText(hash, values[i].text);
      } else if (const absl::optional<double> x = ParseFinite(values[i].text)) {
        hash = HashText(hash, absl::StrCat(BucketOf(boundaries_[i], *x)));
      } else {
        return CsvError{i, NoFiniteNumber(values[i].text)};
      }
    }
    cell->id = static_cast<int32_t>(hash % buckets_);
    return absl::nullopt;
  }

 private:
  const uint32_t buckets_;
  std::vector<std::vector<double>> boundaries_;  // Of each part.
};

}  // namespace

std::unique_ptr<CsvEncoder> MakeHashEncoder(const CsvHash& spec) {
  return std::make_unique<HashEncoder>(spec.buckets());
}

std::unique_ptr<CsvEncoder> MakeCrossEncoder(const CsvCross& spec) {
  return std::make_unique<CrossEncoder>(spec);
}

}  // namespace millrace::worker
