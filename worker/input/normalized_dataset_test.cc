#include "worker/input/normalized_dataset.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One example of the shape [1, 2, 3], with the values 1 to 6.
class SixNumbers final : public Dataset {
 public:
  explicit SixNumbers(std::vector<uint64_t> shape = {1, 2, 3},
                      ElementType type = ElementType::kFloat)
      : example_(FloatsAndClass(std::move(shape), 1)) {
    example_.features[0].type = type;
  }

  uint64_t size() const override { return 1; }
  const ExampleSpec& example() const override { return example_; }
  uint64_t fingerprint() const override { return 17; }

  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override {
    batch->size = indices.size();
    batch->features.resize(1);
    batch->features[0].floats.clear();
    for (size_t i = 0; i < indices.size() * 6; ++i) {
      batch->features[0].floats.push_back(static_cast<float>(1 + i % 6));
    }
    return absl::OkStatus();
  }

 private:
  ExampleSpec example_;
};

absl::StatusOr<std::unique_ptr<Dataset>> Open(const std::string& text,
                                              std::vector<uint64_t> shape = {1, 2, 3}) {
  Normalization spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return Normalize(std::make_unique<SixNumbers>(std::move(shape)), spec, "data.train");
}

TEST(NormalizedDatasetTest, EachChannelHasItsNumbers) {
  const auto dataset = Open("mean: [1, 2, 3] stddev: [1, 2, 4]").value();
  EXPECT_EQ(dataset->fingerprint(), 17u);
  const Batch batch = millrace::testing::ReadExamples(*dataset, {0, 0});
  EXPECT_THAT(batch.features[0].floats,
              ElementsAre(0, 0, 0, 3, 1.5f, 0.75f, 0, 0, 0, 3, 1.5f, 0.75f));
}

TEST(NormalizedDatasetTest, OneNumberIsForAllChannels) {
  EXPECT_THAT(millrace::testing::ReadAllExamples(*Open("mean: 0.5").value()).features[0].floats,
              ElementsAre(0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f));
  EXPECT_THAT(millrace::testing::ReadAllExamples(*Open("stddev: 2").value()).features[0].floats,
              ElementsAre(0.5f, 1, 1.5f, 2, 2.5f, 3));
}

TEST(NormalizedDatasetTest, NumbersMustFitThePictures) {
  EXPECT_EQ(std::string(Open("mean: [1, 2]").status().message()),
            "data.train.normalization.mean: 2 numbers; must be one, or one for each of the 3 "
            "channels");
  EXPECT_THAT(std::string(Open("stddev: 0").status().message()),
              HasSubstr("data.train.normalization.stddev[0]: 0; must be a finite number above 0"));
  EXPECT_THAT(std::string(Open("mean: nan").status().message()),
              HasSubstr("data.train.normalization.mean[0]: nan; must be a finite number"));
  EXPECT_THAT(std::string(Open("mean: 1", {6}).status().message()),
              HasSubstr("data.train.normalization: examples have 1 features, the first of the "
                        "shape [6]; must be pictures"));
}

// Once it was said that they must be pictures, [height, width, channels], which they are.
TEST(NormalizedDatasetTest, WholeNumbersMustBeDivided) {
  const auto error = [](ElementType type) {
    const auto dataset = Normalize(
        std::make_unique<SixNumbers>(std::vector<uint64_t>{1, 2, 3}, type), {}, "data.train");
    return std::string(dataset.status().message());
  };
  EXPECT_EQ(error(ElementType::kByte),
            "data.train.normalization: the feature 'features' is of whole numbers; must be of "
            "floats: give it divide_by, 255 for pictures of bytes to be from 0 to 1, 1 to keep the "
            "values as they are");
  EXPECT_THAT(error(ElementType::kId), HasSubstr("(of tfrecord's INT64: type: FLOAT)"));
}

}  // namespace
}  // namespace millrace::worker
