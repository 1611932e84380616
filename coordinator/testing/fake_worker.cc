#include "coordinator/testing/fake_worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::coordinator {

FakeWorkerScript WaitingAt(uint64_t step, Gate* gate) {
  FakeWorkerScript script;
  script.on_step = [step, gate](const std::string& /*job_id*/, uint64_t at) {
    if (at == step) gate->Pass();
    return absl::OkStatus();
  };
  return script;
}

FakeWorkerScript WaitingAtEvaluation(Gate* gate, const absl::Status& status) {
  FakeWorkerScript script;
  script.on_evaluate = [gate, status](const Evaluate& /*evaluate*/) {
    gate->Pass();
    return status;
  };
  return script;
}

JobPlan PlainPlan() {
  JobPlan plan;
  for (const uint64_t size : {6, 1, 40}) {
    VariableSpec& variable = *plan.add_variables();
    variable.set_name(absl::StrCat("v", size));
    variable.add_shape(size);
    variable.mutable_initial_value()->set_constant(0);
  }
  plan.set_train_examples(100);
  plan.set_evaluate_examples(10);
  return plan;
}

FakeWorker::FakeWorker(const std::string& name, FakePsList servers, FakeWorkerScript script)
    : name_(name), servers_(std::move(servers)), script_(std::move(script)) {}

FakeWorker::~FakeWorker() { Kill(); }

void FakeWorker::Join(const std::string& coordinator) {
  Kill();
  MemberMessage message;
  RegisterWorker& worker = *message.mutable_register_worker();
  worker.set_name(name_);
  worker.set_incarnation(++incarnation_);
  worker.set_lease_slots(script_.lease_slots);
  worker.set_device("none");
  auto connection = std::make_shared<MemberConnection>(
      coordinator, [this](const CoordinatorMessage& m) { OnMessage(m); });
  {
    MutexLock lock(&mutex_);
    stopped_ = false;
    work_.clear();
    plans_.clear();
    connection_ = connection;
  }
  planner_ = std::thread([this] { Plan(); });
  thread_ = std::thread([this] { Work(); });
  connection->Send(message);
  connection->AwaitAnswer();
}

void FakeWorker::Kill() {
  std::shared_ptr<MemberConnection> connection;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    connection = std::exchange(connection_, nullptr);
    changed_.SignalAll();
  }
  // The reader may be sending, and must not be the last one to let go of it.
  if (connection != nullptr) connection->Break();
  connection.reset();
  if (planner_.joinable()) planner_.join();
  if (thread_.joinable()) thread_.join();
}

void FakeWorker::Leave() {
  MemberMessage message;
  message.mutable_leaving();
  Send(message);
  std::shared_ptr<MemberConnection> connection;
  {
    MutexLock lock(&mutex_);
    connection = connection_;
  }
  connection->AwaitEnd().IgnoreError();
  connection.reset();
  Kill();
}

void FakeWorker::Tell(const Activity& activity) {
  MemberMessage message;
  *message.mutable_heartbeat()->add_activities() = activity;
  Send(message);
}

std::vector<uint64_t> FakeWorker::Computed(const std::string& job_id) const {
  MutexLock lock(&mutex_);
  const auto computed = computed_.find(job_id);
  return computed == computed_.end() ? std::vector<uint64_t>() : computed->second;
}

std::vector<uint64_t> FakeWorker::Generations(const std::string& job_id) const {
  MutexLock lock(&mutex_);
  const auto generations = generations_.find(job_id);
  return generations == generations_.end() ? std::vector<uint64_t>() : generations->second;
}

bool FakeWorker::WasForgotten(const std::string& job_id) const {
  MutexLock lock(&mutex_);
  return forgotten_.contains(job_id);
}

void FakeWorker::AwaitForgotten(const std::string& job_id) {
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
  MutexLock lock(&mutex_);
  while (!forgotten_.contains(job_id)) {
    CHECK(!Clock::Real()->WaitUntil(&changed_, &mutex_, deadline)) << name_ << " keeps " << job_id;
  }
}

void FakeWorker::OnMessage(const CoordinatorMessage& message) {
  if (message.has_lease() && script_.on_lease) {
    SetRoute route;
    {
      MutexLock lock(&mutex_);
      route = routes_[message.lease().job_id()];
    }
    script_.on_lease(message.lease(), route);
  }
  if (message.has_set_route()) Prepare(message.set_route());
  MutexLock lock(&mutex_);
  if (message.has_set_route()) {
    routes_[message.set_route().job_id()] = message.set_route();
    generations_[message.set_route().job_id()].push_back(
        message.set_route().routing().generation());
  } else if (message.has_forget_job()) {
    forgotten_[message.forget_job().job_id()] = true;
  } else if (message.has_plan_job()) {
    plans_.push_back(message.plan_job());
  } else {
    work_.push_back(message);
  }
  changed_.SignalAll();
}

