#include "client/exporter.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "client/spool_file.h"
#include "client/tensor_files/tensor_writer.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/storage/durable_file.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::client {
namespace {

// After so long, then twice as long, and so on, the routing is asked for again, since a server may
// have come back at another address. As long as it has not, the pull goes on.
constexpr absl::Duration kFirstLook = absl::Seconds(5);
constexpr absl::Duration kMostBetweenLooks = absl::Minutes(1);

// A server that came back may not have been told of the generation that the routing has already: so
// often it is asked again, after pauses that become twice as long.
constexpr int kMostTriesOfRouting = 7;
constexpr absl::Duration kFirstRoutingPause = absl::Milliseconds(100);

// Elements of a variable that count as one place where values come to.
constexpr size_t kPlace = size_t{1} << 18;

// Between two looks at the interrupt.
constexpr size_t kFloatsWrittenAtOnce = 1 << 20;

using Targets = std::vector<absl::Span<float>>;

std::vector<TensorInfo> InfosOf(const GetVariablesResponse& variables) {
  std::vector<TensorInfo> infos;
  for (const VariableSpec& variable : variables.variables()) {
    infos.push_back({variable.name(), {variable.shape().begin(), variable.shape().end()}});
  }
  return infos;
}

// Where the variables lie in `values`, one after the other.
Targets Cut(const std::vector<TensorInfo>& tensors, absl::Span<float> values) {
  Targets targets;
  for (const TensorInfo& tensor : tensors) {
    targets.push_back(values.subspan(0, CountElements(tensor)));
    values.remove_prefix(targets.back().size());
  }
  return targets;
}

// The directory that `path`, a file or a folder, is to be in.
std::string ParentOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return DirectoryOf(path);
}

absl::Status WriteTensors(const std::string& path, std::vector<TensorInfo> tensors,
                          absl::Span<const float> values, const Interrupt* interrupt) {
  MILLRACE_ASSIGN_OR_RETURN(const auto writer, CreateTensorWriter(path, std::move(tensors)));
  while (!values.empty()) {
    if (interrupt != nullptr && interrupt->triggered()) return absl::CancelledError("interrupted");
    const auto part = values.subspan(0, kFloatsWrittenAtOnce);
    MILLRACE_RETURN_IF_ERROR(writer->Append(part));
    values.remove_prefix(part.size());
  }
  return writer->Commit();
}

bool AreEqual(const Routing& a, const Routing& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

bool IsAway(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status);
}

// The shards were moved, or put to another generation, between the routing and the pull.
bool RoutingIsStale(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status) || IsAway(status);
}

// One export's fetching.
class Fetch {
 public:
  Fetch(JobsClient* client, const std::string& job_id, const ExportOptions& options)
      : client_(client), job_id_(job_id), options_(options), moved_(options.clock->Now()) {
    if (options.interrupt != nullptr) stop_.emplace(options.interrupt, [this] { Stop(); });
  }

  // Says where the variables are to go; called before each attempt.
  using Prepare = std::function<absl::StatusOr<Targets>(const GetVariablesResponse&)>;

  absl::Status Run(const Prepare& prepare) {
    while (true) {
      absl::StatusOr<GetVariablesResponse> variables = client_->GetVariables(job_id_, TimeLeft());
      if (!variables.ok()) return Failure(variables.status());
      MILLRACE_ASSIGN_OR_RETURN(const Targets targets, prepare(*variables));
      const absl::Status status = Pull(variables->routing(), targets);
      if (status.ok()) return status;
      if (!MayMend(status, variables->routing())) return Failure(status);
      if (tries_ > 1) Pause(kFirstRoutingPause * (1 << (tries_ - 2)));
      TellWait(status);
    }
  }

 private:
  absl::Status Pull(const Routing& routing, const Targets& targets) {
    std::vector<uint64_t> sizes;
    for (const absl::Span<float> target : targets) sizes.push_back(target.size());
    worker::ParameterClientOptions parameter_options;
    parameter_options.clock = options_.clock;
    MILLRACE_ASSIGN_OR_RETURN(
        std::shared_ptr<worker::ParameterClient> parameters,
        worker::ParameterClient::Create(job_id_, std::move(sizes), routing, parameter_options));
    SetParameters(parameters);
    ForgetFilled();
    const absl::Time begun = options_.clock->Now();
    worker::ParameterClient::PullOptions pull;
    pull.arrived = [this](size_t variable, size_t first, size_t /*count*/) {
      Moved(variable, first);
    };
    absl::Status status = Await(*parameters->StartPull(pull, targets), begun, routing);
    SetParameters(nullptr);
    return status;
  }

  // Until all is there. DEADLINE_EXCEEDED: nothing has moved for as long as may be; UNAVAILABLE:
  // the routing is another one. What a look at the coordinator says otherwise does not end a pull
  // that goes on without it.
  absl::Status Await(worker::ParameterClient::StartedPull& pull, absl::Time begun,
                     const Routing& routing) {
    absl::Time looked = begun;
    for (absl::Duration pause = kFirstLook;; pause = std::min(2 * pause, kMostBetweenLooks)) {
      const absl::Status status = pull.Wait(looked + std::min(pause, TimeLeft()));
      if (!absl::IsDeadlineExceeded(status) || TimeLeft() <= absl::ZeroDuration()) return status;
      if (moved() < looked) TellWait(status);
      const absl::StatusOr<GetVariablesResponse> newest =
          client_->GetVariables(job_id_, std::min(kFirstLook, TimeLeft()));
      if (newest.ok() && !AreEqual(newest->routing(), routing)) {
        return absl::UnavailableError("some of its shards have moved");
      }
      if (absl::IsDataLoss(newest.status()) || absl::IsNotFound(newest.status())) {
        return newest.status();
      }
      looked = options_.clock->Now();
    }
  }

