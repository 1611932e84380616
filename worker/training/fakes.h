// A world for the training loop: data, a model and ps servers that do as a test says, and note what
// they are asked.
#ifndef MILLRACE_WORKER_TRAINING_FAKES_H_
#define MILLRACE_WORKER_TRAINING_FAKES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"
#include "worker/model/model.h"
#include "worker/parameters/parameter_client.h"
#include "worker/training/seams.h"

namespace millrace::worker {

inline constexpr uint64_t kFakeTrainExamples = 8;
inline constexpr uint64_t kFakeEvaluateExamples = 5;

// What happened, in order. Waits end after a minute, with the process: a test hangs no longer.
// Thread-safe.
class EventLog {
 public:
  void Add(std::string event) ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until the event has happened `times` times.
  void Await(const std::string& event, int times = 1) ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<std::string> events() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Those that begin so.
  std::vector<std::string> EventsWith(const std::string& prefix) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar added_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

// What a worker has said. Thread-safe.
class Messages {
 public:
  void Add(MemberMessage message) ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until there is one; after a minute the process ends.
  MemberMessage Next() ABSL_LOCKS_EXCLUDED(mutex_);

  bool empty() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar added_;
  std::deque<MemberMessage> messages_ ABSL_GUARDED_BY(mutex_);
};

// A pull, as it is waited for.
struct FakePull {
  uint64_t generation = 0;
  absl::optional<uint64_t> version;
  std::string cut_id;
  absl::Time deadline;
  // Blocks until the pull or the client is cancelled.
  std::function<void()> wait_for_cancel;
};

// The data has one feature, the example's number. The model has two variables, "first" [2] and
// "second" [3], and finishes the gradient of the second one first. Its loss for an example is what
// stands in its first value, which a pull sets: to the version that it asks for, to 500 from a cut,
// else to 100. Hooks are called without locks, by the worker's threads; set them before it starts.
struct FakeWorld {
  EventLog log;

  // Each may return an error in the place of its owner's answer.
  std::function<absl::Status(const FakePull& pull)> on_pull;  // Of StartedPull::Wait.
  std::function<void()> on_begin_pull;
  std::function<absl::Status(uint64_t step)> on_push;  // Of Push::Wait.
  std::function<absl::Status(const Batch& batch)> on_train;
  std::function<absl::Status(const std::string& field)> on_open;
  std::function<absl::Status(absl::Span<const uint64_t> indices)> on_read;  // Of both sets.
  std::function<void(uint64_t generation)> on_cancel;       // When a client has been cancelled.
  std::function<void(uint64_t generation)> on_client_gone;  // In its destructor.

  std::function<void()> between_gradients;  // After the second variable's, before the first's.
  std::function<void()> after_gradients;    // After the first's.
  bool opens_until_stopped = false;         // Sets, until nobody wants them any more.
  bool finishes_all_gradients = true;
  bool has_next_values = true;
  bool stages_within_train = true;
  bool values_come_at_once = false;  // When a pull is begun, not when it is waited for.
  // The second variable has rows of one element, of which a batch takes that of its first example's
  // number modulo 3; what others hold, the model forgets with each step.
  bool second_by_rows = false;
  bool second_is_frozen = false;  // The second variable; and whether the model finishes it even so.
  bool finishes_frozen = false;
  absl::optional<double> loss_sum;  // Instead of the sum of the losses.
  // The variable in whose gradient `bad_value` stands, at element 1.
  absl::optional<size_t> bad_gradient;
  float bad_value = 0;
  uint64_t train_examples = kFakeTrainExamples;
  uint64_t evaluate_examples = kFakeEvaluateExamples;
  uint64_t fingerprint = 0;  // Of each of the sets.

  // The log has "open FIELD", "stopped" (opening), "make model", "model gone"; "client GENERATION",
  // "frozen VARIABLE" (which a client is told of), "cancel GENERATION"; "pull newest", "pull
  // VERSION", "pull cut ID", and the same with "begin " before it when it is begun, not waited for;
  // "arrived VARIABLE from ELEMENT: COUNT" (which the model is told), "take next" (values); "stage
  // FIRST_EXAMPLE", "staged FIRST_EXAMPLE" (when that batch is trained on); "train FIRST_EXAMPLE",
  // "seed SEED", "add VARIABLE", "commit STEP", "push STEP" (Push::Wait is called); "evaluate
  // SIZE". What is pulled or added in another encoding than FLOAT32 has " as ENCODING" behind it;
  // what is pulled by rows " rows of VARIABLE:" and the rows; what is added so is "add rows of
  // VARIABLE: ROWS".
  DatasetOpener open_dataset();
  ModelFactory make_model();
  ParameterClientFactory make_client();
};

// Jobs in this world: unshuffled, batches of one example. `replicas` 0: asynchronous.
JobSpec FakeJob(uint32_t replicas = 0);

// What the coordinator says of them.
CoordinatorMessage PlanMessage(uint64_t request_id, const JobSpec& spec);
CoordinatorMessage RouteMessage(const JobSpec& spec, uint64_t generation);
CoordinatorMessage LeaseMessage(uint64_t lease_id, uint64_t begin, uint64_t end,
                                uint64_t generation = 1);
CoordinatorMessage EvaluateMessage(uint64_t evaluation_id, const std::string& cut_id,
                                   uint64_t generation = 1);
CoordinatorMessage ForgetMessage();

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_FAKES_H_
