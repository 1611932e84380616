// Gradients that leave for the ps servers while the backward pass goes on.
#ifndef MILLRACE_WORKER_TRAINING_PUSHING_SINK_H_
#define MILLRACE_WORKER_TRAINING_PUSHING_SINK_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/wire/encoding.h"
#include "protos/job.pb.h"
#include "worker/model/gradient_set.h"
#include "worker/model/model.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::worker {

// What to do about a loss or a gradient that is no number, for the ends of messages.
inline constexpr absl::string_view kLossAdvice =
    "lower the learning rate, or look for outliers in the data";

// Adds each variable's gradient, or statistic, to a push as soon as the model has finished it or
// the beginning of it, unless it has values that are no numbers. It looks for these, but not in
// float32 that the model knows to be finite and that leaves as it is. Where gradients are to be
// clipped by the norm of all of them, they are kept until the last one is there. What leaves in
// less than float32 is rounded where it stands, in the pass that looks. A gradient that the model
// gives by rows leaves so, when it is finished; memory for it is taken for each step. Used by one
// thread.
class PushingSink final : public GradientSink {
 public:
  // `push` and `variables` must outlive this object; the push holds `gradients` for as long as it
  // needs them. `goes_on`, which may be null, is called when the backward pass begins, and whenever
  // a gradient is finished. `global_clip_norm`: see OptimizerSpec; nothing: this step's is not
  // clipped here. `wire`: how gradients travel; statistics are FLOAT32.
  PushingSink(ParameterClient::Push* push, std::shared_ptr<GradientSet> gradients,
              const std::vector<VariableSpec>& variables, Clock* clock,
              std::function<void()> goes_on = nullptr,
              absl::optional<double> global_clip_norm = absl::nullopt,
              Encoding::Kind wire = Encoding::FLOAT32);

  void BackwardBegins() override;
  absl::Span<float> Buffer(size_t variable) override;
  absl::optional<absl::Span<float>> RowBuffer(size_t variable,
                                              std::shared_ptr<const VariableRows> rows) override;
  absl::Span<float> DeviceBuffer(size_t variable) override;
  void FinishedFirst(size_t variable, size_t count) override;
  void Finished(size_t variable) override;
  void FinishedFinite(size_t variable) override;

  // Once the model is done: OK, PushKept and then the push may be committed. OUT_OF_RANGE: a
  // gradient is not finite, or does not fit its encoding; the message says what to do.
  // INTERNAL: the model has not finished the gradient of each variable that is not frozen exactly
  // once, or that of a frozen one.
  absl::Status Check() const;

  // Clips the gradients that were kept, and adds them to the push. Does nothing where none were.
  // OUT_OF_RANGE: one does not fit its encoding. REQUIRES: Check() is OK; called once.
  absl::Status PushKept();

  // When the backward pass began; where none did, when this object was made.
  absl::Time backward_began_at() const { return backward_began_at_; }

 private:
  // Of a variable that has no place in the set: what is written to instead.
  struct OwnGradient {
    std::shared_ptr<const VariableRows> rows;  // Null: it is of all of the variable.
    std::shared_ptr<float[]> values;           // Null: it has a place, or none was asked for.
    size_t size = 0;                           // Of `values`.
  };

  bool IsFrozen(size_t variable) const { return variables_[variable].update().has_frozen(); }

  void Finish(size_t variable, bool known_finite);
  // Looks through what was not looked at of the first `count` elements, and adds them to the push.
  void Take(size_t variable, size_t count);
  // Elements `begin` to `end` are final, and are not rounded yet: they leave, and those before
  // them.
  void Send(size_t variable, size_t begin, size_t end);
  // Adds the first `count` elements to the push, which are finite and encoded.
  void Add(size_t variable, size_t count);
  // What the model has written of a variable's gradient: all of it, or the rows.
  absl::Span<float> Written(size_t variable);
  // The first of `fresh` that cannot be pushed; fresh.size(): none. Rounds them to `to`, where they
  // do not leave as float32.
  size_t RoundFinite(size_t variable, absl::Span<const float> fresh, char* to) const;
  // Sets bad_. `index`: in Written.
  void NoteBad(size_t variable, size_t index);

  Encoding::Kind EncodingOf(size_t variable) const;
  float FactorOfKept();

  ParameterClient::Push* const push_;
  const std::vector<VariableSpec>& variables_;
  const std::shared_ptr<GradientSet> gradients_;
  Clock* const clock_;
  const std::function<void()> goes_on_;
  const absl::optional<double> global_clip_norm_;
  const Encoding::Kind wire_;
  absl::Time backward_began_at_;
  bool has_begun_ = false;
  std::vector<int> finished_;     // How often, by variable.
  std::vector<size_t> taken_;     // Elements from the first on, by variable.
  std::vector<OwnGradient> own_;  // By variable.
  absl::Status bad_;              // Of the first variable that cannot be pushed.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_PUSHING_SINK_H_
