// A parameter server: its shards, its services, and its place in the cluster.
#ifndef MILLRACE_PS_PS_SERVER_H_
#define MILLRACE_PS_PS_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/net/server.h"
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
  // As ShardStoreOptions::arena.
  std::string arena = {};
  // As ShardStoreOptions::checkpoint_bandwidth.
  uint64_t checkpoint_bandwidth = 0;
  ServerOptions server;
  // HOST:PORT at which workers reach it. Empty: the one that it listens on.
  std::string advertise_address;
  // HOST:PORT. Empty: none, for tests and benchmarks.
  std::string coordinator_address;
  // The coordinator has refused the server for good (see MembershipOptions). May be empty.
  std::function<void(const absl::Status&)> on_rejected;
  Clock* clock = Clock::Real();
};

// Thread-safe.
class PsServer {
 public:
  // How long it waits for checkpoints at a stop: above the default of the coordinator's
  // --stop_timeout. Then it stops without them.
  static constexpr absl::Duration kDrainTimeout = absl::Seconds(35);

  // Restores the shards in the data directory, and serves. Blocks while it reads them. Statuses as
  // for ShardStore::Open and RpcServer::Start.
  static absl::StatusOr<std::unique_ptr<PsServer>> Start(const PsServerOptions& options);

  // As Stop().
  ~PsServer();

  // HOST:PORT that it listens on, with the real port.
  const std::string& address() const { return rpc_server_->address(); }
  const std::string& directory_id() const { return store_->directory().id(); }

  // Stops cleanly: tells the coordinator, and serves until that has checkpoints of the jobs, or up
  // to kDrainTimeout; ends all streams with UNAVAILABLE, leaves the cluster and writes every shard
  // to the database. Nothing that was acknowledged is lost when it returns OK. Later calls return
  // what the first one did. Blocks.
  absl::Status Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit PsServer(std::unique_ptr<ShardStore> store, Clock* clock);

  bool HasJobs() const;
  void Join(const PsServerOptions& options);
  absl::Status StopOnce();

  const std::unique_ptr<ShardStore> store_;
  DataPlane data_plane_;
  Admin admin_;
  std::unique_ptr<RpcServer> rpc_server_;
  std::unique_ptr<Membership> membership_;  // nullptr: no coordinator.

  Mutex mutex_;
  CondVar changed_;  // stopped_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status stop_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_PS_SERVER_H_
