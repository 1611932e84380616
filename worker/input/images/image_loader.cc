#include "worker/input/images/image_loader.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/catch_bad_alloc.h"
#include "worker/input/images/decode_image.h"
#include "worker/input/images/resize.h"
#include "worker/input/input_file.h"

namespace millrace::worker {
namespace {

absl::StatusOr<std::vector<uint8_t>> ReadWhole(InputFile* file) {
  constexpr size_t kChunk = size_t{64} << 10;
  std::vector<uint8_t> bytes;
  while (bytes.size() <= kMaxImageFileBytes) {
    const size_t begin = bytes.size();
    bytes.resize(begin + std::max(kChunk, begin));
    const absl::Span<char> rest(reinterpret_cast<char*>(bytes.data()) + begin,
                                bytes.size() - begin);
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file->Read(rest));
    bytes.resize(begin + got);
    if (got < rest.size()) return bytes;
  }
  return file->Error(absl::StrCat("is larger than ", kMaxImageFileBytes, " bytes"));
}

absl::Status LoadImage(const DataDirectory& folder, const std::string& name, const ImageSize& size,
                       const std::string& field, absl::Span<uint8_t> pixels) {
  MILLRACE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(folder, name, field));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadWhole(&file));
  const absl::StatusOr<Image> image = DecodeImage(bytes, /*grey=*/size.channels == 1);
  if (!image.ok()) {
    return file.Error(
        std::string(image.status().message().data(), image.status().message().size()));
  }
  ResizeBilinear(*image, size.height, size.width, pixels);
  return absl::OkStatus();
}

}  // namespace

LoadedImages LoadImages(const DataDirectory& folder, const std::vector<ImageFile>& files,
                        const ImageSize& size, const std::string& field,
                        const ThreadStarter& start_thread) {
  LoadedImages loaded;
  loaded.pixels.resize(files.size() * size.bytes());
  loaded.statuses.resize(files.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < files.size(); i = next++) {
      const auto pixels = absl::MakeSpan(loaded.pixels).subspan(i * size.bytes(), size.bytes());
      loaded.statuses[i] = CatchBadAlloc(
          "a picture", [&] { return LoadImage(folder, files[i].name, size, field, pixels); });
    }
  };
  const size_t most = std::clamp<size_t>(std::thread::hardware_concurrency(), 1,
                                         std::clamp<size_t>(files.size(), 1, kMaxImageThreads));
  std::vector<std::thread> others;
  others.reserve(most - 1);
  auto join_others = absl::MakeCleanup([&others] {
    for (std::thread& thread : others) thread.join();
  });
  while (others.size() < most - 1) {
    absl::StatusOr<std::thread> thread = start_thread(work);
    if (!thread.ok()) break;  // Those that there are do it.
    others.push_back(*std::move(thread));
  }
  work();
  std::move(join_others).Invoke();
  return loaded;
}

}  // namespace millrace::worker
