// A parameter server: its shards, its services, and its place in the cluster.
#ifndef MILLRACE_PS_PS_SERVER_H_
#define MILLRACE_PS_PS_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/memory_limit.h"
#include "common/mutex.h"
#include "common/net/server.h"
#include "common/net/tls.h"
#include "common/storage/durable_file.h"
#include "ps/membership.h"
#include "ps/service/admin.h"
#include "ps/service/data_plane.h"
#include "ps/store/shard_store.h"

namespace millrace::ps {

struct PsServerOptions {
  // Names the server in messages; unique in the cluster.
  std::string name = "ps-0";
  // Its own; made where it is missing.
  std::string data_dir;
  uint64_t memory_limit = MemoryLimit();  // As ShardStoreOptions::memory_limit.
  // As ShardStoreOptions::arena.
  std::string arena = {};
  // As ShardStoreOptions::checkpoint_bandwidth.
  uint64_t checkpoint_bandwidth = 0;
  ServerOptions server;
  // HOST:PORT at which workers reach it. Empty: the one that it listens on.
  std::string advertise_address;
  // HOST:PORT. Empty: none, for tests and benchmarks.
  std::string coordinator_address;
  // For main(), which tells SecureConnections.
  TlsOptions tls = {};
  // The coordinator has refused the server for good (see MembershipOptions). May be empty.
  std::function<void(const absl::Status&)> on_rejected;
  Clock* clock = Clock::Real();
  FileSystemPtr file_system = RealFileSystem();  // For tests.
};

// Thread-safe.
class PsServer {
 public:
  // How long it waits for checkpoints at a stop: above the default of the coordinator's
  // --stop_timeout. Then it stops without them.
  static constexpr absl::Duration kDrainTimeout = absl::Seconds(35);
  // For calls that wait for a directory of checkpoints; they may do so for ever.
  static constexpr absl::Duration kFilesTimeout = absl::Seconds(15);

  // Restores the shards in the data directory, and serves. Blocks while it reads them. Statuses as
  // for ShardStore::Open and RpcServer::Start.
  static absl::StatusOr<std::unique_ptr<PsServer>> Start(const PsServerOptions& options);

  // As Stop().
  ~PsServer();

  // HOST:PORT that it listens on, with the real port.
  const std::string& address() const { return served_->rpc_server->address(); }
  // As RpcServer::InProcessChannel.
  std::shared_ptr<grpc::Channel> InProcessChannel() const {
    return served_->rpc_server->InProcessChannel();
  }

  const std::string& directory_id() const { return served_->store->directory().id(); }

  // Stops cleanly: tells the coordinator, and serves until that has checkpoints of the jobs, or up
  // to kDrainTimeout; ends all streams with UNAVAILABLE, leaves the cluster and writes every shard
  // to the database. Nothing that was acknowledged is lost when it returns OK. Later calls return
  // what the first one did. Blocks. Calls that still wait for another directory than the server's
  // own after kFilesTimeout are named in the log, and left to themselves: what they use stays, with
  // the lock on the data directory, until they return or the process ends. So are callers that hold
  // an in-process channel; they only get errors. RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED: there is no
  // thread for it, or other calls have not ended within ShardStore::kTimeout; everything is left as
  // by a kill.
  absl::Status Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // What calls use.
  struct Served {
    Served(std::unique_ptr<ShardStore> opened, Clock* clock)
        : store(std::move(opened)), data_plane(store.get(), clock), admin(store.get()) {}

    const std::unique_ptr<ShardStore> store;
    DataPlane data_plane;
    Admin admin;
    std::unique_ptr<RpcServer> rpc_server;
  };

  PsServer(std::unique_ptr<ShardStore> store, Clock* clock);

  bool HasJobs() const;
  // Returns when no call is under way any more, or only those that were waited for for too long.
  // RESOURCE_EXHAUSTED: there is no thread to wait with. DEADLINE_EXCEEDED: others have not ended.
  absl::Status ShutDownRpcServer();
  void Join(const PsServerOptions& options);
  absl::Status StopOnce();

  Clock* const clock_;
  const std::shared_ptr<Served> served_;
  std::unique_ptr<Membership> membership_;  // nullptr: no coordinator.

  Mutex mutex_;
  CondVar changed_;  // stopped_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status stop_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_PS_SERVER_H_
