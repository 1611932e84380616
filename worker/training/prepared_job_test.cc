#include "worker/training/prepared_job.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "worker/input/dataset.h"

namespace millrace::worker {
namespace {

class FingerprintedSet final : public Dataset {
 public:
  explicit FingerprintedSet(uint64_t fingerprint) : fingerprint_(fingerprint) {}

  uint64_t size() const override { return 1; }
  const ExampleSpec& example() const override { return example_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const uint64_t> /*indices*/, Batch* /*batch*/) const override {
    return absl::OkStatus();
  }

 private:
  const uint64_t fingerprint_;
  const ExampleSpec example_;
};

// Of a job with sets that have these.
uint64_t FingerprintOfJob(uint64_t train, absl::optional<uint64_t> evaluate) {
  PreparedJob job;
  job.train = std::make_unique<FingerprintedSet>(train);
  if (evaluate.has_value()) job.evaluate = std::make_unique<FingerprintedSet>(*evaluate);
  return DataFingerprint(job);
}

TEST(PreparedJobTest, FingerprintTellsBothSetsFromOthers) {
  const uint64_t fingerprint = FingerprintOfJob(3, 4);
  EXPECT_NE(fingerprint, 0);
  EXPECT_EQ(fingerprint, FingerprintOfJob(3, 4));
  EXPECT_NE(fingerprint, FingerprintOfJob(5, 4));
  EXPECT_NE(fingerprint, FingerprintOfJob(3, 5));
  EXPECT_NE(fingerprint, FingerprintOfJob(4, 3));
  EXPECT_NE(fingerprint, FingerprintOfJob(3, absl::nullopt));
}

TEST(PreparedJobTest, FingerprintIsUnknownWhereThatOfASetIs) {
  EXPECT_NE(FingerprintOfJob(3, absl::nullopt), 0);
  EXPECT_EQ(FingerprintOfJob(0, absl::nullopt), 0);
  EXPECT_EQ(FingerprintOfJob(0, 4), 0);
  EXPECT_EQ(FingerprintOfJob(3, 0), 0);
}

}  // namespace
}  // namespace millrace::worker
