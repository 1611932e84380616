#include "common/evaluation_set.h"

namespace millrace {

Dataset EvaluationSet(const DataSpec& data) {
  Dataset set = data.evaluate();
  if (data.train().has_normalization() && !set.has_normalization()) {
    *set.mutable_normalization() = data.train().normalization();
  }
  if (!set.has_csv() || !set.csv().columns().empty() || !data.train().has_csv()) return set;
  CsvFiles csv = data.train().csv();
  *csv.mutable_files() = set.csv().files();
  *set.mutable_csv() = csv;
  return set;
}

}  // namespace millrace
