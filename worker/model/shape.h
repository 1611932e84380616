// Shapes of examples and variables.
#ifndef MILLRACE_WORKER_MODEL_SHAPE_H_
#define MILLRACE_WORKER_MODEL_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::worker {

// Of one example, without the batch dimension, or of a variable.
using Shape = std::vector<uint64_t>;

// 1 for the empty shape. REQUIRES: the product fits (see HasAtMost).
uint64_t ElementCount(const Shape& shape);

// Whether a shape has at most `limit` elements; products that overflow have more.
bool HasAtMost(const Shape& shape, uint64_t limit);

// "[28, 28, 1]".
std::string ShapeString(const Shape& shape);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_SHAPE_H_
