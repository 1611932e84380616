#include "client/tensor_files/tensor_sequence.h"

#include <algorithm>
#include <bit>

#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::client {

static_assert(std::endian::native == std::endian::little,
              "values are written as they are in memory");

absl::Status TensorSequence::GoOn() {
  while (missing_ == 0) {
    if (open_) MILLRACE_RETURN_IF_ERROR(End());
    open_ = next_ < tensors_.size();
    if (!open_) return absl::OkStatus();
    const TensorInfo& tensor = tensors_[next_++];
    missing_ = CountElements(tensor);
    MILLRACE_RETURN_IF_ERROR(Begin(tensor));
  }
  return absl::OkStatus();
}

absl::Status TensorSequence::Append(absl::Span<const float> values) {
  while (!values.empty()) {
    MILLRACE_RETURN_IF_ERROR(GoOn());
    CHECK_GT(missing_, 0u) << "more values than the tensors have";
    const auto part = values.subspan(0, std::min<uint64_t>(missing_, values.size()));
    MILLRACE_RETURN_IF_ERROR(Write(absl::string_view(reinterpret_cast<const char*>(part.data()),
                                                     part.size() * sizeof(float))));
    missing_ -= part.size();
    values.remove_prefix(part.size());
  }
  return absl::OkStatus();
}

absl::Status TensorSequence::Commit() {
  MILLRACE_RETURN_IF_ERROR(GoOn());
  CHECK_EQ(missing_, 0u) << "fewer values than the tensors have";
  return Finish();
}

}  // namespace millrace::client
