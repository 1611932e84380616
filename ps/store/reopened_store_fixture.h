// A store that is opened again, as after a kill or a clean stop, with or without what memory kept.
#ifndef MILLRACE_PS_STORE_REOPENED_STORE_FIXTURE_H_
#define MILLRACE_PS_STORE_REOPENED_STORE_FIXTURE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "common/clock.h"
#include "gtest/gtest.h"
#include "ps/store/shard_store.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {

class ReopenedStoreTest : public ::testing::Test {
 protected:
  ReopenedStoreTest() {
    std::filesystem::create_directories(root_ + "/shm");
    Open(/*arena=*/true);
  }

  // As a server that is started; the one before was killed, unless it was stopped.
  void Open(bool arena) {
    store_.reset();
    ShardStoreOptions options;
    options.arena = arena ? root_ + "/shm" : "";
    options.clock = &clock_;
    auto store = ShardStore::Open(root_ + "/data", options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::shared_ptr<Shard> Find(uint32_t shard = 0) { return *store_->shards().Find("job", shard); }

  const std::string root_ = TestDirectory("root");
  SimulatedClock clock_;
  uint64_t push_id_ = 0;
  std::unique_ptr<ShardStore> store_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_STORE_REOPENED_STORE_FIXTURE_H_
