// NCCL on the emulated devices.
#include <nccl.h>

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/device_vector.h"
#include "testing/cuda_emulation/nccl_control.h"

namespace cuda_emulation {
namespace {

using ::testing::ElementsAre;

// Three ranks, each with a stream, and an array of 6 floats.
class NcclTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  NcclTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Reset();
    SetDeviceCount(kRanks);
    for (int i = 0; i < kRanks; ++i) {
      cudaSetDevice(i);
      EXPECT_EQ(cudaStreamCreateWithFlags(&streams_[i], cudaStreamNonBlocking), cudaSuccess);
      std::vector<float> values;
      for (int k = 0; k < 6; ++k) values.push_back(static_cast<float>((i + 1) * (k + 1)));
      arrays_.push_back(std::make_unique<DeviceVector<float>>(values));
    }
    cudaSetDevice(0);
  }
  ~NcclTest() override {
    Reset();
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    arrays_.clear();
  }

  void Init() {
    const int devices[kRanks] = {0, 1, 2};
    ASSERT_EQ(ncclCommInitAll(comms_, kRanks, devices), ncclSuccess);
  }
  ncclResult_t Add(int rank, size_t count = 2) {
    float* const array = arrays_[rank]->data();
    return ncclReduceScatter(array, array + static_cast<size_t>(rank) * count, count, ncclFloat32,
                             ncclSum, comms_[rank], streams_[rank]);
  }
  ncclResult_t AddAll() {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < kRanks; ++i) EXPECT_EQ(Add(i), ncclSuccess);
    return ncclGroupEnd();
  }
  void EndAll(ncclResult_t (*end)(ncclComm_t) = &ncclCommDestroy) {
    for (ncclComm_t comm : comms_) EXPECT_EQ(end(comm), ncclSuccess);
  }

  cudaStream_t streams_[kRanks] = {};
  ncclComm_t comms_[kRanks] = {};
  std::vector<std::unique_ptr<DeviceVector<float>>> arrays_;
};

TEST_F(NcclTest, EachRankGetsTheSumOfItsPiece) {
  for (const uint64_t order : {0, 1, 2, 3}) {
    SetOrder(order);
    for (int i = 0; i < kRanks; ++i) {
      const std::vector<float> ones(6, static_cast<float>(i + 1));
      ASSERT_EQ(cudaMemcpy(arrays_[i]->data(), ones.data(), 24, cudaMemcpyHostToDevice),
                cudaSuccess);
    }
    Init();
    ASSERT_EQ(AddAll(), ncclSuccess);
    EXPECT_THAT(arrays_[0]->Values(), ElementsAre(6, 6, 1, 1, 1, 1));
    EXPECT_THAT(arrays_[1]->Values(), ElementsAre(2, 2, 6, 6, 2, 2));
    EXPECT_THAT(arrays_[2]->Values(), ElementsAre(3, 3, 3, 3, 6, 6));
    EndAll();
  }
}

