#include "ps/crashable_ps.h"

#include <utility>

#include "absl/time/time.h"
#include "glog/logging.h"

namespace millrace::testing {

void CrashablePs::Start() {
  ps::ShardStoreOptions options;
  options.clock = &clock_;
  auto store = ps::ShardStore::Open(data_dir_, options);
  CHECK(store.ok()) << store.status();
  store_ = *std::move(store);
  data_plane_ = std::make_unique<ps::DataPlane>(store_.get(), &clock_);
  admin_ = std::make_unique<ps::Admin>(store_.get());
  auto server = RpcServer::Start({}, {data_plane_.get(), admin_.get()});
  CHECK(server.ok()) << server.status();
  rpc_server_ = *std::move(server);
}

void CrashablePs::Kill() {
  if (rpc_server_ == nullptr) return;
  data_plane_->Stop();
  rpc_server_->Shutdown(absl::ZeroDuration());
  rpc_server_.reset();
  admin_.reset();
  data_plane_.reset();
  store_.reset();  // Not stopped: nothing is written.
}

}  // namespace millrace::testing
