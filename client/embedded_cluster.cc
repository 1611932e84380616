#include "client/embedded_cluster.h"

#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/arrivals.h"
#include "client/temporary_directory.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/net/channel.h"
#include "common/process.h"
#include "common/status_macros.h"
#include "coordinator/coordinator.h"
#include "glog/logging.h"
#include "grpcpp/channel.h"
#include "ps/ps_server.h"
#include "worker/parameters/parameter_client.h"
#include "worker/worker.h"

namespace millrace::client {
namespace {

// They are threads of this process and dial at once; a machine may be busy.
constexpr absl::Duration kJoinTimeout = absl::Minutes(2);
// How long a worker may take to open the data.
constexpr absl::Duration kPlanTimeout = absl::Hours(24);
// Servers here do not end before their clients' streams have.
constexpr absl::Duration kStreamPatience = absl::Seconds(30);

class EmbeddedClusterImpl final : public EmbeddedCluster {
 public:
  explicit EmbeddedClusterImpl(const EmbeddedClusterOptions& options) : options_(options) {}
  ~EmbeddedClusterImpl() override;

  // Once; what was started is stopped by the destructor, whatever this returns.
  absl::Status Start();

  const std::string& address() const override { return coordinator_->address(); }

 private:
  absl::Status MakeDirectory();
  absl::Status StartCoordinator();
  absl::Status StartPs(int index);
  absl::Status StartWorker(int index);
  // To the ps server at `address`. From any thread, while there are workers.
  std::shared_ptr<grpc::Channel> Connect(const std::string& address) const;
  // Until the worker has ended.
  void Watch(const std::string& name, worker::Worker* worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // False: one hangs, and is left as it is.
  bool StopWorkers();

  const EmbeddedClusterOptions options_;
  std::unique_ptr<TemporaryDirectory> temporary_;  // Without a state_dir.
  std::string directory_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::vector<std::unique_ptr<ps::PsServer>> ps_;  // As they are while there are workers.
  Arrivals arrivals_{Clock::Real()};               // Of workers, which use it.
  const std::shared_ptr<worker::SharedGpus> gpus_ = std::make_shared<worker::SharedGpus>();
  std::vector<std::unique_ptr<worker::Worker>> workers_;
  std::vector<std::thread> watches_;  // Of each worker.

  Mutex mutex_;
  int without_device_ ABSL_GUARDED_BY(mutex_) = 0;  // Workers.
};

absl::Status EmbeddedClusterImpl::MakeDirectory() {
  if (options_.state_dir.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(temporary_, TemporaryDirectory::Create());
    directory_ = temporary_->path();
    return absl::OkStatus();
  }
  directory_ = options_.state_dir;
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             absl::StrCat("cannot make the state directory ", directory_));
}

absl::Status EmbeddedClusterImpl::StartCoordinator() {
  coordinator::CoordinatorOptions options;
  options.data_dir = absl::StrCat(directory_, "/coordinator");
  options.min_ps = options_.ps;
  // Whoever waits for it sees that, and can interrupt.
  options.plan_timeout = kPlanTimeout;
  MILLRACE_ASSIGN_OR_RETURN(coordinator_, coordinator::Coordinator::Start(options));
  return absl::OkStatus();
}

absl::Status EmbeddedClusterImpl::StartPs(int index) {
  ps::PsServerOptions options;
  options.name = absl::StrCat("ps-", index);
  options.data_dir = absl::StrCat(directory_, "/", options.name);
  options.coordinator_address = coordinator_->address();
  MILLRACE_ASSIGN_OR_RETURN(auto server, ps::PsServer::Start(options));
  ps_.push_back(std::move(server));
  return absl::OkStatus();
}

// Tensors between threads of one process need no socket: they are handed over by reference.
std::shared_ptr<grpc::Channel> EmbeddedClusterImpl::Connect(const std::string& address) const {
  for (const auto& server : ps_) {
    if (server->address() == address) return server->InProcessChannel();
  }
  return CreateChannel(address, /*bulk=*/true);
}

absl::Status EmbeddedClusterImpl::StartWorker(int index) {
  worker::WorkerOptions options;
  options.name = absl::StrCat("worker-", index);
  options.coordinator_address = coordinator_->address();
  options.device = options_.device;
  options.deterministic = options_.deterministic;
  options.device_timeout = options_.device_timeout;
  options.shared_gpus = gpus_;
  options.model_factory = options_.model_factory;
  options.parameter_client_factory =
      [this](std::string job_id, std::vector<uint64_t> variable_sizes, const Routing& routing,
             worker::ParameterClientOptions client_options) {
        client_options.stream_patience = kStreamPatience;
        client_options.connect = [this](const std::string& address) { return Connect(address); };
        return worker::ParameterClient::Create(std::move(job_id), std::move(variable_sizes),
                                               routing, client_options);
      };
  options.own_models = options_.own_models;
  options.load_cuda = options_.load_cuda;
  options.on_welcomed = [this, name = options.name] { arrivals_.Joined(name); };
  arrivals_.Expect(options.name);
  MILLRACE_ASSIGN_OR_RETURN(auto worker, worker::Worker::Start(options));
  workers_.push_back(std::move(worker));
  watches_.emplace_back(
      [this, name = options.name, worker = workers_.back().get()] { Watch(name, worker); });
  return absl::OkStatus();
}

absl::Status EmbeddedClusterImpl::Start() {
  MILLRACE_RETURN_IF_ERROR(MakeDirectory());
  MILLRACE_RETURN_IF_ERROR(StartCoordinator());
  for (int i = 0; i < options_.ps; ++i) MILLRACE_RETURN_IF_ERROR(StartPs(i));
  for (int i = 0; i < options_.workers; ++i) MILLRACE_RETURN_IF_ERROR(StartWorker(i));
  // A job that is submitted before is planned by those that are there, and waits for others where
  // these have too little memory: nobody would ever come.
  return arrivals_.AwaitAll(Clock::Real()->Now() + kJoinTimeout);
}

void EmbeddedClusterImpl::Watch(const std::string& name, worker::Worker* worker) {
  const absl::Status end = worker->Wait();
  const bool is_without_device = absl::IsUnavailable(end);
  arrivals_.Ended(name, is_without_device ? absl::OkStatus() : end);
  if (!is_without_device) return;
  {
    MutexLock lock(&mutex_);
    if (++without_device_ < options_.workers) return;
  }
  if (options_.on_no_worker) options_.on_no_worker(end);
}

// At the same time: each finishes the step that it is at.
bool EmbeddedClusterImpl::StopWorkers() {
  std::vector<std::thread> stops;
  for (const auto& worker : workers_) stops.emplace_back([&worker] { worker->Stop(); });
  for (std::thread& stop : stops) stop.join();
  for (std::thread& watch : watches_) watch.join();
  bool all_ended = true;
  for (auto& worker : workers_) {
    if (!worker->hangs()) continue;
    static_cast<void>(worker.release());
    all_ended = false;
  }
  workers_.clear();
  return all_ended;
}

// The coordinator first: it has jobs write checkpoints, for which some need their workers. Members
// do not wait for it then. The ps servers last, which wait for what workers have left of streams:
// see PsServer::Stop.
EmbeddedClusterImpl::~EmbeddedClusterImpl() {
  if (coordinator_ != nullptr) coordinator_->StopInOrder();
  bool all_ended = StopWorkers();
  for (const auto& server : ps_) {
    if (const absl::Status status = server->Stop(); !status.ok()) {
      LOG(ERROR) << "stopping a ps server of the embedded cluster: " << status;
      all_ended = false;
    }
  }
  if (all_ended) return;
  temporary_.reset();
  EndProcess(1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedCluster>> EmbeddedCluster::Start(
    const EmbeddedClusterOptions& options) {
  if (options.ps < 1 || options.workers < 1) {
    return absl::InvalidArgumentError(absl::StrCat("an embedded cluster of ", options.ps,
                                                   " ps servers and ", options.workers,
                                                   " workers; it takes at least one of each"));
  }
  auto cluster = std::make_unique<EmbeddedClusterImpl>(options);
  MILLRACE_RETURN_IF_ERROR(cluster->Start());
  return cluster;
}

}  // namespace millrace::client
