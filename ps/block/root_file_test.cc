#include "ps/block/root_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::ElementsAre;

constexpr size_t kCapacity = 8;

class RootFileTest : public ::testing::Test {
 protected:
  RootFileTest() {
    const std::string directory = absl::StrCat(::testing::TempDir(), "/root_file_test");
    std::filesystem::create_directories(directory);
    path_ = absl::StrCat(directory, "/root");
    root_ = *RootFile::Create(path_, kCapacity, ReserveWithFallocate);
  }

  // What a successor reads.
  absl::optional<RootFile::Contents> Successor() const {
    return (*RootFile::Open(path_, ReserveWithFallocate))->Read();
  }

  std::string Image() const {
    std::ifstream file(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  void SetImage(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::in)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::string path_;
  std::unique_ptr<RootFile> root_;
};

TEST_F(RootFileTest, HasNothingUntilItIsWritten) { EXPECT_FALSE(Successor().has_value()); }

TEST_F(RootFileTest, SuccessorReadsWhatWasWrittenLast) {
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(root_->Write({i, i + 1}, /*marked=*/i % 2 == 1).ok());
    EXPECT_THAT(Successor()->words, ElementsAre(i, i + 1));
    EXPECT_EQ(Successor()->marked, i % 2 == 1);
  }
}

TEST_F(RootFileTest, MarkStaysUntilTheNextWrite) {
  ASSERT_TRUE(root_->Write({1}, /*marked=*/false).ok());
  root_->Mark();
  EXPECT_TRUE(Successor()->marked);
  ASSERT_TRUE(root_->Write({2}, /*marked=*/false).ok());
  EXPECT_FALSE(Successor()->marked);
}

TEST_F(RootFileTest, SuccessorGoesOnWriting) {
  ASSERT_TRUE(root_->Write({1}, false).ok());
  root_ = *RootFile::Open(path_, ReserveWithFallocate);
  ASSERT_TRUE(root_->Write({2, 3}, false).ok());
  EXPECT_THAT(Successor()->words, ElementsAre(2, 3));
}

// A Write stores: number 0 in the empty slot, its other words, its number, 0 in the other slot. The
// slots' stores are replayed one after the other, as a kill would cut them short.
TEST_F(RootFileTest, KillAtAnyStoreLeavesOldOrNewContents) {
  ASSERT_TRUE(root_->Write({10, 11, 12}, /*marked=*/true).ok());
  ASSERT_TRUE(root_->Write({20, 21}, /*marked=*/true).ok());
  const std::string before = Image();
  ASSERT_TRUE(root_->Write({30, 31, 32, 33}, /*marked=*/false).ok());
  const std::string after = Image();
  const size_t half = before.size() / 2;
  const size_t word = sizeof(uint64_t);
  const size_t fresh = std::memcmp(&before[0], "\0\0\0\0\0\0\0", word) == 0 ? 0 : half;
  std::vector<size_t> stores;
  for (size_t offset = word; offset < half; offset += word) stores.push_back(fresh + offset);
  stores.push_back(fresh);  // Its number.
  const size_t committed = stores.size();
  stores.push_back(half - fresh);  // The old one's.
  std::string image = before;
  for (size_t i = 0; i <= stores.size(); ++i) {
    SetImage(image);
    const absl::optional<RootFile::Contents> found = Successor();
    ASSERT_TRUE(found.has_value()) << i;
    if (i < committed) {
      EXPECT_THAT(found->words, ElementsAre(20, 21)) << i;
      EXPECT_TRUE(found->marked);
    } else {
      EXPECT_THAT(found->words, ElementsAre(30, 31, 32, 33)) << i;
      EXPECT_FALSE(found->marked);
    }
    if (i < stores.size()) std::copy_n(&after[stores[i]], word, &image[stores[i]]);
  }
  EXPECT_EQ(image, after);
}

// The blocks of an older state may have been used again.
TEST_F(RootFileTest, DamagedContentsAreNotReplacedByOlderOnes) {
  ASSERT_TRUE(root_->Write({1, 2}, false).ok());
  ASSERT_TRUE(root_->Write({3, 4}, false).ok());
  const std::string whole = Image();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string image = whole;
    image[i] = static_cast<char>(image[i] ^ 4);
    SetImage(image);
    const absl::optional<RootFile::Contents> found = Successor();
    if (!found.has_value()) continue;
    EXPECT_THAT(found->words, ElementsAre(3, 4)) << i;
  }
}

