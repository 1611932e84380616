#include "ps/ps_server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "common/memory_limit.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

// For answers that are on their way to clients.
constexpr absl::Duration kShutdownGrace = absl::Seconds(2);
// A backstop: what shards hold of messages is bounded by what they are admitted with, which is less
// than the machine's memory.
constexpr uint64_t kLeastMessageMemory = uint64_t{512} << 20;

std::vector<ShardStatus> Statuses(const ShardMap& shards) {
  std::vector<ShardStatus> statuses;
  for (const std::shared_ptr<Shard>& shard : shards.List()) statuses.push_back(shard->Status());
  return statuses;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PsServer>> PsServer::Start(const PsServerOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<ShardStore> store,
      ShardStore::Open(options.data_dir, {.clock = options.clock,
                                          .arena = options.arena,
                                          .checkpoint_bandwidth = options.checkpoint_bandwidth}));
  std::unique_ptr<PsServer> server(new PsServer(std::move(store), options.clock));
  ServerOptions server_options = options.server;
  server_options.message_memory = std::max(MemoryLimit(), kLeastMessageMemory);
  MILLRACE_ASSIGN_OR_RETURN(
      server->rpc_server_,
      RpcServer::Start(server_options, {&server->data_plane_, &server->admin_}));
  if (!options.coordinator_address.empty()) server->Join(options);
  return server;
}

PsServer::PsServer(std::unique_ptr<ShardStore> store, Clock* clock)
    : store_(std::move(store)), data_plane_(store_.get(), clock), admin_(store_.get()) {}

void PsServer::Join(const PsServerOptions& options) {
  absl::BitGen random;
  MembershipOptions membership;
  membership.coordinator_address = options.coordinator_address;
  membership.name = options.name;
  membership.directory_id = directory_id();
  membership.incarnation = absl::Uniform<uint64_t>(random);
  membership.address = options.advertise_address.empty() ? address() : options.advertise_address;
  membership.shards = [store = store_.get()] { return Statuses(store->shards()); };
  membership.on_rejected = options.on_rejected;
  membership.clock = options.clock;
  membership_ = std::make_unique<Membership>(std::move(membership));
}

PsServer::~PsServer() {
  const absl::Status status = Stop();
  LOG_IF(ERROR, !status.ok()) << "the ps server could not stop cleanly: " << status;
}

absl::Status PsServer::Stop() {
  {
    MutexLock lock(&mutex_);
    if (stopping_) {
      while (!stopped_) changed_.Wait(&mutex_);
      return stop_status_;
    }
    stopping_ = true;
  }
  absl::Status status = StopOnce();
  MutexLock lock(&mutex_);
  stop_status_ = std::move(status);
  stopped_ = true;
  changed_.SignalAll();
  return stop_status_;
}

// Whose shards may yet change.
bool PsServer::HasJobs() const {
  const std::vector<std::shared_ptr<Shard>> shards = store_->shards().List();
  return std::any_of(shards.begin(), shards.end(),
                     [](const auto& shard) { return !shard->retired(); });
}

absl::Status PsServer::StopOnce() {
  if (membership_ != nullptr && HasJobs()) membership_->Drain(kDrainTimeout);
  data_plane_.Stop();
  store_->Close();
  // Nothing is left after these that works on a shard, so nothing changes while they are written.
  if (rpc_server_ != nullptr) rpc_server_->Shutdown(kShutdownGrace);
  data_plane_.Finish();
  // Writing may take long: the coordinator need not wait for a server that does not come back
  // before that is done.
  if (membership_ != nullptr) membership_->Leave();
  return store_->Stop();
}

}  // namespace millrace::ps
