// How a job that is followed is shown. One member for each kind of reader: a terminal, a log, a
// program.
#ifndef MILLRACE_CLIENT_PROGRESS_PROGRESS_VIEW_H_
#define MILLRACE_CLIENT_PROGRESS_PROGRESS_VIEW_H_

#include <string>

#include "client/job_outcome.h"
#include "protos/events.pb.h"

namespace millrace::client {

// Used by one thread at a time. Writes are flushed before a call returns.
class ProgressView {
 public:
  virtual ~ProgressView() = default;

  // The job that is followed. Called once, before the events.
  virtual void Begin(const std::string& job_id) = 0;

  // What happens to the job, in order.
  virtual void OnEvent(const JobEvent& event) = 0;

  // Something that the client itself has to say to a person, at any time: a sentence.
  virtual void Note(const std::string& sentence) = 0;

  // The end. Called at most once, last.
  virtual void Finish(const JobOutcome& outcome) = 0;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_PROGRESS_PROGRESS_VIEW_H_
