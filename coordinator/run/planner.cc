#include "coordinator/run/planner.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/grpc_status.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/restore_check.h"
#include "coordinator/job/plan_check.h"
#include "coordinator/placement/placement.h"
#include "coordinator/run/route.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// A worker that has not answered for this long may hang, or have much data to open: another one is
// asked as well. Each further one is asked after twice the time: all of them read the data.
constexpr absl::Duration kAskAnother = absl::Seconds(20);
// How soon a cancellation is noticed that wakes nobody.
constexpr absl::Duration kLongestWait = absl::Milliseconds(500);

// The worker's trouble rather than the job's: another one may do better. See PlanResult.code.
bool IsWorkersFault(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDataLoss:
      return false;
    default:
      return true;
  }
}

}  // namespace

absl::Status CheckDivision(const JobRecord& record, const Variables& variables) {
  const uint32_t shards = record.spec().placement().shards();
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t elements, CountElements(variables));
  if (!NeedsWholeVariables(record.spec().optimizer())) return CheckShardCount(shards, elements);
  MILLRACE_RETURN_IF_ERROR(CheckWholeShardCount(shards, variables));
  const VariableSpec* divided = FindDivided(variables, record.restored_from().boundaries());
  if (divided == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "optimizer: it needs the norms of whole variables (lamb, clip_norm), and variable '",
      divided->name(), "' is divided in the checkpoint between shards that differ in the steps ",
      "that they have; restore an exact checkpoint, such as a job's last one (restore)"));
}

absl::Status SetPlan(const JobPlan& plan, JobRecord& record) {
  MILLRACE_RETURN_IF_ERROR(CountElements(plan.variables()).status());
  if (record.has_restored_from()) {
    MILLRACE_RETURN_IF_ERROR(CheckRestoredPlan(plan, record.restored_from().plan()));
  }
  MILLRACE_RETURN_IF_ERROR(CheckDivision(record, plan.variables()));
  MILLRACE_RETURN_IF_ERROR(CheckRoute(record, plan, /*shards=*/{}));
  *record.mutable_plan() = plan;
  // Numbers of a planner that does not round them travel as FLOAT32.
  record.set_wire_is_checked(!IsPlannedUnrounded(record.spec(), plan));
  record.set_total_steps(TotalSteps(record.spec(), plan.train_examples()));
  return absl::OkStatus();
}

// The workers that are asked, one after the other, and what has become of them.
class Planner::Poll {
 public:
  Poll(Planner* planner, const JobSpec& spec, std::vector<std::string>* lost)
      : planner_(planner),
        spec_(spec),
        spec_hash_(std::hash<std::string>()(spec.SerializeAsString())),
        lost_(lost) {}
  ~Poll() {
    for (const auto& [worker, asked] : asked_) planner_->GiveUp(asked.request_id);
  }

  // Asks the worker that owes the fewest answers, and of these the one that came first. False: all
  // were asked.
  bool AskNext() {
    const std::vector<WorkerMember> workers = planner_->registry_->Workers();
    const std::map<uint64_t, int> owed = planner_->CountOwed(workers, spec_hash_);
    const WorkerMember* next = nullptr;
    for (const WorkerMember& worker : workers) {
      if (tried_.contains(worker.id)) continue;
      if (next == nullptr || owed.at(worker.id) < owed.at(next->id)) next = &worker;
    }
    if (next == nullptr) return false;
    tried_.insert(next->id);
    asked_[next->id] = {next->registration.name(), planner_->Send(next->id, spec_, spec_hash_)};
    return true;
  }

