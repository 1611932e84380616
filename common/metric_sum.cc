#include "common/metric_sum.h"

#include <cmath>

namespace millrace {

void AddMetricSum(const MetricSum& more, MetricSum* sum) {
  sum->set_name(more.name());
  sum->set_sum(sum->sum() + more.sum());
  sum->set_count(sum->count() + more.count());
  sum->set_root(more.root());
}

double MetricValue(const MetricSum& sum) {
  const double ratio = sum.count() == 0 ? 0 : sum.sum() / sum.count();
  return sum.root() ? std::sqrt(ratio) : ratio;
}

}  // namespace millrace
