#include "ps/block/arena.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/block/block.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {
namespace {

namespace fs = std::filesystem;

constexpr size_t kElements = 1 << 18;
constexpr size_t kBytes = kElements * sizeof(float);

class ArenaTest : public ::testing::Test {
 protected:
  ArenaTest() {
    fs::create_directories(root_ + "/shm");
    MakeDataDirectory("data", "0123");
    options_.parent = root_ + "/shm";
    options_.data_dir = root_ + "/data";
    options_.directory_id = "0123";
    options_.boot_id = "this boot";
    options_.clock = &clock_;
    options_.reserve = [this](int fd, size_t bytes) {
      ++segments_made_;
      return full_ ? ENOSPC : ReserveWithFallocate(fd, bytes);
    };
  }

  void MakeDataDirectory(const std::string& name, const std::string& id) const {
    fs::create_directories(root_ + "/" + name);
    std::ofstream(root_ + "/" + name + "/DIRECTORY_ID") << "a format\n" << id << "\n";
  }

  // As a server that is started; the one before was killed.
  void Open() {
    if (arena_ != nullptr) arena_->Abandon();
    auto arena = Arena::Open(options_);
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
  }

  // Opens an arena that has nothing to be adopted.
  void OpenNew() {
    Open();
    arena_->EndRecovery();
  }

  // A buffer whose first number is `value`.
  ArenaPlace Fill(float value) {
    const ArenaBuffer buffer = arena_->Take(kBytes);
    EXPECT_NE(buffer.data, nullptr);
    std::fill_n(buffer.data, kElements, value);
    return buffer.place;
  }

  // Between two lives of the server.
  ArenaPlace FillAndMoveTheDataDirectory() {
    OpenNew();
    const ArenaPlace place = Fill(7);
    arena_->Abandon();
    fs::rename(options_.data_dir, root_ + "/moved");
    options_.data_dir = root_ + "/moved";
    return place;
  }

  std::string Directory() const { return options_.parent + "/millrace-" + options_.directory_id; }

  size_t Files(const std::string& prefix) const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(Directory())) {
      count += entry.path().filename().string().rfind(prefix, 0) == 0 ? 1 : 0;
    }
    return count;
  }

  void EditHeader(const std::string& from, const std::string& to) const {
    const std::string path = Directory() + "/arena";
    std::ifstream in(path);
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    std::ofstream(path, std::ios::trunc) << text;
  }

  size_t SegmentBytes() const {
    size_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(Directory())) {
      if (entry.path().filename().string().rfind("segment.", 0) == 0) bytes += entry.file_size();
    }
    return bytes;
  }

  const std::string root_ = TestDirectory("root");
  SimulatedClock clock_;
  bool full_ = false;
  int segments_made_ = 0;
  ArenaOptions options_;
  std::shared_ptr<Arena> arena_;
};

TEST_F(ArenaTest, SuccessorFindsWhatWasStored) {
  OpenNew();
  const ArenaPlace place = Fill(7);
  Open();
  const ArenaBuffer buffer = arena_->Adopt(place, kBytes);
  ASSERT_NE(buffer.data, nullptr);
  EXPECT_EQ(buffer.data[0], 7);
  EXPECT_EQ(buffer.data[kElements - 1], 7);
  EXPECT_EQ(buffer.place, place);
}

TEST_F(ArenaTest, BuffersAreAlignedAndApart) {
  OpenNew();
  std::vector<std::pair<char*, size_t>> buffers;
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{65}, size_t{300}, size_t{5000},
                             kBytes - 64, kBytes, kBytes + 64, 3 * kBytes}) {
    for (int i = 0; i < 10; ++i) {
      const ArenaBuffer buffer = arena_->Take(bytes);
      ASSERT_NE(buffer.data, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data) % 64, 0);
      buffers.emplace_back(reinterpret_cast<char*>(buffer.data), bytes);
    }
  }
  std::sort(buffers.begin(), buffers.end());
  for (size_t i = 1; i < buffers.size(); ++i) {
    EXPECT_LE(buffers[i - 1].first + buffers[i - 1].second, buffers[i].first);
  }
}