  // The plan, an error that ends planning, or nothing: nobody has answered. Those that cannot
  // answer, or are gone, are asked no more.
  absl::StatusOr<absl::optional<JobPlan>> Collect() {
    for (auto worker = asked_.begin(); worker != asked_.end();) {
      auto result = planner_->TakeResult(worker->second.request_id);
      if (!result) {
        ++worker;
        continue;
      }
      if (result->code() == 0) {
        const absl::Status valid = CheckPlan(spec_, result->plan());
        if (valid.ok()) {
          if (result->plan().variables().empty()) {
            return absl::InvalidArgumentError(
                absl::StrCat("model: ", worker->second.name,
                             " finds no variables to train in it; must have at least one"));
          }
          LogPlan(worker->second.name, result->plan());
          return std::move(*result->mutable_plan());
        }
        // That says nothing of the job: another worker may do better.
        result->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
        result->set_message(
            absl::StrCat("its plan makes no sense: ", std::string(valid.message())));
      }
      const absl::StatusCode code = ToStatusCode(result->code());
      const bool is_silent = result->message().empty();
      const std::string silence = absl::StrCat(worker->second.name, " gave no reason");
      if (!IsWorkersFault(code)) {
        return absl::Status(code, is_silent ? silence : result->message());
      }
      const std::string why =
          is_silent ? silence : absl::StrCat(worker->second.name, ": ", result->message());
      refusal_ = code == absl::StatusCode::kResourceExhausted ? absl::ResourceExhaustedError(why)
                                                              : absl::UnavailableError(why);
      planner_->GiveUp(worker->second.request_id);
      worker = asked_.erase(worker);
    }
    return CheckLost();
  }

  bool nobody_is_asked() const { return asked_.empty(); }

  absl::Status Refusal() const {
    if (!refusal_.ok()) return refusal_;
    return absl::UnavailableError("no worker that could compile the model is there");
  }

  std::string Names() const {
    return absl::StrJoin(asked_, ", ", [](std::string* out, const auto& worker) {
      absl::StrAppend(out, worker.second.name);
    });
  }

 private:
  struct Asked {
    std::string name;
    uint64_t request_id = 0;
  };

  // Others that come to another plan refuse the job: then it must be known whose it has.
  void LogPlan(const std::string& worker, const JobPlan& plan) const {
    LOG(INFO) << worker << " planned a job" << (spec_.name().empty() ? "" : " named ")
              << spec_.name() << ": " << plan.variables_size() << " variables, "
              << plan.train_examples() << " examples to train on, " << plan.evaluate_examples()
              << " to evaluate";
  }

  // " (no heartbeat for 6s)"; nothing where that is forgotten.
  std::string WhyLost(const std::string& name) const {
    for (const Departure& departure : planner_->registry_->Departures()) {
      if (departure.is_worker && departure.name == name) {
        return absl::StrCat(" (", departure.reason, ")");
      }
    }
    return "";
  }

  absl::StatusOr<absl::optional<JobPlan>> CheckLost() {
    const std::vector<WorkerMember> workers = planner_->registry_->Workers();
    for (auto worker = asked_.begin(); worker != asked_.end();) {
      const bool there = std::any_of(workers.begin(), workers.end(),
                                     [&](const WorkerMember& w) { return w.id == worker->first; });
      if (there) {
        ++worker;
        continue;
      }
      if (!planner_->IsOfALeaver(worker->second.request_id)) lost_->push_back(worker->second.name);
      planner_->GiveUp(worker->second.request_id);
      worker = asked_.erase(worker);
    }
    if (lost_->size() < kMostLost) return absl::nullopt;
    return absl::FailedPreconditionError(absl::StrCat(
        "workers were lost while they compiled the model and opened the data: ",
        absl::StrJoin(*lost_, ", ",
                      [this](std::string* out, const std::string& name) {
                        absl::StrAppend(out, name, WhyLost(name));
                      }),
        "; see their logs, and whether they have memory enough for the data, before you submit the "
        "job again"));
  }

  Planner* const planner_;
  const JobSpec& spec_;
  const size_t spec_hash_;
  std::vector<std::string>* const lost_;
  std::set<uint64_t> tried_;         // Workers.
  std::map<uint64_t, Asked> asked_;  // By worker; those that may yet answer.
  absl::Status refusal_;
};

