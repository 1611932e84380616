// A writer's place among its tensors.
#ifndef MILLRACE_CLIENT_TENSOR_FILES_TENSOR_SEQUENCE_H_
#define MILLRACE_CLIENT_TENSOR_FILES_TENSOR_SEQUENCE_H_

#include <vector>

#include "client/tensor_files/tensor_writer.h"

namespace millrace::client {

// Cuts the values that are appended along the tensors.
class TensorSequence : public TensorWriter {
 public:
  explicit TensorSequence(std::vector<TensorInfo> tensors) : tensors_(std::move(tensors)) {}

  absl::Status Append(absl::Span<const float> values) final;
  absl::Status Commit() final;

 protected:
  // Begin, Write for all its values, End: for each tensor in turn.
  virtual absl::Status Begin(const TensorInfo& tensor) = 0;
  virtual absl::Status Write(absl::string_view bytes) = 0;
  virtual absl::Status End() = 0;
  // After the last one.
  virtual absl::Status Finish() = 0;

 private:
  // Begins and ends tensors until there is one that lacks values, or none.
  absl::Status GoOn();

  const std::vector<TensorInfo> tensors_;
  size_t next_ = 0;  // The first that has not begun.
  bool open_ = false;
  uint64_t missing_ = 0;  // Elements of the one that has begun.
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_TENSOR_FILES_TENSOR_SEQUENCE_H_
