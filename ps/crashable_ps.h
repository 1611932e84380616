// A ps server that can be killed, for tests.
#ifndef MILLRACE_PS_CRASHABLE_PS_H_
#define MILLRACE_PS_CRASHABLE_PS_H_

#include <memory>
#include <string>

#include "common/clock.h"
#include "common/net/server.h"
#include "ps/service/admin.h"
#include "ps/service/data_plane.h"
#include "ps/store/shard_store.h"

namespace millrace::testing {

// The services of a PsServer without its place in a cluster, on a data directory that outlives its
// crashes. No cuts are written but those that somebody asks for: its clock stands still.
class CrashablePs {
 public:
  explicit CrashablePs(const std::string& data_dir) : data_dir_(data_dir) {}
  ~CrashablePs() { Kill(); }

  // Serves on a free port.
  void Start();
  // As kill -9 does: what is not in the data directory is lost.
  void Kill();

  const std::string& address() const { return rpc_server_->address(); }

 private:
  const std::string data_dir_;
  SimulatedClock clock_;
  std::unique_ptr<ps::ShardStore> store_;
  std::unique_ptr<ps::DataPlane> data_plane_;
  std::unique_ptr<ps::Admin> admin_;
  std::unique_ptr<RpcServer> rpc_server_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_PS_CRASHABLE_PS_H_