TEST_F(ArenaTest, BufferIsUsedAgain) {
  OpenNew();
  const ArenaBuffer first = arena_->Take(kBytes);
  arena_->Release(first.place);
  EXPECT_EQ(arena_->Take(kBytes).data, first.data);
}

TEST_F(ArenaTest, WhatIsAdoptedIsNotHandedOutAgain) {
  OpenNew();
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 20; ++i) places.push_back(Fill(static_cast<float>(i)));
  Open();
  std::vector<ArenaBuffer> kept;
  for (size_t i = 0; i < places.size(); i += 2) kept.push_back(arena_->Adopt(places[i], kBytes));
  // Before and after what is not adopted becomes free.
  for (int i = 0; i < 30; ++i) Fill(-1);
  arena_->EndRecovery();
  for (int i = 0; i < 30; ++i) Fill(-2);
  for (size_t i = 0; i < kept.size(); ++i) {
    ASSERT_NE(kept[i].data, nullptr);
    EXPECT_EQ(kept[i].data[0], static_cast<float>(2 * i));
    EXPECT_EQ(kept[i].data[kElements - 1], static_cast<float>(2 * i));
  }
}

// A shard that was restored before another one must not take that one's buffers.
TEST_F(ArenaTest, BuffersTakenBeforeRecoveryEndsAreElsewhere) {
  OpenNew();
  const ArenaPlace place = Fill(7);
  Open();
  for (int i = 0; i < 10; ++i) arena_->Release(Fill(-1));
  const ArenaBuffer buffer = arena_->Adopt(place, kBytes);
  ASSERT_NE(buffer.data, nullptr);
  EXPECT_EQ(buffer.data[0], 7);
}

TEST_F(ArenaTest, WhatIsFreeWhenRecoveryEndsIsHandedOutOnce) {
  OpenNew();
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 8; ++i) places.push_back(Fill(static_cast<float>(i)));
  Open();
  std::vector<ArenaBuffer> adopted;
  for (const ArenaPlace place : places) adopted.push_back(arena_->Adopt(place, kBytes));
  for (size_t i = 0; i < 8; i += 2) arena_->Release(places[i]);
  const ArenaPlace fresh = Fill(-1);
  arena_->Release(Fill(-1));
  arena_->EndRecovery();
  EXPECT_EQ(arena_->mapped_bytes(), SegmentBytes());
  EXPECT_EQ(arena_->mapped_bytes() - arena_->idle_bytes(), 5 * kBytes);
  std::vector<ArenaPlace> taken = {places[1], places[3], places[5], places[7], fresh};
  const int made = segments_made_;
  while (arena_->idle_bytes() > 0) taken.push_back(Fill(-1));
  EXPECT_EQ(segments_made_, made) << "what is idle can be taken";
  for (int i = 0; i < 8; ++i) taken.push_back(Fill(-1));
  EXPECT_EQ(std::set<ArenaPlace>(taken.begin(), taken.end()).size(), taken.size());
  for (size_t i = 1; i < 8; i += 2) EXPECT_EQ(adopted[i].data[0], static_cast<float>(i));
}

// A successor may have its files.
TEST_F(ArenaTest, AbandonedArenaDeletesNoFiles) {
  OpenNew();
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 256; ++i) places.push_back(Fill(7));
  for (int i = 64; i < 256; ++i) arena_->Release(places[i]);
  const size_t files = Files("segment.");
  arena_->Abandon();
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(kPeakWindow);
    arena_->GiveBackSurplus();
    arena_->Trim();
  }
  for (int i = 1; i < 64; ++i) arena_->Release(places[i]);
  EXPECT_EQ(Files("segment."), files);
  EXPECT_EQ(arena_->Take(kBytes).data, nullptr);
  const std::shared_ptr<Arena> before = arena_;
  Open();
  const ArenaBuffer buffer = arena_->Adopt(places[0], kBytes);
  before->Release(places[0]);
  ASSERT_NE(buffer.data, nullptr);
  EXPECT_EQ(buffer.data[0], 7);
}

