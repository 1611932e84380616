// The library as a worker gets it, on a machine that need not have a GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "worker/device/cuda/library.h"
#include "worker/device/cuda/library_version.h"

namespace millrace::cuda {
namespace {

using OpenLibrary = Library* (*)(int);

class SharedLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const path = std::getenv("MILLRACE_CUDA_LIBRARY");
    if (path == nullptr) {
      GTEST_SKIP() << "the CUDA code was left out: " << std::getenv("WHY_NO_CUDA");
    }
    void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    open_ = reinterpret_cast<OpenLibrary>(dlsym(handle, "MillraceCudaLibrary"));
    ASSERT_NE(open_, nullptr) << dlerror();
    // Nothing else is told to the world, so that no other CUDA code of the process is mixed up.
    EXPECT_EQ(dlsym(handle, "cudaMalloc"), nullptr);
  }

  OpenLibrary open_ = nullptr;
};

TEST_F(SharedLibraryTest, IsNotThereForAnotherVersion) {
  EXPECT_EQ(open_(kLibraryVersion + 1), nullptr);
  EXPECT_EQ(open_(0), nullptr);
}

TEST_F(SharedLibraryTest, SaysWhyThereAreNoGpus) {
  Library* const library = open_(kLibraryVersion);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(open_(kLibraryVersion), library);
  try {
    EXPECT_GE(library->GpuCount(), 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::kOther);
    EXPECT_NE(std::string(error.what()).find("NVIDIA driver"), std::string::npos) << error.what();
  }
}

TEST_F(SharedLibraryTest, GpusThatAreNotThereAreNotOpened) {
  Library* const library = open_(kLibraryVersion);
  EXPECT_THROW(library->Open(-1, {}), Error);
  EXPECT_THROW(library->Open(1000, {}), Error);
}

}  // namespace
}  // namespace millrace::cuda
