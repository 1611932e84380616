// How long a worker's thread takes to make batches from data in memory: pictures of bytes become
// floats, are normalized, and are moved and mirrored at random. A copy of as many floats is the
// measure. Items are examples.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "protos/job.pb.h"
#include "worker/input/augmenter.h"
#include "worker/input/dataset.h"
#include "worker/input/step_order.h"

namespace millrace::testing {
namespace {

constexpr uint64_t kCifarPixels = 32 * 32 * 3;
constexpr uint64_t kMnistPixels = 28 * 28;
constexpr uint64_t kExamples = 10'000;
constexpr uint64_t kSeed = 1;

std::string RandomBytes(size_t count) {
  std::mt19937_64 random(kSeed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Big endian, as IDX has its numbers.
std::string Number(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

// A folder with as many examples of each format, which goes with the process.
class Data {
 public:
  Data() : path_((std::filesystem::temp_directory_path() / "input_benchmark.XXXXXX").string()) {
    PCHECK(mkdtemp(path_.data()) != nullptr) << path_;
    Write("images", Number(0x803) + Number(kExamples) + Number(28) + Number(28) +
                        RandomBytes(kExamples * kMnistPixels));
    Write("labels", Number(0x801) + Number(kExamples) + std::string(kExamples, '\1'));
    std::string records = RandomBytes(kExamples * (kCifarPixels + 1));
    for (uint64_t i = 0; i < kExamples; ++i) records[i * (kCifarPixels + 1)] = '\1';
    Write("cifar.bin", records);
  }
  ~Data() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }

 private:
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    CHECK(file.good()) << path_ << "/" << name;
  }

  std::string path_;
};

// Batches of state.range(0) examples of the set that `text` describes, as a Prefetcher makes them.
void MakeBatches(benchmark::State& state, const std::string& text) {
  millrace::Dataset spec;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec));
  static const Data data;
  const auto dataset = worker::OpenDataset(spec, data.path(), "data.train");
  CHECK(dataset.ok()) << dataset.status();
  const worker::StepOrder order((*dataset)->size(), state.range(0), kSeed, /*shuffle=*/true);
  const worker::Augmenter augmenter(spec.augmentation(), (*dataset)->example());
  worker::Batch batch;
  uint64_t step = 0;
  for (auto _ : state) {
    CHECK((*dataset)->Read(order.Examples(step), &batch).ok());
    if (spec.has_augmentation()) augmenter.Apply(kSeed + step, &batch);
    benchmark::DoNotOptimize(batch.features[0].floats.data());
    ++step;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_Mnist(benchmark::State& state) {
  MakeBatches(state, "idx { images: 'images' labels: 'labels' }");
}
void BM_MnistNormalized(benchmark::State& state) {
  MakeBatches(state,
              "idx { images: 'images' labels: 'labels' } normalization { mean: 0.5 stddev: 0.5 }");
}
void BM_Cifar(benchmark::State& state) { MakeBatches(state, "cifar { files: 'cifar.bin' }"); }
void BM_CifarNormalized(benchmark::State& state) {
  MakeBatches(state,
              "cifar { files: 'cifar.bin' } "
              "normalization { mean: [0.5, 0.4, 0.3] stddev: [0.2, 0.2, 0.3] }");
}
void BM_CifarAugmented(benchmark::State& state) {
  MakeBatches(state,
              "cifar { files: 'cifar.bin' } "
              "augmentation { crop_padding: 4 horizontal_flip: true }");
}

// Of state.range(0) examples of state.range(1) floats.
void BM_Copy(benchmark::State& state) {
  const std::vector<float> from(state.range(0) * state.range(1), 1);
  std::vector<float> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(BM_Copy)->Args({4096, kMnistPixels})->Args({128, kCifarPixels});
BENCHMARK(BM_Mnist)->Arg(4096);
BENCHMARK(BM_MnistNormalized)->Arg(4096);
BENCHMARK(BM_Cifar)->Arg(128);
BENCHMARK(BM_CifarNormalized)->Arg(128);
BENCHMARK(BM_CifarAugmented)->Arg(128);

}  // namespace
}  // namespace millrace::testing

BENCHMARK_MAIN();
