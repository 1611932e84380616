// Losses, metrics and labels that nobody thought of.
#ifndef MILLRACE_WORKER_DEVICE_MODEL_TESTS_RANDOM_OUTPUTS_H_
#define MILLRACE_WORKER_DEVICE_MODEL_TESTS_RANDOM_OUTPUTS_H_

#include <cstdint>
#include <string>

#include "protos/model.pb.h"
#include "protos/output.pb.h"
#include "worker/device/model_tests/random_models.h"
#include "worker/model/shape.h"

namespace millrace::worker {

// The last layers of an output.
struct Head {
  Loss loss = LOSS_UNSPECIFIED;
  std::string layer;
  std::string then = "";  // Takes that one. Empty: there is none.
};

class OutputWriter {
 public:
  // Both outlive it.
  OutputWriter(RandomModel* model, Choices* choices) : model_(*model), choices_(*choices) {}

  // An output of that layer, which gives `shape`, against floats. False: it has too many numbers,
  // or there are enough outputs.
  bool TryRegression(int layer, const Shape& shape);

  Head DrawHead();
  // `layer`: the head's last one.
  void Add(const Head& head, int layer, const Shape& shape);

  // Names labels, or leaves the names out, where there is one. After the last output.
  void Finish();

 private:
  size_t From(size_t least, size_t most) { return choices_.From(least, most); }
  bool OneIn(size_t n) { return choices_.OneIn(n); }
  Loss FloatLoss();
  void AddMetrics(uint64_t width, OutputSpec* output);
  void AddClassWeights(uint64_t width, OutputSpec* output);
  std::string AddLabel(Loss loss, const Shape& shape);
  void AddOutput(Loss loss, int layer, const Shape& shape);
  // The same, where the model has one output that can be told in short.
  void Shorten();

  RandomModel& model_;
  Choices& choices_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_MODEL_TESTS_RANDOM_OUTPUTS_H_