TEST_F(ArenaTest, PlacesThatMakeNoSenseAreRefused) {
  OpenNew();
  const ArenaPlace place = Fill(7);
  Open();
  for (const ArenaPlace wrong :
       {ArenaPlace{0}, ArenaPlace{1}, place + 1000, place + (ArenaPlace{1} << 32)}) {
    EXPECT_EQ(arena_->Adopt(wrong, kBytes).data, nullptr);
  }
  EXPECT_EQ(arena_->Adopt(place, 2 * kBytes).data, nullptr) << "another size";
  EXPECT_NE(arena_->Adopt(place, kBytes).data, nullptr);
  EXPECT_EQ(arena_->Adopt(place, kBytes).data, nullptr) << "twice";
}

TEST_F(ArenaTest, UnusedSegmentsAreGivenBack) {
  OpenNew();
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 256; ++i) places.push_back(Fill(0));
  EXPECT_GE(arena_->mapped_bytes(), 256 * kBytes);
  for (const ArenaPlace place : places) arena_->Release(place);
  arena_->Trim();
  EXPECT_LE(arena_->mapped_bytes(), 4 * kBytes);
  EXPECT_LE(Files("segment."), 1);
}

TEST_F(ArenaTest, WhatIsTrimmedWhileItLivesIsGivenBackWhenItGoes) {
  OpenNew();
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 256; ++i) places.push_back(Fill(0));
  // The window has run out: beginning another one undid it.
  clock_.Advance(kPeakWindow);
  arena_->Trim();
  for (const ArenaPlace place : places) arena_->Release(place);
  EXPECT_LE(arena_->mapped_bytes(), 4 * kBytes);
}

// A job that ended on a quiet server left its memory there.
TEST_F(ArenaTest, WhatWasNeededOnceIsGivenBackWithoutAnotherRelease) {
  OpenNew();
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 256; ++i) places.push_back(Fill(0));
  for (const ArenaPlace place : places) arena_->Release(place);
  arena_->GiveBackSurplus();
  EXPECT_GE(arena_->mapped_bytes(), 256 * kBytes) << "it may be needed again";
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(kPeakWindow);
    arena_->GiveBackSurplus();
  }
  EXPECT_LE(arena_->mapped_bytes(), 4 * kBytes);
}

// What another job had left counted as what this one needed, whose segments were deleted and made
// anew with each step.
TEST_F(ArenaTest, BuffersOfAnotherSizeDoNotStandForThoseThatAreNeeded) {
  OpenNew();
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 64; ++i) places.push_back(Fill(0));
  for (const ArenaPlace place : places) arena_->Release(place);
  int made_at_first = 0;
  for (int step = 0; step < 50; ++step) {
    places.clear();
    for (int i = 0; i < 16; ++i) places.push_back(arena_->Take(3 * kBytes).place);
    for (const ArenaPlace place : places) arena_->Release(place);
    if (step == 0) made_at_first = segments_made_;
    clock_.Advance(kPeakWindow / 20);
  }
  EXPECT_EQ(segments_made_, made_at_first);
  EXPECT_LT(arena_->mapped_bytes(), 64 * kBytes) << "the other job's are gone";
}

// Each step made segments and deleted them, which took longer than the step.
TEST_F(ArenaTest, WhatIsNeededAgainAndAgainStays) {
  OpenNew();
  int made_at_first = 0;
  for (int step = 0; step < 100; ++step) {
    std::vector<ArenaPlace> places;
    for (int i = 0; i < 64; ++i) places.push_back(arena_->Take(kBytes).place);
    for (const ArenaPlace place : places) arena_->Release(place);
    if (step == 0) made_at_first = segments_made_;
    clock_.Advance(kPeakWindow / 100);
  }
  EXPECT_EQ(segments_made_, made_at_first);
  // It was needed once: later it goes.
  for (int step = 0; step < 3; ++step) {
    clock_.Advance(kPeakWindow);
    arena_->Release(arena_->Take(kBytes).place);
  }
  EXPECT_LE(arena_->mapped_bytes(), 8 * kBytes);
}

