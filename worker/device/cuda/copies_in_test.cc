#include "worker/device/cuda/copies_in.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CopiesInTest : public ::testing::Test {
 protected:
  // Of `count` bytes from `first` on.
  void Add(size_t first, size_t count) {
    copies_.Add(device_.data() + first, host_.data() + first, count);
  }

  void AddPiece(size_t first, size_t count) {
    copies_.Add(device_.data() + first, host_.data() + first, count, /*is_piece=*/true);
  }

  std::string host_ = "values that go to a GPU";
  std::string device_ = std::string(host_.size(), ' ');
  std::vector<std::string> enqueued_;  // In this order.
  int failing_ = -1;                   // That many are enqueued, and then one fails.
  std::atomic<bool> computed_ = false;
  CopiesIn copies_{[this](void* device, const void* host, size_t bytes) {
                     if (failing_ == static_cast<int>(enqueued_.size())) {
                       throw std::runtime_error("fails");
                     }
                     std::memcpy(device, host, bytes);
                     enqueued_.emplace_back(static_cast<const char*>(host), bytes);
                   },
                   [this] { return computed_.load(); }};
};

TEST_F(CopiesInTest, GoAtOnceWhereNothingRuns) {
  Add(0, 6);
  Add(7, 4);
  EXPECT_THAT(enqueued_, ElementsAre("values", "that"));
  EXPECT_FALSE(copies_.CanRelease());
}

TEST_F(CopiesInTest, AreHeldBackUntilThePassHasComputed) {
  copies_.Hold();
  Add(0, 6);
  EXPECT_FALSE(copies_.CanRelease());
  EXPECT_THAT(enqueued_, IsEmpty());
  computed_ = true;
  EXPECT_TRUE(copies_.CanRelease());
  copies_.Release();
  EXPECT_FALSE(copies_.CanRelease());
  EXPECT_THAT(enqueued_, ElementsAre("values"));
  computed_ = false;  // Of the next pass, which holds nothing back yet.
  Add(7, 4);
  EXPECT_THAT(enqueued_, ElementsAre("values", "that"));
}

TEST_F(CopiesInTest, TheNextOneBringsThoseThatAreHeldBack) {
  copies_.Hold();
  Add(0, 6);
  computed_ = true;
  Add(7, 4);
  EXPECT_THAT(enqueued_, ElementsAre("values", "that"));
}

TEST_F(CopiesInTest, AreReleasedWhateverThePassDoes) {
  copies_.Hold();
  Add(0, 6);
  copies_.Release();
  EXPECT_THAT(enqueued_, ElementsAre("values"));
}

TEST_F(CopiesInTest, NeighboursThatAreHeldBackAreOneCopyIfTheyArePieces) {
  copies_.Hold();
  AddPiece(0, 3);
  AddPiece(3, 3);
  AddPiece(11, 3);
  AddPiece(6, 5);
  Add(11, 3);
  Add(14, 3);
  AddPiece(17, 2);
  copies_.Release();
  EXPECT_THAT(enqueued_, ElementsAre("values", " go", " that", " go", " to", " a"));
}

std::string Letters(size_t count) {
  std::string letters(count, ' ');
  for (size_t i = 0; i < count; ++i) letters[i] = static_cast<char>('a' + i % 23);
  return letters;
}

constexpr size_t kPiece = size_t{1} << 20;

// Once values waited until a whole batch had been copied on the host.
TEST_F(CopiesInTest, WhatIsHeldBackGoesBetweenThePiecesOfALargeCopy) {
  const std::string from = Letters(2 * kPiece + 5);
  std::string host(from.size() + 1, ' '), device = host;
  std::vector<size_t> sizes, on_host;  // Of each copy, and what stood on the host by then.
  int asked = 0;
  CopiesIn copies(
      [&](void* to, const void* on_its_way, size_t bytes) {
        std::memcpy(to, on_its_way, bytes);
        sizes.push_back(bytes);
        on_host.push_back(host.find(' '));
      },
      [&] { return ++asked == 3; });  // When the second piece is added.
  copies.Hold();
  copies.Add(device_.data(), host_.data(), 6);
  copies.CopyAndAdd(from.data(), from.size(), host.data(), device.data());
  EXPECT_THAT(sizes, ElementsAre(6, kPiece, kPiece, 5));
  EXPECT_THAT(on_host, ElementsAre(2 * kPiece, 2 * kPiece, 2 * kPiece, from.size()));
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

// The newest that was told of counts, and comes last.
TEST_F(CopiesInTest, WhatIsHeldBackIsReadWhenItGoes) {
  copies_.Hold();
  Add(0, 6);
  host_.replace(0, 6, "VALUES");
  Add(0, 6);
  copies_.Release();
  EXPECT_THAT(enqueued_, ElementsAre("VALUES", "VALUES"));
}

TEST_F(CopiesInTest, WhatCouldNotBeEnqueuedIsStillHeldBack) {
  copies_.Hold();
  Add(0, 6);
  Add(7, 4);
  computed_ = true;
  failing_ = 1;
  EXPECT_THROW(copies_.Release(), std::runtime_error);
  failing_ = -1;
  EXPECT_TRUE(copies_.CanRelease());
  copies_.Release();
  EXPECT_THAT(enqueued_, ElementsAre("values", "that"));
}

TEST_F(CopiesInTest, ComeFromSeveralThreadsWhileAnotherHoldsAndReleases) {
  constexpr size_t kThreads = 4;
  std::atomic<size_t> adding = kThreads;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t, &adding] {
      for (size_t i = t; i < host_.size(); i += kThreads) Add(i, 1);
      --adding;
    });
  }
  while (adding > 0) {
    copies_.Hold();
    copies_.Release();
  }
  for (std::thread& thread : threads) thread.join();
  copies_.Release();
  EXPECT_EQ(device_, host_);
}

}  // namespace
}  // namespace millrace::worker