TEST_F(NcclTest, WaitsForTheWorkBeforeItInEachStreamAndIsWaitedFor) {
  for (const uint64_t order : {0, 1, 2, 3, 4, 5, 6, 7}) {
    SetOrder(order);
    Init();
    for (int i = 0; i < kRanks; ++i) {
      cudaSetDevice(i);
      ASSERT_EQ(cudaMemsetAsync(arrays_[i]->data(), 0, 24, streams_[i]), cudaSuccess);
    }
    ASSERT_EQ(AddAll(), ncclSuccess);
    float* pinned = nullptr;
    ASSERT_EQ(cudaHostAlloc(&pinned, 8, cudaHostAllocDefault), cudaSuccess);
    cudaSetDevice(1);
    ASSERT_EQ(
        cudaMemcpyAsync(pinned, arrays_[1]->data() + 2, 8, cudaMemcpyDeviceToHost, streams_[1]),
        cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
    EXPECT_EQ(pinned[0], 0);
    cudaFreeHost(pinned);
    EndAll();
    cudaSetDevice(0);
  }
}

TEST_F(NcclTest, CommunicatorsGiveTheirMemoryBack) {
  const Usage before = InUse();
  Init();
  EXPECT_GT(InUse().bytes, before.bytes);
  EXPECT_EQ(NcclCommunicators(), 3);
  ASSERT_EQ(AddAll(), ncclSuccess);
  const Usage connected = InUse();
  ASSERT_EQ(AddAll(), ncclSuccess);
  EXPECT_EQ(InUse().bytes, connected.bytes);
  EndAll();
  EXPECT_EQ(InUse().bytes, before.bytes);
  EXPECT_EQ(NcclCommunicators(), 0);
}

TEST_F(NcclTest, RefusesWhatNcclRefuses) {
  const int twice[2] = {1, 1};
  const int none[2] = {0, 7};
  EXPECT_EQ(ncclCommInitAll(comms_, 2, twice), ncclInvalidUsage);
  EXPECT_EQ(ncclCommInitAll(comms_, 2, none), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(Add(0), ncclInvalidArgument);
  SetMemoryOf(1, 1000);
  const Usage before = InUse();
  const int both[2] = {0, 1};
  EXPECT_EQ(ncclCommInitAll(comms_, 2, both), ncclUnhandledCudaError);
  EXPECT_EQ(InUse().bytes, before.bytes);
}

TEST_F(NcclTest, WhatWouldHangOrWriteElsewhereStopsTheProcess) {
  Init();
  EXPECT_DEATH(Add(0), "outside of a group");
  EXPECT_DEATH(
      {
        ncclGroupStart();
        Add(0);
        Add(2);
        ncclGroupEnd();
      },
      "rank 1 of 3 has 0 calls in the group, rank 0 has 1: the others would wait for ever");
  EXPECT_DEATH(
      {
        ncclGroupStart();
        for (int i = 0; i < kRanks; ++i) Add(i, i == 1 ? 1 : 2);
        ncclGroupEnd();
      },
      "of 1 floats by rank 1 of 3, of 2 by rank 0");
  EXPECT_DEATH(
      {
        ncclGroupStart();
        for (int i = 0; i < kRanks; ++i) Add(i, 3);
        ncclGroupEnd();
      },
      "memory that is not that of the device of rank 0 of 3");
  EXPECT_DEATH(
      {
        std::swap(arrays_[0], arrays_[1]);
        AddAll();
      },
      "memory that is not that of the device of rank 0 of 3");
  EXPECT_DEATH(
      {
        std::swap(streams_[0], streams_[1]);
        AddAll();
      },
      "stream that is not of the device of rank 0 of 3");
  EXPECT_DEATH(
      {
        float* const array = arrays_[0]->data();
        ncclGroupStart();
        ncclReduceScatter(array, array + 1, 2, ncclFloat32, ncclSum, comms_[0], streams_[0]);
        Add(1);
        Add(2);
        ncclGroupEnd();
      },
      "rank 0 of 3, whose result overlaps what it sends and is not in place");
  EndAll();
}

TEST_F(NcclTest, OfALostDeviceTheOthersWaitUntilTheyAreAborted) {
  Init();
  FailKernelOf(1, 1);
  ASSERT_EQ(AddAll(), ncclSuccess);
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorIllegalAddress);
  EXPECT_EQ(AddAll(), ncclUnhandledCudaError);
  EXPECT_DEATH(EndAll(), "ncclCommDestroy would wait for ever");
  EndAll(&ncclCommAbort);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  EXPECT_THAT(arrays_[0]->Values(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(NcclTest, ASumThatFailsIsToldOfAndEndsWhenItIsAborted) {
  Init();
  FailNcclSum(2);
  ASSERT_EQ(AddAll(), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  ncclResult_t error = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comms_[1], &error), ncclSuccess);
  EXPECT_EQ(error, ncclSuccess);
  ASSERT_EQ(AddAll(), ncclSuccess);
  EXPECT_EQ(cudaStreamQuery(streams_[2]), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(streams_[2]), cudaErrorNotReady);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[1], &error), ncclSuccess);
  EXPECT_EQ(error, ncclRemoteError);
  EndAll(&ncclCommAbort);
  EXPECT_EQ(cudaStreamSynchronize(streams_[2]), cudaSuccess);
}

TEST_F(NcclTest, FaultsComeWhenTheyAreAskedFor) {
  const int devices[kRanks] = {0, 1, 2};
  FailNcclInit(1);
  EXPECT_EQ(ncclCommInitAll(comms_, kRanks, devices), ncclSystemError);
  Init();
  FailNcclGroup(2);
  EXPECT_EQ(AddAll(), ncclSuccess);
  EXPECT_EQ(AddAll(), ncclInternalError);
  EXPECT_EQ(AddAll(), ncclSuccess);
  EndAll();
  EXPECT_FALSE(NcclMissing());
  SetNcclMissing();
  EXPECT_TRUE(NcclMissing());
}

}  // namespace
}  // namespace cuda_emulation
