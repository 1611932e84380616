#include "worker/model/initializer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace millrace::worker {
namespace {

// The standard deviation of a unit normal truncated at two standard deviations.
constexpr double kTruncatedStddev = 0.87962566103423978;

InitialValue Constant(float value) {
  InitialValue result;
  result.set_constant(value);
  return result;
}

InitialValue Between(double limit) {
  InitialValue result;
  result.mutable_uniform()->set_low(static_cast<float>(-limit));
  result.mutable_uniform()->set_high(static_cast<float>(limit));
  return result;
}

// `scale` / `fan` is the variance in both, as in Keras's VarianceScaling.
InitialValue Uniform(double scale, double fan) {
  return Between(std::sqrt(3 * scale / std::max(1.0, fan)));
}

InitialValue Normal(double scale, double fan) {
  const double stddev = std::sqrt(scale / std::max(1.0, fan)) / kTruncatedStddev;
  InitialValue result;
  result.mutable_truncated_normal()->set_stddev(static_cast<float>(stddev));
  return result;
}

}  // namespace

absl::StatusOr<InitialValue> ResolveInitializer(Initializer initializer, const Fans& fans) {
  const double mean_fan = (fans.in + fans.out) / 2;
  switch (initializer) {
    case ZEROS:
      return Constant(0);
    case ONES:
      return Constant(1);
    case GLOROT_UNIFORM:
      return Uniform(1, mean_fan);
    case GLOROT_NORMAL:
      return Normal(1, mean_fan);
    case HE_UNIFORM:
      return Uniform(2, fans.in);
    case HE_NORMAL:
      return Normal(2, fans.in);
    case LECUN_UNIFORM:
      return Uniform(1, fans.in);
    case LECUN_NORMAL:
      return Normal(1, fans.in);
    case UNIFORM:
      return Between(0.05);
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "is ", static_cast<int>(initializer),
          "; use one of ZEROS, ONES, GLOROT_UNIFORM, GLOROT_NORMAL, HE_UNIFORM, HE_NORMAL, "
          "LECUN_UNIFORM, LECUN_NORMAL and UNIFORM"));
  }
}

}  // namespace millrace::worker
