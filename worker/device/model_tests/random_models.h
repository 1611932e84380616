// Whole models that nobody thought of, and batches for them: every layer of protos/model.proto and
// every field of it, every loss and metric, several features, labels and outputs.
#ifndef MILLRACE_WORKER_DEVICE_MODEL_TESTS_RANDOM_MODELS_H_
#define MILLRACE_WORKER_DEVICE_MODEL_TESTS_RANDOM_MODELS_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "protos/model.pb.h"
#include "worker/input/batch.h"
#include "worker/input/example_spec.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// What is chosen follows from the seed and the compiler, which may evaluate arguments in any order.
class Choices {
 public:
  explicit Choices(uint64_t seed) : random_(seed) {}

  size_t From(size_t least, size_t most) { return least + random_() % (most - least + 1); }
  bool OneIn(size_t n) { return random_() % n == 0; }
  float Uniform() { return static_cast<float>(random_() % 2000001) / 1e6f - 1; }  // In [-1, 1].
  template <typename T>
  const T& OneOf(const std::vector<T>& members) {
    return members[From(0, members.size() - 1)];
  }
  std::string Named(const std::vector<const char*>& names) { return OneOf(names); }

 private:
  std::mt19937_64 random_;
};

struct RandomModel {
  ModelSpec spec;
  ExampleSpec examples;
};

// One that PlanModel takes, of up to about 30 small layers.
RandomModel MakeRandomModel(uint64_t seed);

// How values are drawn. Coarse ones are few whole eighths: many are equal, zero or where functions
// have a kink. `shake`: each is multiplied with a factor in [1 - shake, 1 + shake], to see what
// comes of that.
struct Drawing {
  uint64_t seed = 0;
  bool coarse = false;
  double shake = 0;
};

// Of a size that keeps what layers give near 1.
std::vector<std::vector<float>> DrawValues(const ModelPlan& plan, const Drawing& drawing);

// Perhaps with weights, among them 0.
Batch DrawBatch(const ModelPlan& plan, size_t size, const Drawing& drawing);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_MODEL_TESTS_RANDOM_MODELS_H_
