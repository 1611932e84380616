#include "coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/net/server.h"
#include "common/status_macros.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/jobs/job_queue.h"
#include "coordinator/jobs/job_table.h"
#include "coordinator/jobs/member_events.h"
#include "coordinator/jobs/retention.h"
#include "coordinator/jobs/submissions.h"
#include "coordinator/journal/journal.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/membership/membership_service.h"
#include "coordinator/run/planner.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/service/jobs_service.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kShutdownGrace = absl::Seconds(1);
// Requests are small; a hundred specs of the greatest size at a time are within it.
constexpr uint64_t kMessageMemory = uint64_t{256} << 20;

RunnerEnvironment MakeEnvironment(const CoordinatorOptions& options, MemberRegistry* registry,
                                  Dispatcher* dispatcher, Planner* planner,
                                  EvacuatedServers* evacuated) {
  RunnerEnvironment environment;
  environment.evacuated = evacuated;
  environment.registry = registry;
  environment.dispatcher = dispatcher;
  environment.planner = planner;
  environment.min_ps = options.min_ps;
  environment.member_timeout = options.member_timeout;
  environment.plan_timeout = options.plan_timeout;
  environment.restore_grace = options.restore_grace;
  environment.clock = options.clock;
  environment.file_system = options.checkpoint_file_system;
  return environment;
}

RetentionLimits MakeLimits(const CoordinatorOptions& options) {
  RetentionLimits limits;
  limits.shards = static_cast<size_t>(std::max(options.retained_jobs, 0));
  limits.records = static_cast<size_t>(std::max(options.retained_records, 1));
  return limits;
}

QueueLimits MakeQueueLimits(const CoordinatorOptions& options) {
  QueueLimits limits;
  limits.running = static_cast<size_t>(std::max(options.max_running_jobs, 1));
  limits.pending = static_cast<size_t>(std::max(options.max_pending_jobs, 1));
  return limits;
}

class CoordinatorImpl final : public Coordinator {
 public:
  CoordinatorImpl(const CoordinatorOptions& options, std::unique_ptr<Journal> journal)
      : stop_timeout_(options.stop_timeout),
        journal_(std::move(journal)),
        registry_(options.heartbeat_period, options.clock),
        dispatcher_(&registry_, {.first_lease = options.lease_duration, .clock = options.clock}),
        planner_(&registry_, options.clock),
        evacuated_(journal_.get()),
        environment_(MakeEnvironment(options, &registry_, &dispatcher_, &planner_, &evacuated_)),
        table_(environment_, MakeLimits(options), journal_.get(), MakeQueueLimits(options)),
        submissions_(environment_, journal_.get(), &table_),
        member_events_(environment_, &table_),
        membership_(&registry_, options.clock),
        jobs_(&table_, &submissions_, &registry_, &evacuated_) {
    registry_.SetObserver(&member_events_);
  }

  ~CoordinatorImpl() override { Stop(); }

  absl::Status Serve(ServerOptions options) {
    options.message_memory = kMessageMemory;
    MILLRACE_RETURN_IF_ERROR(evacuated_.Load());
    MILLRACE_RETURN_IF_ERROR(table_.Load());
    // Nothing runs if it cannot be served.
    MILLRACE_ASSIGN_OR_RETURN(server_, RpcServer::Start(options, {&membership_, &jobs_}));
    table_.Resume();
    jobs_.Open();
    return absl::OkStatus();
  }

  const std::string& address() const override { return server_->address(); }

  void StopInOrder() override {
    table_.WriteCheckpoints("the coordinator stops", stop_timeout_);
    Stop();
  }

  void Stop() override {
    jobs_.Shutdown();
    planner_.Shutdown();
    table_.Stop();
    membership_.Shutdown();
    if (server_ != nullptr) server_->Shutdown(kShutdownGrace);
  }

 private:
  const absl::Duration stop_timeout_;
  const std::unique_ptr<Journal> journal_;
  MemberRegistry registry_;
  Dispatcher dispatcher_;
  Planner planner_;
  EvacuatedServers evacuated_;
  const RunnerEnvironment environment_;
  JobTable table_;
  Submissions submissions_;
  MemberEvents member_events_;
  MembershipService membership_;
  JobsService jobs_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(const CoordinatorOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(
      auto journal, Journal::Open(options.data_dir, {.file_system = options.file_system,
                                                     .clock = options.clock,
                                                     .damaged_logs = options.cut_damaged_journal
                                                                         ? DamagedLogs::kCutShort
                                                                         : DamagedLogs::kRefused}));
  auto coordinator = std::make_unique<CoordinatorImpl>(options, std::move(journal));
  MILLRACE_RETURN_IF_ERROR(coordinator->Serve(options.server));
  return coordinator;
}

}  // namespace millrace::coordinator
