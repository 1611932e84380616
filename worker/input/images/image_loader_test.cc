#include "worker/input/images/image_loader.h"

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/input/images/image_test_util.h"
#include "worker/input/images/list_images.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

// One that could not be started ended the process, with those that ran.
TEST(ImageLoaderTest, LoadsTheSameWithAsManyThreadsAsThereAre) {
  const std::string directory = millrace::testing::MakeTestDirectory();
  std::vector<ImageFile> files;
  std::vector<uint8_t> wanted;
  for (int i = 0; i < 20; ++i) {
    files.push_back({absl::StrCat(i), 0});
    wanted.push_back(static_cast<uint8_t>(i));
    millrace::testing::WriteTestFile(directory, files.back().name,
                                     millrace::testing::Png({1, 1, 1, {wanted.back()}}));
  }
  for (const int left : {0, 1, 100}) {
    SCOPED_TRACE(left);
    int threads = left;
    const LoadedImages loaded =
        LoadImages(directory, files, {1, 1, 1}, "data.train.image_folder.folder",
                   [&threads](std::function<void()> run) -> absl::StatusOr<std::thread> {
                     if (threads-- <= 0) return absl::ResourceExhaustedError("no memory");
                     return std::thread(std::move(run));
                   });
    EXPECT_EQ(loaded.pixels, wanted);
    for (const absl::Status& status : loaded.statuses) EXPECT_EQ(status, absl::OkStatus());
  }
}

}  // namespace
}  // namespace millrace::worker