  void TellWait(const absl::Status& status) const {
    if (options_.on_wait == nullptr) return;
    options_.on_wait(absl::StrCat(Failure(status).message(), "; trying again"));
  }

  // Values have come. What comes once more in a pull, to a place where some were, is no progress.
  void Moved(size_t variable, size_t first) {
    const absl::Time now = options_.clock->Now();
    MutexLock lock(&mutex_);
    if (filled_.insert({variable, first / kPlace}).second) moved_ = now;
  }
  void ForgetFilled() {
    MutexLock lock(&mutex_);
    filled_.clear();
  }
  absl::Time moved() const {
    MutexLock lock(&mutex_);
    return moved_;
  }
  // Until it is given up, unless something moves.
  absl::Duration TimeLeft() const { return moved() + options_.timeout - options_.clock->Now(); }

  // From where Stop() may cancel it; at once if Stop() was called.
  void SetParameters(std::shared_ptr<worker::ParameterClient> parameters) {
    bool stopped = false;
    {
      MutexLock lock(&mutex_);
      parameters_ = parameters;
      stopped = stopped_;
    }
    if (stopped && parameters != nullptr) parameters->Cancel();
  }

  void Stop() {
    std::shared_ptr<worker::ParameterClient> parameters;
    {
      MutexLock lock(&mutex_);
      stopped_ = true;
      stopped_cond_.SignalAll();
      parameters = parameters_;
    }
    client_->Interrupt();
    if (parameters != nullptr) parameters->Cancel();
  }

  // Whether the routing, asked for again, may lead further. With one that failed before there is
  // little to hope for, but from a server that was away.
  bool MayMend(const absl::Status& status, const Routing& routing) {
    if (IsAway(status) || routing.generation() != failed_generation_) tries_ = 0;
    failed_generation_ = routing.generation();
    return RoutingIsStale(status) && ++tries_ < kMostTriesOfRouting &&
           TimeLeft() > absl::ZeroDuration();
  }

  // Until Stop() at most.
  void Pause(absl::Duration pause) {
    const absl::Time deadline = options_.clock->Now() + pause;
    MutexLock lock(&mutex_);
    while (!stopped_ && !options_.clock->WaitUntil(&stopped_cond_, &mutex_, deadline)) {
    }
  }

  absl::Status Failure(const absl::Status& status) const {
    return absl::Status(status.code(), absl::StrCat("cannot fetch the variables of job ", job_id_,
                                                    ": ", std::string(status.message())));
  }

  JobsClient* const client_;
  const std::string job_id_;
  const ExportOptions& options_;
  uint64_t failed_generation_ = 0;
  int tries_ = 0;  // With that generation, one after the other.

  mutable Mutex mutex_;
  std::set<std::pair<size_t, size_t>> filled_ ABSL_GUARDED_BY(mutex_);  // Variables and places.
  absl::Time moved_ ABSL_GUARDED_BY(mutex_);  // When one was filled last; at first, when it began.
  CondVar stopped_cond_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<worker::ParameterClient> parameters_ ABSL_GUARDED_BY(mutex_);
  absl::optional<Interrupt::Action> stop_;  // Last: it may call Stop() from its constructor on.
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> FetchVariables(JobsClient* client, const std::string& job_id,
                                                   const ExportOptions& options) {
  std::vector<Tensor> tensors;
  MILLRACE_RETURN_IF_ERROR(
      Fetch(client, job_id, options).Run([&](const GetVariablesResponse& variables) {
        tensors.clear();
        for (const TensorInfo& info : InfosOf(variables)) {
          tensors.push_back({info.name, info.shape, std::vector<float>(CountElements(info))});
        }
        Targets targets;
        for (Tensor& tensor : tensors) targets.push_back(absl::MakeSpan(tensor.values));
        return absl::StatusOr<Targets>(targets);
      }));
  return tensors;
}

absl::Status ExportVariables(JobsClient* client, const std::string& job_id, const std::string& path,
                             const ExportOptions& options) {
  std::vector<TensorInfo> tensors;
  absl::optional<SpoolFile> spool;
  const auto prepare = [&](const GetVariablesResponse& variables) -> absl::StatusOr<Targets> {
    tensors = InfosOf(variables);
    uint64_t floats = 0;
    for (const TensorInfo& tensor : tensors) floats += CountElements(tensor);
    spool.reset();
    MILLRACE_ASSIGN_OR_RETURN(SpoolFile made, SpoolFile::Create(ParentOf(path), floats));
    spool.emplace(std::move(made));
    return Cut(tensors, spool->values());
  };
  MILLRACE_RETURN_IF_ERROR(Fetch(client, job_id, options).Run(prepare));
  return WriteTensors(path, tensors, spool->values(), options.interrupt);
}

}  // namespace millrace::client