TEST_F(RootFileTest, ErasedIsEmptyAndCanBeWritten) {
  ASSERT_TRUE(root_->Write({1}, false).ok());
  ASSERT_TRUE(root_->Write({2}, false).ok());
  root_->Erase();
  EXPECT_FALSE(Successor().has_value());
  ASSERT_TRUE(root_->Write({3}, false).ok());
  EXPECT_THAT(Successor()->words, ElementsAre(3));
}

TEST_F(RootFileTest, GrowsWithItsContents) {
  ASSERT_TRUE(root_->Write({1}, false).ok());
  const std::vector<uint64_t> many(3 * kCapacity, 7);
  ASSERT_TRUE(root_->Write(many, /*marked=*/true).ok());
  EXPECT_EQ(Successor()->words, many);
  EXPECT_TRUE(Successor()->marked);
  ASSERT_TRUE(root_->Write({2}, false).ok());
  EXPECT_THAT(Successor()->words, ElementsAre(2));
}

TEST_F(RootFileTest, HasRoomForAsMuchAsItsCapacity) {
  const std::vector<uint64_t> full(kCapacity, 7);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(root_->Write(full, false).ok());
    EXPECT_EQ(Successor()->words, full);
  }
}

TEST_F(RootFileTest, MarkIsThatOfTheContentsThatItHasGrownWith) {
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(root_->Write({i}, false).ok());
  ASSERT_TRUE(root_->Write(std::vector<uint64_t>(3 * kCapacity, 7), /*marked=*/false).ok());
  root_->Mark();
  EXPECT_TRUE(Successor()->marked);
}

TEST_F(RootFileTest, FileThatWasCutIsNone) {
  ASSERT_TRUE(root_->Write({1}, false).ok());
  for (const size_t size : {72, 65, 48, 16}) {
    std::filesystem::resize_file(path_, size);
    EXPECT_EQ(RootFile::Open(path_, ReserveWithFallocate).status().code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
}

TEST_F(RootFileTest, WhereItCannotGrowItKeepsWhatItHas) {
  bool full = false;
  root_ = *RootFile::Create(path_, kCapacity, [&full](int fd, size_t bytes) {
    return full ? ENOSPC : ReserveWithFallocate(fd, bytes);
  });
  ASSERT_TRUE(root_->Write({1}, false).ok());
  full = true;
  EXPECT_EQ(root_->Write(std::vector<uint64_t>(100, 7), false).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Successor()->words, ElementsAre(1));
}

TEST_F(RootFileTest, FileThatIsNoneIsRefused) {
  EXPECT_EQ(RootFile::Open(path_ + "x", ReserveWithFallocate).status().code(),
            absl::StatusCode::kNotFound);
  std::ofstream(path_, std::ios::trunc) << "";
  EXPECT_EQ(RootFile::Open(path_, ReserveWithFallocate).status().code(),
            absl::StatusCode::kDataLoss);
  std::ofstream(path_, std::ios::trunc) << "short";
  EXPECT_EQ(RootFile::Open(path_, ReserveWithFallocate).status().code(),
            absl::StatusCode::kDataLoss);
}

// The late end of a shard that was dropped took away the root of the next one of its name.
TEST_F(RootFileTest, AnotherOneThatHasTakenItsPlaceStaysWhenItIsUnlinked) {
  const auto next = *RootFile::Create(path_, kCapacity, ReserveWithFallocate);
  const std::vector<uint64_t> words = {1, 2};
  ASSERT_TRUE(next->Write(words, /*marked=*/false).ok());
  root_->Unlink();
  EXPECT_EQ(Successor()->words, words);
  next->Unlink();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace millrace::ps
