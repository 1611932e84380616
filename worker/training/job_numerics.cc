#include "worker/training/job_numerics.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/wire/on_the_wire.h"

namespace millrace::worker {
namespace {

struct Numerics {
  absl::string_view model;  // Empty: unknown.
  Encoding::Kind wire = Encoding::FLOAT32;
};

// The reverse of JobNumerics; of what other workers say all is the model's.
Numerics Parse(absl::string_view text) {
  for (const auto wire : {Encoding::FLOAT16, Encoding::BFLOAT16}) {
    if (ConsumeOnTheWire(wire, &text)) return {text, wire};
  }
  return {text, Encoding::FLOAT32};
}

absl::Status RoundedOtherwise(const std::string& own, const std::string& planned) {
  return absl::InvalidArgumentError(absl::StrCat(
      "precision.wire: numbers travel as ", Encoding::Kind_Name(Parse(own).wire),
      " to and from this worker (its numerics are '", own, "'), and as ",
      Encoding::Kind_Name(Parse(planned).wire), " to and from the one that planned the job ('",
      planned,
      "'): the job's bits would depend on which of them has a step. Give it workers that "
      "know precision.wire and say so in their numerics, or set precision.wire to FLOAT32, or set "
      "synchronous.allow_mixed_workers in the job."));
}

}  // namespace

std::string JobNumerics(const JobSpec& spec, const std::string& model) {
  const Encoding::Kind wire = spec.precision().wire();
  if (wire == Encoding::FLOAT32) return model;
  return absl::StrCat(model, model.empty() ? "" : ", ", OnTheWire(wire));
}

absl::Status CheckSameNumerics(const std::string& own, const std::string& planned) {
  const Numerics ours = Parse(own);
  const Numerics theirs = Parse(planned);
  if (ours.wire != theirs.wire) return RoundedOtherwise(own, planned);
  if (ours.model == theirs.model || ours.model.empty() || theirs.model.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "this worker computes on '", own, "', the one that planned the job on '", planned,
      "': the job's bits would depend on which of them has a step. Give all workers the same "
      "--threads and machines of one kind, or set synchronous.allow_mixed_workers in the job."));
}

}  // namespace millrace::worker
