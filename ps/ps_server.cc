#include "ps/ps_server.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/memory_limit.h"
#include "common/start_thread.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

// For answers that are on their way to clients.
constexpr absl::Duration kShutdownGrace = absl::Seconds(2);
constexpr int kStopLogSeconds = 60;
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
                                          .memory_limit = options.memory_limit,
                                          .arena = options.arena,
                                          .file_system = options.file_system,
                                          .checkpoint_bandwidth = options.checkpoint_bandwidth}));
  std::unique_ptr<PsServer> server(new PsServer(std::move(store), options.clock));
  ServerOptions server_options = options.server;
  server_options.bulk = true;
  server_options.message_memory = std::max(MemoryLimit(), kLeastMessageMemory);
  MILLRACE_ASSIGN_OR_RETURN(
      server->served_->rpc_server,
      RpcServer::Start(server_options, {&server->served_->data_plane, &server->served_->admin}));
  if (!options.coordinator_address.empty()) server->Join(options);
  return server;
}

PsServer::PsServer(std::unique_ptr<ShardStore> store, Clock* clock)
    : clock_(clock), served_(std::make_shared<Served>(std::move(store), clock)) {}

void PsServer::Join(const PsServerOptions& options) {
  absl::BitGen random;
  MembershipOptions membership;
  membership.coordinator_address = options.coordinator_address;
  membership.name = options.name;
  membership.directory_id = directory_id();
  membership.incarnation = absl::Uniform<uint64_t>(random);
  membership.address = options.advertise_address.empty() ? address() : options.advertise_address;
  membership.shards = [store = served_->store.get()] { return Statuses(store->shards()); };
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
  const std::vector<std::shared_ptr<Shard>> shards = served_->store->shards().List();
  return std::any_of(shards.begin(), shards.end(),
                     [](const auto& shard) { return !shard->retired(); });
}

absl::Status PsServer::StopOnce() {
  if (membership_ != nullptr && HasJobs()) membership_->Drain(kDrainTimeout);
  served_->data_plane.Stop();
  served_->store->Close();
  // Nothing is left after these that works on a shard, so nothing changes while they are written.
  if (served_->rpc_server != nullptr) MILLRACE_RETURN_IF_ERROR(ShutDownRpcServer());
  served_->data_plane.Finish();
  // Writing may take long: the coordinator need not wait for a server that does not come back
  // before that is done.
  if (membership_ != nullptr) membership_->Leave();
  return served_->store->Stop();
}

// gRPC waits for handlers however long they take, and one may hang in a directory on a server that
// does not answer; and callers in this process may not let go of their channel. They work on no
// shard any more: the store is closed, and streams are ended. Where there is none of these, what is
// left may be at work on a shard, and is waited for as long as a call may take; or it is gRPC,
// which may not end after a lack of threads.
absl::Status PsServer::ShutDownRpcServer() {
  struct Done {
    Mutex mutex;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
  };
  const auto ended = std::make_shared<Done>();
  MILLRACE_ASSIGN_OR_RETURN(std::thread thread, StartThread([served = served_, ended] {
                              served->rpc_server->Shutdown(kShutdownGrace);
                              MutexLock lock(&ended->mutex);
                              ended->done = true;
                              ended->changed.SignalAll();
                            }));
  const auto has_ended_by = [&](absl::Time deadline) {
    MutexLock lock(&ended->mutex);
    while (!ended->done && !clock_->WaitUntil(&ended->changed, &ended->mutex, deadline)) {
    }
    return ended->done;
  };
  const absl::Time last = clock_->Now() + ShardStore::kTimeout;
  while (!has_ended_by(clock_->Now() + kFilesTimeout)) {
    std::vector<std::string> left = served_->store->FilesUnderWay();
    if (served_->rpc_server->HasInProcessCallers()) left.push_back("callers in this process");
    if (left.empty() && clock_->Now() < last) {
      LOG_EVERY_T(INFO, kStopLogSeconds) << "the server waits for calls that it still answers";
      continue;
    }
    thread.detach();
    if (left.empty()) {
      return absl::DeadlineExceededError(
          absl::StrCat("calls that the server still answers have not ended within ",
                       absl::FormatDuration(ShardStore::kTimeout),
                       ": it stops as by a kill, without writing its shards"));
    }
    LOG(ERROR) << "the server stops without waiting any longer for "
               << absl::StrJoin(left, ", and for ");
    return absl::OkStatus();
  }
  thread.join();
  return absl::OkStatus();
}

}  // namespace millrace::ps