TEST_F(ArenaTest, WhatNoRootLeadsToIsGivenBackAfterARestart) {
  OpenNew();
  for (int i = 0; i < 256; ++i) Fill(0);
  Open();
  arena_->EndRecovery();
  EXPECT_LE(arena_->mapped_bytes(), 4 * kBytes);
}

TEST_F(ArenaTest, FullFileSystemIsAnErrorAndIsTriedAgainLater) {
  OpenNew();
  full_ = true;
  EXPECT_EQ(arena_->Take(kBytes).data, nullptr);
  full_ = false;
  EXPECT_EQ(arena_->Take(kBytes).data, nullptr) << "each attempt costs time";
  clock_.Advance(kPeakWindow);
  EXPECT_NE(arena_->Take(kBytes).data, nullptr);
}

// What one job had left kept another one out.
TEST_F(ArenaTest, UnusedBuffersOfAnotherSizeMakeRoomWhereTheFileSystemIsFull) {
  options_.reserve = [this](int fd, size_t bytes) {
    return SegmentBytes() + bytes > 66 * kBytes ? ENOSPC : ReserveWithFallocate(fd, bytes);
  };
  OpenNew();
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 64; ++i) places.push_back(Fill(0));
  for (const ArenaPlace place : places) arena_->Release(place);
  EXPECT_NE(arena_->Take(3 * kBytes).data, nullptr);
}

TEST_F(ArenaTest, ShardInUseKeepsWhatItNeedsWhereTheFileSystemIsFull) {
  options_.reserve = [this](int fd, size_t bytes) {
    return SegmentBytes() + bytes > 66 * kBytes ? ENOSPC : ReserveWithFallocate(fd, bytes);
  };
  OpenNew();
  std::vector<ArenaPlace> places;
  for (int i = 0; i < 64; ++i) places.push_back(Fill(0));
  for (size_t i = 1; i < places.size(); ++i) arena_->Release(places[i]);
  EXPECT_EQ(arena_->Take(3 * kBytes).data, nullptr);
  for (size_t i = 1; i < places.size(); ++i) Fill(0);
}

TEST_F(ArenaTest, PoolUsesOrdinaryMemoryWhereTheArenaIsFull) {
  OpenNew();
  BlockPool pool(arena_);
  EXPECT_NE(pool.Allocate(kElements, 0)->place(), 0);
  full_ = true;
  const std::shared_ptr<Block> ordinary = pool.Allocate(kElements, 10);
  ASSERT_NE(ordinary, nullptr);
  EXPECT_EQ(ordinary->place(), 0);
  std::fill_n(ordinary->array(10), kElements, 1.0f);
}

TEST_F(ArenaTest, PoolAdoptsABlockWithItsSlots) {
  OpenNew();
  BlockPool pool(arena_);
  std::shared_ptr<Block> block = pool.Allocate(1001, 2);
  for (int i = 0; i <= 2; ++i) std::fill_n(block->array(i), 1001, static_cast<float>(i));
  const ArenaPlace place = block->place();
  Open();
  BlockPool successor(arena_);
  const std::shared_ptr<Block> adopted = successor.Adopt(place, 1001, 2);
  ASSERT_NE(adopted, nullptr);
  for (int i = 0; i <= 2; ++i) EXPECT_EQ(adopted->array(i)[1000], static_cast<float>(i));
  EXPECT_EQ(successor.Adopt(place, 1001, 2), nullptr);
}

