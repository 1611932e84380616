#include "worker/device/cuda/copies_in.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/mirrored_memory.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CopiesInTest : public ::testing::Test {
 protected:
  CopiesInTest() { copies_.AddPlace(device_.data(), device_.size(), ahead_.data()); }

  // Of `count` bytes from `first` on.
  void Add(size_t first, size_t count) {
    copies_.Add(device_.data() + first, host_.data() + first, count);
  }

  CopiesIn::Enqueue Into(std::vector<std::string>* enqueued) {
    return [this, enqueued](void* to, const void* from, size_t bytes) {
      if (failing_ == static_cast<int>(enqueued->size())) throw std::runtime_error("fails");
      std::memcpy(to, from, bytes);
      enqueued->emplace_back(static_cast<const char*>(from), bytes);
    };
  }

  std::string host_ = "values that go to a GPU";
  std::string device_ = std::string(host_.size(), ' ');
  std::string ahead_ = std::string(host_.size(), '-');
  std::vector<std::string> copied_, moved_;  // In this order.
  int failing_ = -1;                         // That many are enqueued, and then one fails.
  CopiesIn copies_{Into(&copied_), Into(&moved_)};
};

TEST_F(CopiesInTest, GoStraightWhereNothingRuns) {
  Add(0, 6);
  Add(7, 4);
  EXPECT_THAT(copied_, ElementsAre("values", "that"));
  EXPECT_EQ(device_, "values that            ");
  copies_.MoveIn();
  EXPECT_THAT(moved_, IsEmpty());
}

TEST_F(CopiesInTest, ComeToAnotherPlaceWhileAPassRunsAndAreMovedAfterIt) {
  copies_.GoAhead();
  Add(0, 6);
  EXPECT_THAT(copied_, ElementsAre("values"));
  EXPECT_EQ(device_, "                       ");
  copies_.MoveIn();
  EXPECT_THAT(moved_, ElementsAre("values"));
  EXPECT_EQ(device_, "values                 ");
  Add(7, 4);
  EXPECT_EQ(device_, "values that            ");
  copies_.MoveIn();
  EXPECT_THAT(moved_, ElementsAre("values"));
}

TEST_F(CopiesInTest, NeighboursAreMovedAtOnceInWhateverOrderTheyCame) {
  copies_.GoAhead();
  const std::vector<std::pair<size_t, size_t>> pieces = {{11, 3}, {0, 3}, {14, 9}, {3, 4}, {7, 4}};
  for (const auto& [first, count] : pieces) Add(first, count);
  copies_.MoveIn();
  EXPECT_THAT(moved_, ElementsAre(host_));
}

TEST_F(CopiesInTest, WhatCameTwiceIsMovedOnceAsItCameLast) {
  copies_.GoAhead();
  Add(0, 11);
  host_.replace(0, 6, "VALUES");
  Add(0, 6);
  Add(3, 2);
  copies_.MoveIn();
  EXPECT_THAT(moved_, ElementsAre("VALUES that"));
}

// Pieces of 100 bytes: neighbours of a layout, one that has another one before it, the last one,
// and the first one of a place that follows.
TEST_F(CopiesInTest, WhatFillsAPieceUpIsMovedAlongWithItAndNothingElseIs) {
  std::string host(1536, 'h'), device(1536, ' '), first(1280, '1'), second(256, '2');
  copies_.AddPlace(device.data(), first.size(), first.data());
  copies_.AddPlace(device.data() + first.size(), second.size(), second.data());
  copies_.GoAhead();
  for (const size_t at : {1024, 1280, 256, 768, 0}) {
    copies_.Add(device.data() + at, host.data() + at, 100);
  }
  copies_.MoveIn();
  const std::string piece(100, 'h'), filling(156, '1'), none(256, ' ');
  EXPECT_THAT(moved_, ElementsAre(piece + filling + piece, piece + filling + piece, piece));
  EXPECT_EQ(device, moved_[0] + none.substr(100) + none + moved_[1] + none.substr(100) + piece +
                        none.substr(100));
}

std::string Letters(size_t count) {
  std::string letters(count, ' ');
  for (size_t i = 0; i < count; ++i) letters[i] = static_cast<char>('a' + i % 23);
  return letters;
}

constexpr size_t kPiece = size_t{1} << 20;

