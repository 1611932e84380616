// A dispatcher, and an outbox that keeps what it sent.
#ifndef MILLRACE_COORDINATOR_DISPATCH_DISPATCHER_FIXTURE_H_
#define MILLRACE_COORDINATOR_DISPATCH_DISPATCHER_FIXTURE_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/applied_set.h"
#include "coordinator/dispatch/dispatcher.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {

// Keeps what was sent, as short lines: "1: route a@1", "1: lease a@1 [0,1)".
class RecordingOutbox final : public Outbox {
 public:
  void Send(uint64_t member, const CoordinatorMessage& message) override {
    std::string line = absl::StrCat(member, ": ");
    if (message.has_set_route()) {
      absl::StrAppend(&line, "route ", message.set_route().job_id(), "@",
                      message.set_route().routing().generation());
    } else if (message.has_lease()) {
      const Lease& lease = message.lease();
      absl::StrAppend(&line, "lease ", lease.job_id(), "@", lease.generation(), " [", lease.begin(),
                      ",", lease.end(), ")");
      leases.push_back(lease);
      workers.push_back(member);
    } else if (message.has_forget_job()) {
      absl::StrAppend(&line, "forget ", message.forget_job().job_id());
    } else if (message.has_evaluate()) {
      absl::StrAppend(&line, "evaluate ", message.evaluate().job_id());
    }
    lines.push_back(line);
  }

  std::vector<std::string> Take() { return std::exchange(lines, {}); }

  std::vector<std::string> lines;
  std::vector<Lease> leases;
  std::vector<uint64_t> workers;  // Who got them.
};

class DispatcherTest : public testing::Test {
 protected:
  // New ones are ready for all jobs at once.
  void SetWorkers(const std::vector<WorkerCapacity>& workers) {
    workers_ = workers;
    dispatcher_.SetWorkers(workers);
    for (const std::string& job : started_) PrepareAll(job);
  }

  void PrepareAll(const std::string& job_id) {
    for (const WorkerCapacity& worker : workers_) Prepare(worker.worker, job_id);
  }

  bool Prepare(uint64_t worker, const std::string& job_id, int code = 0,
               const std::string& message = "") {
    JobPrepared prepared;
    prepared.set_job_id(job_id);
    prepared.set_code(code);
    prepared.set_message(message);
    return dispatcher_.SetPrepared(worker, prepared);
  }

  void Evaluates(const std::string& job_id, absl::optional<uint64_t> worker) {
    Evaluate evaluate;
    evaluate.set_job_id(job_id);
    EXPECT_EQ(dispatcher_.SendEvaluate(evaluate), worker);
  }

  // All workers are ready for it at once.
  void Start(const std::string& job_id, uint64_t generation = 1, uint32_t staleness = 3,
             uint64_t done = 0) {
    SetRoute route;
    route.set_job_id(job_id);
    route.mutable_routing()->set_generation(generation);
    AppliedSet set;
    for (uint64_t step = 0; step < done; ++step) set.Insert(step);
    dispatcher_.Start({.total_steps = 100, .replicas = 0, .staleness_bound = staleness}, route, set,
                      /*barrier=*/100);
    started_.insert(job_id);
    PrepareAll(job_id);
  }

  // The worker of the nth lease that was sent reports one of its steps.
  absl::optional<Dispatcher::DoneResult> Done(size_t n, uint64_t step) {
    StepResult result;
    result.set_job_id(outbox_.leases[n].job_id());
    result.set_lease_id(outbox_.leases[n].lease_id());
    result.set_step(step);
    return dispatcher_.Done(outbox_.workers[n], result);
  }

  // The worker of the nth lease that was sent gives it back. Returns its faults in a row.
  int GiveBack(size_t n, absl::StatusCode code = absl::StatusCode::kUnavailable) {
    LeaseReturned returned;
    returned.set_job_id(outbox_.leases[n].job_id());
    returned.set_lease_id(outbox_.leases[n].lease_id());
    returned.set_step(outbox_.leases[n].begin());
    returned.set_code(static_cast<int>(code));
    return dispatcher_.GiveBack(outbox_.workers[n], returned);
  }

  std::vector<WorkerCapacity> workers_;
  std::set<std::string> started_;
  SimulatedClock clock_;
  RecordingOutbox outbox_;
  Dispatcher dispatcher_{&outbox_, {.first_lease = absl::Seconds(60), .clock = &clock_}};
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_DISPATCH_DISPATCHER_FIXTURE_H_
