// Memory that runs out is an error like others: the process goes on, and the work goes elsewhere.
#ifndef MILLRACE_WORKER_CATCH_BAD_ALLOC_H_
#define MILLRACE_WORKER_CATCH_BAD_ALLOC_H_

#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace::worker {

// Runs `work`, which returns a Status or a StatusOr. RESOURCE_EXHAUSTED: it met std::bad_alloc;
// `what` says what the memory was for.
template <typename Work>
auto CatchBadAlloc(absl::string_view what, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this worker has too little memory for ", what));
  }
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_CATCH_BAD_ALLOC_H_
