// What tests of cuts on disk share: a store in a directory of its own, and states to write there.
#ifndef MILLRACE_PS_CUT_CUT_FIXTURE_H_
#define MILLRACE_PS_CUT_CUT_FIXTURE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ps/cut/cut_store.h"
#include "ps/shard/shard_test_util.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {

class CutFixture : public ::testing::Test {
 protected:
  CutFixture() { Reopen(); }

  void Reopen() {
    store_.reset();
    auto store = CutStore::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // Two slices in three blocks, with one slot.
  static ShardSpec Spec(uint32_t replicas = 0) {
    ShardSpec spec = ::millrace::testing::MakeSpec({kBlockElements + 3, 2}, replicas);
    spec.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
    return spec;
  }

  // A state whose values, and slots plus 100, are the version.
  StatePtr State(const ShardPlan& plan, uint64_t version) {
    auto state = std::make_shared<ShardState>();
    for (const BlockLayout::BlockPlace& place : plan.layout.blocks()) {
      std::shared_ptr<Block> block = pool_.Allocate(place.elements, 1);
      std::fill_n(block->array(0), place.elements, static_cast<float>(version));
      std::fill_n(block->array(1), place.elements, static_cast<float>(version + 100));
      state->blocks.push_back(std::move(block));
    }
    for (uint64_t step = 0; step < version; ++step) state->applied.Insert(step);
    state->version = version;
    return state;
  }

  static CutName Name(uint64_t epoch, uint64_t version) {
    CutName name;
    name.set_epoch(epoch);
    name.set_version(version);
    return name;
  }

  // "EPOCH.VERSION" of each cut.
  std::vector<std::string> Cuts() {
    std::vector<std::string> cuts;
    for (const CutName& cut : store_->Names("job", 0)) {
      cuts.push_back(absl::StrCat(cut.epoch(), ".", cut.version()));
    }
    return cuts;
  }

  std::string bulk() const { return path_ + ".bulk"; }

  size_t CutFiles() const { return FilesIn(bulk(), ".sst").size(); }

  const std::string path_ = EmptyTestDirectory("data");
  BlockPool pool_;
  std::unique_ptr<CutStore> store_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_FIXTURE_H_
