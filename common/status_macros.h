// Early return on errors, for functions that return absl::Status or absl::StatusOr.
#ifndef MILLRACE_COMMON_STATUS_MACROS_H_
#define MILLRACE_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// MILLRACE_RETURN_IF_ERROR(DoIt());
#define MILLRACE_RETURN_IF_ERROR(expression)                                  \
  do {                                                                        \
    if (absl::Status millrace_status = (expression); !millrace_status.ok()) { \
      return millrace_status;                                                 \
    }                                                                         \
  } while (false)

// MILLRACE_ASSIGN_OR_RETURN(auto value, ComputeIt());
#define MILLRACE_ASSIGN_OR_RETURN(declaration, expression)                                   \
  MILLRACE_ASSIGN_OR_RETURN_IMPL(MILLRACE_CONCAT(millrace_statusor_, __LINE__), declaration, \
                                 expression)

#define MILLRACE_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                           \
  if (!result.ok()) return std::move(result).status();                  \
  declaration = *std::move(result)

#define MILLRACE_CONCAT(a, b) MILLRACE_CONCAT_IMPL(a, b)
#define MILLRACE_CONCAT_IMPL(a, b) a##b

#endif  // MILLRACE_COMMON_STATUS_MACROS_H_