void FakeWorker::Prepare(const SetRoute& route) {
  const absl::Status status = script_.prepare ? script_.prepare(route) : absl::OkStatus();
  MemberMessage message;
  JobPrepared& prepared = *message.mutable_job_prepared();
  prepared.set_job_id(route.job_id());
  prepared.set_code(static_cast<int>(status.code()));
  prepared.set_message(std::string(status.message()));
  Send(message);
}

void FakeWorker::Plan() {
  for (;;) {
    PlanJob request;
    {
      MutexLock lock(&mutex_);
      while (plans_.empty() && !stopped_) changed_.Wait(&mutex_);
      if (stopped_) return;
      request = std::move(plans_.front());
      plans_.pop_front();
    }
    const auto plan = script_.plan ? script_.plan(request.spec()) : PlainPlan();
    MemberMessage answer;
    PlanResult& result = *answer.mutable_plan_result();
    result.set_request_id(request.request_id());
    result.set_code(static_cast<int>(plan.status().code()));
    result.set_message(std::string(plan.status().message()));
    if (plan.ok()) *result.mutable_plan() = *plan;
    Send(answer);
  }
}

void FakeWorker::Work() {
  for (;;) {
    CoordinatorMessage work;
    SetRoute route;
    {
      MutexLock lock(&mutex_);
      while (work_.empty() && !stopped_) changed_.Wait(&mutex_);
      if (stopped_) return;
      work = std::move(work_.front());
      work_.pop_front();
      if (work.has_lease()) route = routes_[work.lease().job_id()];
    }
    MemberMessage answer;
    if (work.has_evaluate()) {
      EvaluationResult& result = *answer.mutable_evaluation_result();
      result.set_job_id(work.evaluate().job_id());
      result.set_evaluation_id(work.evaluate().evaluation_id());
      const absl::Status status =
          script_.on_evaluate ? script_.on_evaluate(work.evaluate()) : absl::OkStatus();
      result.set_code(static_cast<int>(status.code()));
      result.set_message(std::string(status.message()));
      result.set_examples(script_.evaluated_examples ? script_.evaluated_examples(work.evaluate())
                                                     : 10);
      for (const auto& [name, value] : script_.more_metrics) {
        (*result.mutable_metrics())[name] = value;
      }
      (*result.mutable_metrics())["loss"] =
          script_.evaluation_loss ? script_.evaluation_loss(work.evaluate()) : 0.25;
      (*result.mutable_metrics())["auc"] = 0.75;
      Send(answer);
    } else if (work.has_lease()) {
      Compute(work.lease(), route);
    }
  }
}

void FakeWorker::Compute(const Lease& lease, const SetRoute& route) {
  if (lease.generation() != route.routing().generation()) return;
  for (uint64_t step = lease.begin(); step < lease.end(); ++step) {
    absl::Status status =
        script_.on_step ? script_.on_step(lease.job_id(), step) : absl::OkStatus();
    if (Stopped()) return;
    const bool lies = script_.lies && script_.lies(lease.job_id(), step);
    if (status.ok() && !lies) status = PushAll(route, step);
    MemberMessage message;
    if (!status.ok()) {
      LeaseReturned& returned = *message.mutable_lease_returned();
      returned.set_job_id(lease.job_id());
      returned.set_lease_id(lease.lease_id());
      returned.set_step(step);
      returned.set_code(static_cast<int>(status.code()));
      returned.set_message(absl::StrCat("step ", step, ": ", std::string(status.message())));
      return Send(message);
    }
    {
      MutexLock lock(&mutex_);
      computed_[lease.job_id()].push_back(step);
    }
    StepResult& result = *message.mutable_step_result();
    result.set_job_id(lease.job_id());
    result.set_lease_id(lease.lease_id());
    result.set_step(step);
    result.set_examples(script_.step_examples ? script_.step_examples(step) : 1);
    result.set_loss_sum(script_.loss ? script_.loss(step) : 1.0 / (step + 1));
    result.set_accuracy_sum(1);
    if (script_.compute_seconds) {
      result.mutable_times()->set_compute(script_.compute_seconds(step));
    }
    Send(message);
  }
}

absl::Status FakeWorker::PushAll(const SetRoute& route, uint64_t step) {
  for (const ShardRoute& shard : route.routing().shards()) {
    FakePs* ps = Find(shard.address());
    if (ps == nullptr) return absl::UnavailableError(absl::StrCat(shard.server(), " is away"));
    MILLRACE_RETURN_IF_ERROR(
        ps->Push(route.job_id(), shard.shard(), route.routing().generation(), step));
  }
  return absl::OkStatus();
}

void FakeWorker::Send(const MemberMessage& message) {
  std::shared_ptr<MemberConnection> connection;
  {
    MutexLock lock(&mutex_);
    connection = connection_;
  }
  if (connection != nullptr) connection->Send(message);
}

FakePs* FakeWorker::Find(const std::string& address) const {
  for (FakePs* ps : servers_) {
    if (ps->address() == address) return ps;
  }
  return nullptr;
}

bool FakeWorker::Stopped() const {
  MutexLock lock(&mutex_);
  return stopped_;
}

}  // namespace millrace::coordinator