TEST_F(CopiesInTest, ALargeCopyBeginsBeforeAllOfItIsOnTheHost) {
  const std::string from = Letters(2 * kPiece + 5);
  std::string host(from.size() + 1, ' '), device = host;
  std::vector<size_t> on_host;  // When each copy began.
  CopiesIn copies(
      [&](void* to, const void* on_its_way, size_t bytes) {
        std::memcpy(to, on_its_way, bytes);
        on_host.push_back(host.find(' '));
      },
      [](void*, const void*, size_t) {});
  copies.CopyAndAdd(from.data(), from.size(), host.data(), device.data());
  EXPECT_THAT(on_host, ElementsAre(kPiece, 2 * kPiece, from.size()));
  EXPECT_EQ(device, from + ' ');
}

TEST_F(CopiesInTest, ALargeCopyIsWhole) {
  for (const size_t bytes : {size_t{0}, size_t{1}, kPiece - 1, kPiece, kPiece + 1, 5 * kPiece}) {
    const std::string from = Letters(bytes);
    std::string host(bytes + 1, ' '), device = host;
    copies_.CopyAndAdd(from.data(), bytes, host.data(), device.data());
    EXPECT_EQ(host, from + ' ') << bytes;
    EXPECT_EQ(device, host) << bytes;
  }
}

TEST_F(CopiesInTest, WhatStandsBetweenCopiesIsMovedAlongWhereItIsOfNoUse) {
  std::string host(1536, 'h'), device(1536, ' '), ahead(1536, '1');
  copies_.AddPlace(device.data(), device.size(), ahead.data(), /*at_once=*/true);
  copies_.GoAhead();
  for (const size_t at : {1024, 256}) copies_.Add(device.data() + at, host.data() + at, 100);
  copies_.MoveIn();
  const std::string piece(100, 'h'), between(668, '1');
  EXPECT_THAT(moved_, ElementsAre(piece + between + piece));
  EXPECT_EQ(device, std::string(256, ' ') + moved_[0] + std::string(412, ' '));
}

// One copy ends where the other one's place begins.
TEST_F(CopiesInTest, NeighboursOfTwoPlacesAreMovedEachFromItsOwn) {
  std::string host(512, 'h'), device(512, ' '), first(256, '1'), second(256, '2');
  copies_.AddPlace(device.data(), first.size(), first.data());
  copies_.AddPlace(device.data() + first.size(), second.size(), second.data());
  copies_.GoAhead();
  copies_.Add(device.data(), host.data(), 256);
  copies_.Add(device.data() + 256, host.data() + 256, 256);
  copies_.MoveIn();
  EXPECT_THAT(moved_, ElementsAre(std::string(256, 'h'), std::string(256, 'h')));
  EXPECT_EQ(device, host);
}

// As if the one were the rest of the other.
TEST_F(CopiesInTest, ACopyThatBeginsAsFarInItsPlaceAsTheLastOneEndedInAnotherIsMovedToItsOwn) {
  std::string host(512, 'h'), device(512, ' '), first(256, '1'), second(256, '2');
  copies_.AddPlace(device.data(), first.size(), first.data());
  copies_.AddPlace(device.data() + first.size(), second.size(), second.data());
  copies_.GoAhead();
  copies_.Add(device.data(), host.data(), 100);
  copies_.Add(device.data() + 256 + 100, host.data() + 256 + 100, 50);
  copies_.MoveIn();
  EXPECT_EQ(device, std::string(100, 'h') + std::string(256, ' ') + std::string(50, 'h') +
                        std::string(106, ' '));
}

TEST_F(CopiesInTest, WhatCouldNotBeMovedIsStillToBeMoved) {
  copies_.GoAhead();
  Add(0, 6);
  failing_ = 0;
  EXPECT_THROW(copies_.MoveIn(), std::runtime_error);
  failing_ = 1;
  EXPECT_THROW(Add(7, 4), std::runtime_error);
  failing_ = -1;
  Add(11, 3);
  EXPECT_EQ(device_, "                       ");
  copies_.MoveIn();
  EXPECT_THAT(moved_, ElementsAre("values----- go"));
}

TEST_F(CopiesInTest, ComeFromSeveralThreadsWhileAnotherMovesThem) {
  constexpr size_t kThreads = 4;
  constexpr size_t kOne = MemoryLayout::kAlignment;
  const std::string host = Letters(64 * kOne);
  std::string device(host.size(), ' '), ahead = device;
  copies_.AddPlace(device.data(), device.size(), ahead.data());
  std::atomic<size_t> adding = kThreads;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t * kOne; i < host.size(); i += kThreads * kOne) {
        copies_.Add(device.data() + i, host.data() + i, kOne);
      }
      --adding;
    });
  }
  while (adding > 0) {
    copies_.GoAhead();
    copies_.MoveIn();
  }
  for (std::thread& thread : threads) thread.join();
  copies_.MoveIn();
  EXPECT_EQ(device, host);
}

}  // namespace
}  // namespace millrace::worker
