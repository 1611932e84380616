// What the states of a job mean.
#ifndef MILLRACE_COMMON_JOB_STATE_H_
#define MILLRACE_COMMON_JOB_STATE_H_

#include "protos/job.pb.h"

namespace millrace {

// SUCCEEDED, FAILED or CANCELLED: nothing happens to a job after that.
inline bool HasEnded(JobState state) {
  return state == SUCCEEDED || state == FAILED || state == CANCELLED;
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_JOB_STATE_H_
