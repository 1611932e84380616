// What a ps server takes over from another one: whatever comes, it says what is wrong, or has that
// shard, and writes it to its disk.
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "glog/logging.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/util/message_differencer.h"
#include "protos/parameter_server.pb.h"
#include "ps/store/shard_source.h"
#include "ps/store/shard_store.h"
#include "testing/fuzz/fuzz_target.h"

namespace millrace::testing {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr uint64_t kMemoryLimit = 32 << 20;

// All its values are one half.
class FuzzSource final : public ps::ShardSource {
 public:
  explicit FuzzSource(ShardSnapshot snapshot) : snapshot_(std::move(snapshot)) {}

  absl::StatusOr<ShardSnapshot> Open() override { return snapshot_; }
  absl::Status ReadArray(absl::Span<float> values) override {
    std::fill(values.begin(), values.end(), 0.5F);
    return absl::OkStatus();
  }
  absl::Status Close() override { return absl::OkStatus(); }

 private:
  const ShardSnapshot snapshot_;
};

// On a memory file system, for the life of the process.
class FuzzStore {
 public:
  FuzzStore() {
    std::string path = "/dev/shm/millrace_fuzz_store_XXXXXX";
    CHECK(mkdtemp(path.data()) != nullptr);
    folder_ = path;
    ps::ShardStoreOptions options;
    options.memory_limit = kMemoryLimit;
    auto store = ps::ShardStore::Open(path + "/data", options);
    CHECK(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  ~FuzzStore() {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  ps::ShardStore& store() { return *store_; }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<ps::ShardStore> store_;
};

bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDataLoss(status) ||
         absl::IsResourceExhausted(status);
}

}  // namespace

void FeedShardCopy(absl::string_view input) {
  static FuzzStore fuzz;
  static uint64_t generation = 1;
  ShardSnapshot snapshot;
  const google::protobuf::LogSilencer silencer;
  if (!snapshot.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  CopyShardRequest request;
  request.set_job_id(snapshot.spec().job_id());
  request.set_shard(snapshot.spec().shard());
  request.set_source_generation(generation);
  request.set_generation(++generation);
  FuzzSource source(snapshot);
  const absl::StatusOr<ShardStatus> copy = fuzz.store().Copy(request, source);
  if (!copy.ok()) {
    CHECK(IsRefusal(copy.status())) << copy.status();
    return;
  }
  CHECK_EQ(copy->epoch(), snapshot.epoch());
  CHECK_EQ(copy->version(), snapshot.version());
  const absl::StatusOr<ShardStatus> flushed =
      fuzz.store().Flush(request.job_id(), request.shard(), generation);
  CHECK(flushed.ok()) << flushed.status();
  CHECK(MessageDifferencer::Equals(flushed->applied(), copy->applied()));
  const absl::Status dropped = fuzz.store().Drop(request.job_id(), request.shard(), generation);
  CHECK(dropped.ok()) << dropped;
}

}  // namespace millrace::testing
