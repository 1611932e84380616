// Training in this process, without servers.
#ifndef MILLRACE_TESTING_GPU_LOCAL_TRAINING_H_
#define MILLRACE_TESTING_GPU_LOCAL_TRAINING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "ps/optimizer/optimizer.h"
#include "worker/device/device.h"
#include "worker/input/augmenter.h"
#include "worker/input/dataset.h"
#include "worker/input/step_order.h"
#include "worker/model/model.h"

namespace millrace::testing {

// What a synchronous job with one replica computes: its initial values, the examples and the
// dropout of each step, and its optimizer. Not thread-safe.
class LocalTraining {
 public:
  // `spec` has the directory of its data. Statuses as of OpenDataset, PlanModel, Device::Compile
  // and MakeOptimizer.
  static absl::StatusOr<std::unique_ptr<LocalTraining>> Start(
      const JobSpec& spec, std::shared_ptr<worker::Device> device);
  ~LocalTraining();

  // Does the next step, and returns the mean loss of its batch before the update.
  absl::StatusOr<double> Step();

  // Of all variables, as the last step left them.
  std::vector<float> Values() const;

  // Goes on from where `other` is: its values, and what its optimizer keeps. REQUIRES: of the same
  // job, and as many steps done.
  void GoOnFrom(const LocalTraining& other);

 private:
  class Gradients;
  struct Variable;

  explicit LocalTraining(const JobSpec& spec);
  absl::Status OpenData();
  absl::Status MakeVariables();
  void Update();

  const JobSpec spec_;
  uint64_t step_ = 0;
  std::unique_ptr<worker::Dataset> examples_;
  std::unique_ptr<worker::StepOrder> order_;
  std::unique_ptr<worker::Augmenter> augmenter_;  // Null: pictures stay as they are.
  std::unique_ptr<worker::Model> model_;
  std::unique_ptr<ps::Optimizer> optimizer_;
  std::vector<Variable> variables_;
  std::unique_ptr<Gradients> gradients_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_GPU_LOCAL_TRAINING_H_