absl::StatusOr<JobPlan> Planner::Plan(const JobSpec& spec, absl::Duration timeout,
                                      const std::function<bool()>& cancelled,
                                      std::vector<std::string>* lost) {
  const absl::Time start = clock_->Now();
  const absl::Time deadline = start + timeout;
  Poll poll(this, spec, lost);
  absl::Time ask_at = start;
  absl::Duration patience = kAskAnother / 2;  // Doubled with each that is asked beside others.
  for (uint64_t seen = 0;;) {
    if (cancelled()) return absl::CancelledError("cancelled while a worker compiled the model");
    MILLRACE_ASSIGN_OR_RETURN(auto plan, poll.Collect());
    if (plan) return *std::move(plan);
    const absl::Time now = clock_->Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("did not compile the model and open the data within ",
                       absl::FormatDuration(timeout), ": ", poll.Names(),
                       "; see the worker's log, or give it more time with --plan_timeout of ",
                       "the coordinator"));
    }
    if (now >= ask_at || poll.nobody_is_asked()) {
      if (poll.AskNext() && now >= ask_at) patience *= 2;
      ask_at = now + patience;
      if (poll.nobody_is_asked()) return poll.Refusal();
    }
    MILLRACE_ASSIGN_OR_RETURN(seen, Wait(seen, std::min({deadline, ask_at, now + kLongestWait})));
  }
}

uint64_t Planner::Send(uint64_t worker, const JobSpec& spec, size_t spec_hash) {
  CoordinatorMessage message;
  {
    MutexLock lock(&mutex_);
    message.mutable_plan_job()->set_request_id(++last_request_);
    requests_[last_request_].worker = worker;
    requests_[last_request_].spec_hash = spec_hash;
  }
  *message.mutable_plan_job()->mutable_spec() = spec;
  registry_->Send(worker, message);
  return message.plan_job().request_id();
}

absl::optional<PlanResult> Planner::TakeResult(uint64_t request_id) {
  MutexLock lock(&mutex_);
  return requests_[request_id].result;
}

bool Planner::IsOfALeaver(uint64_t request_id) {
  MutexLock lock(&mutex_);
  return requests_[request_id].leaves;
}

void Planner::GiveUp(uint64_t request_id) {
  MutexLock lock(&mutex_);
  const auto request = requests_.find(request_id);
  if (request == requests_.end()) return;
  request->second.given_up = true;
  if (request->second.result) requests_.erase(request);
}

std::map<uint64_t, int> Planner::CountOwed(const std::vector<WorkerMember>& workers,
                                           size_t spec_hash) {
  std::map<uint64_t, int> owed;
  for (const WorkerMember& worker : workers) owed[worker.id] = 0;
  MutexLock lock(&mutex_);
  for (auto request = requests_.begin(); request != requests_.end();) {
    const auto here = request++;
    const auto worker = owed.find(here->second.worker);
    if (worker != owed.end()) {
      const bool counts = !here->second.result && here->second.spec_hash != spec_hash;
      worker->second += counts ? 1 : 0;
    } else if (here->second.given_up) {
      requests_.erase(here);
    }
  }
  return owed;
}

absl::StatusOr<uint64_t> Planner::Wait(uint64_t seen, absl::Time until) {
  MutexLock lock(&mutex_);
  while (!shut_down_ && wakes_ == seen) {
    if (clock_->WaitUntil(&changed_, &mutex_, until)) break;
  }
  if (shut_down_) return absl::UnavailableError("the coordinator stops");
  return wakes_;
}

void Planner::OnLeaving(const WorkerMember& worker) {
  MutexLock lock(&mutex_);
  for (auto& [id, request] : requests_) {
    if (request.worker == worker.id) request.leaves = true;
  }
}

void Planner::OnPlanResult(const WorkerMember& worker, const PlanResult& result) {
  MutexLock lock(&mutex_);
  const auto request = requests_.find(result.request_id());
  if (request == requests_.end() || request->second.worker != worker.id) return;
  if (request->second.given_up) {
    requests_.erase(request);
    return;
  }
  request->second.result = result;
  request->second.result->set_message(Printable(result.message()));
  ++wakes_;
  changed_.SignalAll();
}

void Planner::Wake() {
  MutexLock lock(&mutex_);
  ++wakes_;
  changed_.SignalAll();
}

void Planner::Shutdown() {
  MutexLock lock(&mutex_);
  shut_down_ = true;
  changed_.SignalAll();
}

}  // namespace millrace::coordinator