TEST_F(ArenaTest, RootsThatNobodyAsksForAreDeleted) {
  OpenNew();
  ASSERT_TRUE((*arena_->MakeRoot("a", 10))->Write({1}, false).ok());
  ASSERT_TRUE((*arena_->MakeRoot("b", 10))->Write({2}, false).ok());
  Open();
  EXPECT_EQ((*arena_->OpenRoot("a"))->Read()->words[0], 1);
  arena_->EndRecovery();
  EXPECT_EQ(Files("root."), 1);
  EXPECT_EQ(arena_->OpenRoot("b").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ArenaTest, FilesAreForThisUserOnly) {
  OpenNew();
  Fill(0);
  struct stat status;
  ASSERT_EQ(stat(Directory().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700);
  for (const auto& entry : fs::directory_iterator(Directory())) {
    ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600) << entry.path();
  }
}

// Fill, change something, open: nothing is there to be adopted.
class UselessArenaTest : public ArenaTest {
 protected:
  void ExpectUseless(const std::function<void()>& change) {
    OpenNew();
    const ArenaPlace place = Fill(7);
    ASSERT_TRUE(arena_->MakeRoot("a", 10).ok());
    arena_->Abandon();
    change();
    Open();
    EXPECT_EQ(arena_->Adopt(place, kBytes).data, nullptr);
    EXPECT_EQ(arena_->OpenRoot("a").status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(Files("segment."), 0);
  }
};

TEST_F(UselessArenaTest, OfAnotherBoot) {
  ExpectUseless([this] { options_.boot_id = "the next boot"; });
}

TEST_F(UselessArenaTest, OfAnotherLayout) {
  ExpectUseless([this] { EditHeader("layout 1", "layout 2"); });
}

TEST_F(UselessArenaTest, OfAnotherDataDirectory) {
  ExpectUseless([this] { EditHeader("directory 0123", "directory 4567"); });
}

TEST_F(UselessArenaTest, WithATornHeader) {
  ExpectUseless(
      [this] { std::ofstream(Directory() + "/arena", std::ios::trunc) << "millrace ps"; });
}

TEST_F(UselessArenaTest, WithoutAHeader) {
  ExpectUseless([this] { fs::remove(Directory() + "/arena"); });
}

// A life without the arena has acknowledged what is not in it.
TEST_F(UselessArenaTest, AfterALifeWithoutIt) {
  ExpectUseless([this] { ASSERT_TRUE(DisownArena(options_.data_dir).ok()); });
}

TEST_F(ArenaTest, StaysWithADataDirectoryThatMoves) {
  const ArenaPlace place = FillAndMoveTheDataDirectory();
  Open();
  EXPECT_NE(arena_->Adopt(place, kBytes).data, nullptr);
  RemoveLostArenas(options_.parent);
  EXPECT_TRUE(fs::exists(Directory()));
}

// What was there was deleted, for a line that only others read.
TEST_F(ArenaTest, StaysWithADataDirectoryThatMovesWhereThatCannotBeNoted) {
  const ArenaPlace place = FillAndMoveTheDataDirectory();
  fs::create_directory(Directory() + "/arena.new");  // Where it would be written.
  Open();
  EXPECT_NE(arena_->Adopt(place, kBytes).data, nullptr);
}

TEST_F(ArenaTest, IsForOneProcessAtATime) {
  OpenNew();
  const ArenaPlace place = Fill(7);
  EXPECT_EQ(Arena::Open(options_).status().code(), absl::StatusCode::kUnavailable);
  Open();
  EXPECT_NE(arena_->Adopt(place, kBytes).data, nullptr) << "the attempt has spoiled it";
}

TEST_F(ArenaTest, DirectoryOfOthersIsLeftAlone) {
  fs::create_directories(Directory());
  chmod(Directory().c_str(), 0777);
  std::ofstream(Directory() + "/arena") << "precious";
  EXPECT_EQ(Arena::Open(options_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(Directory() + "/arena"));
}

TEST_F(ArenaTest, FilesOfOthersInTheDirectoryStay) {
  OpenNew();
  std::ofstream(Directory() + "/precious") << "x";
  options_.boot_id = "the next boot";
  Open();
  arena_->Remove();
  EXPECT_TRUE(fs::exists(Directory() + "/precious"));
}

TEST_F(ArenaTest, RemovedArenaIsGone) {
  OpenNew();
  const ArenaBuffer buffer = arena_->Take(kBytes);
  arena_->Remove();
  EXPECT_FALSE(fs::exists(Directory()));
  buffer.data[0] = 1;  // Still readable.
  EXPECT_EQ(arena_->Take(kBytes).data, nullptr);
}

TEST_F(ArenaTest, ArenasOfDataDirectoriesThatAreGoneAreRemoved) {
  for (const std::string id : {"4567", "89ab", "cdef"}) {
    MakeDataDirectory("of-" + id, id);
    ArenaOptions options = options_;
    options.directory_id = id;
    options.data_dir = root_ + "/of-" + id;
    const auto arena = Arena::Open(options);
    ASSERT_TRUE(arena.ok());
    if (id == "89ab") arena_ = *arena;  // Stays locked.
  }
  fs::remove_all(root_ + "/of-4567");
  fs::remove_all(root_ + "/of-89ab");
  fs::create_directories(options_.parent + "/millrace-foreign");
  fs::create_directories(options_.parent + "/other");
  const std::shared_ptr<Arena> locked = std::move(arena_);
  OpenNew();
  RemoveLostArenas(options_.parent);  // What Open begins may take longer than that.
  EXPECT_FALSE(fs::exists(options_.parent + "/millrace-4567"));
  EXPECT_TRUE(fs::exists(options_.parent + "/millrace-89ab")) << "it is in use";
  EXPECT_TRUE(fs::exists(options_.parent + "/millrace-cdef"));
  EXPECT_TRUE(fs::exists(options_.parent + "/millrace-foreign"));
  EXPECT_TRUE(fs::exists(options_.parent + "/other"));
}

// It kept all servers of the machine from starting.
TEST_F(ArenaTest, AnotherServersDataDirectoryThatDoesNotAnswerHoldsUpNobody) {
  ArenaOptions other = options_;
  MakeDataDirectory("other", "4567");
  other.directory_id = "4567";
  other.data_dir = root_ + "/other";
  ASSERT_TRUE(Arena::Open(other).ok());
  const std::string id_file = other.data_dir + "/DIRECTORY_ID";
  fs::remove(id_file);
  ASSERT_EQ(mkfifo(id_file.c_str(), S_IRUSR | S_IWUSR), 0);  // Who opens it waits.
  OpenNew();
  EXPECT_TRUE(fs::exists(options_.parent + "/millrace-4567"));
  const int answer = open(id_file.c_str(), O_WRONLY);  // It is empty.
  EXPECT_GE(answer, 0);
  close(answer);
}

// A kill between the two removals of an arena left its directory for ever.
TEST_F(ArenaTest, DirectoriesOfArenasThatWereNeverMadeOrWhollyRemovedGo) {
  const fs::path old = options_.parent + "/millrace-old";
  const fs::path fresh = options_.parent + "/millrace-fresh";
  for (const fs::path& path : {old, fresh}) {
    ASSERT_EQ(mkdir(path.c_str(), S_IRWXU), 0);
  }
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  RemoveLostArenas(options_.parent);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh)) << "its server may be making it";
}

// A container's, or another version's.
TEST_F(ArenaTest, ArenaOfWhichNobodyHereCanTellStays) {
  const std::pair<std::string, std::string> changes[] = {{"mounts ", "mounts elsewhere "},
                                                         {"layout 1", "layout 2"}};
  for (const auto& [from, to] : changes) {
    MakeDataDirectory("data", "0123");
    OpenNew();
    arena_->Abandon();
    EditHeader(from, to);
    fs::remove_all(options_.data_dir);
    RemoveLostArenas(options_.parent);
    EXPECT_TRUE(fs::exists(Directory())) << to;
  }
}

TEST_F(ArenaTest, DataDirectoryMadeAnewHasLostItsArena) {
  OpenNew();
  arena_->Abandon();
  fs::remove_all(options_.data_dir);
  MakeDataDirectory("data", "ffff");
  RemoveLostArenas(options_.parent);
  EXPECT_FALSE(fs::exists(Directory()));
}

}  // namespace
}  // namespace millrace::ps
