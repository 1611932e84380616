#include "worker/model/initializer.h"

#include <cmath>

#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

constexpr Fans kFans = {300, 100};

InitialValue Resolve(Initializer initializer) {
  const absl::StatusOr<InitialValue> value = ResolveInitializer(initializer, kFans);
  EXPECT_TRUE(value.ok()) << value.status();
  return *value;
}

void ExpectUniform(Initializer initializer, double limit) {
  const InitialValue value = Resolve(initializer);
  EXPECT_FLOAT_EQ(value.uniform().low(), static_cast<float>(-limit));
  EXPECT_FLOAT_EQ(value.uniform().high(), static_cast<float>(limit));
}

void ExpectTruncatedNormal(Initializer initializer, double variance) {
  EXPECT_FLOAT_EQ(Resolve(initializer).truncated_normal().stddev(),
                  static_cast<float>(std::sqrt(variance) / 0.87962566103423978));
}

TEST(InitializerTest, ConstantsAreConstants) {
  EXPECT_EQ(Resolve(ZEROS).kind_case(), InitialValue::kConstant);
  EXPECT_EQ(Resolve(ZEROS).constant(), 0);
  EXPECT_EQ(Resolve(ONES).constant(), 1);
}

TEST(InitializerTest, UniformLimitsAreKeras) {
  ExpectUniform(GLOROT_UNIFORM, std::sqrt(6.0 / 400));
  ExpectUniform(HE_UNIFORM, std::sqrt(6.0 / 300));
  ExpectUniform(LECUN_UNIFORM, std::sqrt(3.0 / 300));
}

TEST(InitializerTest, PlainUniformIsKerasForEmbeddings) { ExpectUniform(UNIFORM, 0.05); }

TEST(InitializerTest, NormalDeviationsMakeUpForTruncation) {
  ExpectTruncatedNormal(GLOROT_NORMAL, 2.0 / 400);
  ExpectTruncatedNormal(HE_NORMAL, 2.0 / 300);
  ExpectTruncatedNormal(LECUN_NORMAL, 1.0 / 300);
}

TEST(InitializerTest, UnknownOnesAreRefused) {
  EXPECT_FALSE(ResolveInitializer(INITIALIZER_UNSPECIFIED, kFans).ok());
  EXPECT_EQ(ResolveInitializer(static_cast<Initializer>(77), kFans).status().message(),
            "is 77; use one of ZEROS, ONES, GLOROT_UNIFORM, GLOROT_NORMAL, HE_UNIFORM, HE_NORMAL, "
            "LECUN_UNIFORM, LECUN_NORMAL and UNIFORM");
}

}  // namespace
}  // namespace millrace::worker
