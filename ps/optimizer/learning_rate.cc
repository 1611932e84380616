#include "ps/optimizer/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "ps/optimizer/portable_math.h"

namespace millrace::ps {
namespace {

constexpr double kDefaultEndLearningRate = 0.0001;
constexpr double kDefaultCycleGrowth = 2;

double PiecewiseConstantAt(const PiecewiseConstant& spec, double initial, uint64_t n) {
  const auto& boundaries = spec.boundaries();
  const auto passed = std::lower_bound(boundaries.begin(), boundaries.end(), n);
  if (passed == boundaries.begin()) return initial;
  return spec.learning_rates(static_cast<int>(passed - boundaries.begin()) - 1);
}

double ExponentialDecayAt(const ExponentialDecay& spec, double initial, uint64_t n) {
  if (spec.staircase()) return initial * Power(spec.decay_rate(), n / spec.decay_steps());
  const double exponent = static_cast<double>(n) / static_cast<double>(spec.decay_steps());
  return initial * Pow(spec.decay_rate(), exponent);
}

double InverseTimeDecayAt(const InverseTimeDecay& spec, double initial, uint64_t n) {
  const double part = spec.staircase()
                          ? static_cast<double>(n / spec.decay_steps())
                          : static_cast<double>(n) / static_cast<double>(spec.decay_steps());
  return initial / (1 + spec.decay_rate() * part);
}

// The part of `steps` that is over, or, with `cycle`, of the multiple of it that n is in.
double PartOver(uint64_t steps, bool cycle, uint64_t n) {
  const uint64_t begun = n == 0 ? 1 : (n - 1) / steps + 1;
  const double all = static_cast<double>(steps) * static_cast<double>(cycle ? begun : 1);
  return std::min(static_cast<double>(n) / all, 1.0);
}

double PolynomialDecayAt(const PolynomialDecay& spec, double initial, uint64_t n) {
  const double end =
      spec.has_end_learning_rate() ? spec.end_learning_rate() : kDefaultEndLearningRate;
  const double left = 1 - PartOver(spec.decay_steps(), spec.cycle(), n);
  return (initial - end) * (spec.has_power() ? Pow(left, spec.power()) : left) + end;
}

// From `height` down to `alpha`, as factors.
double Cosine(double part_over, double height, double alpha) {
  return (1 - alpha) * height * ((1 + CosPi(part_over)) / 2) + alpha;
}

double CosineDecayAt(const CosineDecay& spec, double initial, uint64_t n) {
  return initial *
         Cosine(PartOver(spec.decay_steps(), /*cycle=*/false, n), /*height=*/1, spec.alpha());
}

// Where update n is: in which cycle, and how much of that is over.
struct CyclePlace {
  uint64_t cycle = 0;
  double part_over = 0;
};

CyclePlace FindEqualCycle(uint64_t steps, uint64_t n) {
  return {n / steps, static_cast<double>(n % steps) / static_cast<double>(steps)};
}

// Cycle i begins at (growth^i - 1) / (growth - 1), with the first one's length for a unit.
// Logarithms tell which one n is in but for rounding, so the beginnings are compared with n.
CyclePlace FindGrowingCycle(uint64_t steps, double growth, uint64_t n) {
  const auto begin_of = [growth](uint64_t cycle) {
    return (Power(growth, cycle) - 1) / (growth - 1);
  };
  const double over = static_cast<double>(n) / static_cast<double>(steps);
  auto cycle = static_cast<uint64_t>(Log(1 + over * (growth - 1)) / Log(growth));
  if (cycle > 0 && begin_of(cycle) > over) --cycle;
  if (begin_of(cycle + 1) <= over) ++cycle;
  const double part_over = (over - begin_of(cycle)) / Power(growth, cycle);
  return {cycle, std::clamp(part_over, 0.0, 1.0)};
}

double CosineRestartsAt(const CosineRestarts& spec, double initial, uint64_t n) {
  const double growth = spec.has_t_mul() ? spec.t_mul() : kDefaultCycleGrowth;
  const CyclePlace place = growth == 1 ? FindEqualCycle(spec.first_decay_steps(), n)
                                       : FindGrowingCycle(spec.first_decay_steps(), growth, n);
  const double height = spec.has_m_mul() ? Power(spec.m_mul(), place.cycle) : 1;
  return initial * Cosine(place.part_over, height, spec.alpha());
}

// After the warm-up.
double DecayedAt(const LearningRateSchedule& schedule, double initial, uint64_t n) {
  switch (schedule.kind_case()) {
    case LearningRateSchedule::kPiecewiseConstant:
      return PiecewiseConstantAt(schedule.piecewise_constant(), initial, n);
    case LearningRateSchedule::kExponentialDecay:
      return ExponentialDecayAt(schedule.exponential_decay(), initial, n);
    case LearningRateSchedule::kPolynomialDecay:
      return PolynomialDecayAt(schedule.polynomial_decay(), initial, n);
    case LearningRateSchedule::kCosineDecay:
      return CosineDecayAt(schedule.cosine_decay(), initial, n);
    case LearningRateSchedule::kCosineRestarts:
      return CosineRestartsAt(schedule.cosine_restarts(), initial, n);
    case LearningRateSchedule::kInverseTimeDecay:
      return InverseTimeDecayAt(schedule.inverse_time_decay(), initial, n);
    case LearningRateSchedule::KIND_NOT_SET:
      break;
  }
  return initial;
}

}  // namespace

LearningRate::LearningRate(double initial, const LearningRateSchedule& schedule)
    : initial_(initial), schedule_(schedule) {}

double LearningRate::At(uint64_t version) const {
  const uint64_t n = version - 1;
  const Warmup& warmup = schedule_.warmup();
  if (n >= warmup.steps()) return DecayedAt(schedule_, initial_, n - warmup.steps());
  const double part_over = static_cast<double>(n) / static_cast<double>(warmup.steps());
  return initial_ * (warmup.from() + (1 - warmup.from()) * part_over);
}

}  // namespace millrace::ps
