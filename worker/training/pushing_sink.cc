#include "worker/training/pushing_sink.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::worker {

PushingSink::PushingSink(ParameterClient::Push* push, std::shared_ptr<GradientSet> gradients,
                         size_t variables)
    : push_(push), gradients_(std::move(gradients)), finished_(variables) {}

void PushingSink::Finished(size_t variable) {
  if (finished_[variable]++ > 0) return;  // Check tells of it.
  push_->Add(variable, gradients_->variable(variable), gradients_);
}

absl::Status PushingSink::Check() const {
  for (size_t v = 0; v < finished_.size(); ++v) {
    if (finished_[v] == 1) continue;
    return absl::InternalError(absl::StrCat("the model has finished the gradient of variable ", v,
                                            " ", finished_[v],
                                            " times in one step; it must do so once"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::worker
