// What tests of a cut store share.
#ifndef MILLRACE_PS_CUT_CUT_STORE_FIXTURE_H_
#define MILLRACE_PS_CUT_CUT_STORE_FIXTURE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "gtest/gtest.h"
#include "ps/cut/cut_fixture.h"
#include "ps/cut/cut_keys.h"
#include "ps/cut/database.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {

// A store, and what an operator, a crash or a bad disk does to it.
class CutStoreFixture : public CutFixture {
 protected:
  static ShardPlan Plan(uint32_t replicas = 0) { return *PlanShard(Spec(replicas)); }

  void Write(const ShardPlan& plan, uint64_t version, const std::vector<PushPtr>& held = {}) {
    ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
    const absl::Status status =
        store_->WriteCut(plan, {term_.epoch, State(plan, version), held, of_stop_});
    ASSERT_TRUE(status.ok()) << status;
  }

  void StepBack(const ShardPlan& plan, uint64_t version) {
    term_.stepped_back_to.set_epoch(term_.epoch);
    term_.stepped_back_to.set_version(version);
    ++term_.epoch;
    ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  }

  // REQUIRES: the store is closed.
  template <typename Change>
  void ChangeDatabase(const Change& change) {
    auto database = Database::Open(path_);
    ASSERT_TRUE(database.ok()) << database.status();
    ASSERT_TRUE(change(database->get()).ok());
  }
  void LoseRecord(const ShardPlan& plan) {
    ChangeDatabase([&](Database* database) {
      Database::Changes changes;
      changes.remove = {RecordKey(ShardKey(plan.spec.job_id(), plan.spec.shard()))};
      return database->Commit(changes);
    });
  }

  // Reading and removing the file are errors of the system, until Readable.
  void Unreadable(const std::string& file) {
    std::filesystem::rename(file, path_ + ".aside");
    std::filesystem::create_directory(file);
  }
  void Readable(const std::string& file) {
    std::filesystem::remove(file);
    std::filesystem::rename(path_ + ".aside", file);
  }

  // What an operator's `mv` does to both of its directories.
  void MoveAway() {
    std::filesystem::rename(path_, path_ + ".aside");
    std::filesystem::rename(bulk(), bulk() + ".aside");
  }
  void MoveBack() {
    std::filesystem::rename(path_ + ".aside", path_);
    std::filesystem::rename(bulk() + ".aside", bulk());
  }

  uint64_t DiskBytes() const {
    uint64_t bytes = 0;
    std::error_code error;
    for (const std::string& directory : {path_, bulk()}) {
      for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        const uint64_t size = entry.file_size(error);
        if (!error) bytes += size;
      }
    }
    return bytes;
  }

  // Spoils a byte in the middle of the file of a cut, the newest one first.
  void Spoil(int cut_from_newest = 0) {
    store_.reset();
    std::vector<std::filesystem::path> files = FilesIn(bulk(), ".sst");
    std::sort(files.rbegin(), files.rend());
    std::fstream file(files.at(static_cast<size_t>(cut_from_newest)),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kBlockElements);
    file.put('!');
    ASSERT_TRUE(file.good());
  }

  ShardTerm term_ = {1, 0, {}};
  bool of_stop_ = false;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_STORE_FIXTURE_H_
