// What a checkpoint costs: two clients train a synchronous shard on a ps server while it writes a
// cut and copies it to a checkpoint. Pushes, throughput and the server's memory beside the same of
// the same run without them, and the speed of the checkpoint's files beside that of a plain file
// with fsync, written under the same load.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/net/channel.h"
#include "common/status_macros.h"
#include "grpcpp/client_context.h"
#include "protos/parameter_server.grpc.pb.h"
#include "testing/benchmarks/wire_measurement.h"
#include "testing/benchmarks/wire_server.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::testing {
namespace {

constexpr char kJob[] = "checkpoint";
constexpr uint32_t kTrainers = 2;
constexpr uint64_t kManySteps = uint64_t{1} << 40;
constexpr absl::Duration kPatience = absl::Minutes(10);
constexpr int kArrays = 3;  // Adam: values and two slots.
constexpr size_t kBytesAtOnce = 1 << 20;

struct Options {
  int mebibytes = 2048;  // Of a checkpoint.
  int runs = 3;
  int seconds = 20;      // Without a checkpoint, in each run.
  std::string data_dir;  // Below it, directories that are removed.
  std::string arena = "/dev/shm";

  uint64_t elements() const {
    return (static_cast<uint64_t>(mebibytes) << 20) / sizeof(float) / kArrays;
  }
};

// What the trainers did in a stretch of time.
struct Stretch {
  double seconds = 0;
  std::vector<double> pushes;  // How long each took, of those that ended in it.

  double Rate() const { return static_cast<double>(pushes.size()) / seconds; }
  double Quantile(double q) const {
    if (pushes.empty()) return 0;
    std::vector<double> sorted = pushes;
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1, static_cast<size_t>(q * sorted.size()))];
  }
};

// Each computes nothing: it pulls a version and pushes its contribution to the next one.
class Trainers {
 public:
  Trainers(const Options& options, const std::string& address)
      : elements_(options.elements()),
        gradient_(std::make_shared<const std::vector<float>>(elements_, 0.5f)) {
    for (uint32_t i = 0; i < kTrainers; ++i) {
      threads_.emplace_back([this, i, address] { Note(Train(i, address)); });
    }
  }
  // One may wait for a version that lacks the other's step, which does not come any more.
  ~Trainers() {
    stopping_ = true;
    {
      MutexLock lock(&mutex_);
      for (const auto& client : clients_) client->Cancel();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  // Runs `work` and returns what was done meanwhile.
  absl::StatusOr<Stretch> During(const std::function<absl::Status()>& work) {
    {
      MutexLock lock(&mutex_);
      pushes_.clear();
    }
    const absl::Time begin = absl::Now();
    MILLRACE_RETURN_IF_ERROR(work());
    Stretch stretch;
    MutexLock lock(&mutex_);
    MILLRACE_RETURN_IF_ERROR(status_);
    stretch.seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    stretch.pushes = pushes_;
    return stretch;
  }

 private:
  void Note(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    status_.Update(status);
  }

  absl::Status Train(uint32_t index, const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_) {
    Routing routing;
    routing.set_generation(1);
    ShardRoute& shard = *routing.add_shards();
    shard.set_server("ps");
    shard.set_address(address);
    shard.add_slices()->set_length(elements_);
    MILLRACE_ASSIGN_OR_RETURN(auto created,
                              worker::ParameterClient::Create(kJob, {elements_}, routing, {}));
    worker::ParameterClient* const client = created.get();
    {
      MutexLock lock(&mutex_);
      clients_.push_back(std::move(created));
    }
    std::vector<float> values(elements_);
    const absl::Span<float> span = absl::MakeSpan(values);
    for (uint64_t version = 0; !stopping_; ++version) {
      worker::ParameterClient::PullOptions pull;
      pull.version = version;
      pull.deadline = absl::Now() + kPatience;
      MILLRACE_RETURN_IF_ERROR(client->Pull(pull, {span}));
      const absl::Time begin = absl::Now();
      const auto push = client->StartPush(version * kTrainers + index, /*examples=*/1);
      push->Add(0, *gradient_, gradient_);
      push->Commit();
      MILLRACE_RETURN_IF_ERROR(push->Wait(absl::Now() + kPatience));
      MutexLock lock(&mutex_);
      pushes_.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
    }
    return absl::OkStatus();
  }

  const uint64_t elements_;
  const std::shared_ptr<const std::vector<float>> gradient_;
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  std::vector<double> pushes_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<worker::ParameterClient>> clients_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // The last member: they use the others.
};

template <typename Request, typename Response>
using Method = grpc::Status (ParameterServerAdmin::Stub::*)(grpc::ClientContext*, const Request&,
                                                            Response*);

template <typename Request, typename Response>
absl::StatusOr<Response> Call(ParameterServerAdmin::Stub& stub, Method<Request, Response> method,
                              Request request) {
  request.set_job_id(kJob);
  request.set_generation(1);
  grpc::ClientContext context;
  Response response;
  MILLRACE_RETURN_IF_ERROR(FromGrpcStatus((stub.*method)(&context, request, &response)));
  return response;
}

absl::Status CreateShard(const Options& options, ParameterServerAdmin::Stub& stub) {
  CreateShardRequest request;
  request.set_generation(1);
  ShardSpec& spec = *request.mutable_spec();
  spec.set_job_id(kJob);
  spec.set_total_steps(kManySteps);
  spec.set_replicas(kTrainers);
  spec.mutable_optimizer()->mutable_adam();
  ShardSlice& slice = *spec.add_slices();
  slice.set_variable_name("variable");
  slice.mutable_initial_value()->set_constant(1);
  slice.mutable_slice()->set_length(options.elements());
  grpc::ClientContext context;
  ShardStatus status;
  return FromGrpcStatus(stub.CreateShard(&context, request, &status));
}

// A cut of a version soon to come, as soon as it is in the database.
absl::StatusOr<CutName> TakeCut(ParameterServerAdmin::Stub& stub, const CutName& common) {
  PlanCutsRequest request;
  *request.mutable_common() = common;
  MILLRACE_ASSIGN_OR_RETURN(ShardStatus status,
                            Call(stub, &ParameterServerAdmin::Stub::PlanCuts, request));
  request.set_also_at(status.version() + 2);
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    MILLRACE_ASSIGN_OR_RETURN(status, Call(stub, &ParameterServerAdmin::Stub::PlanCuts, request));
    for (const CutName& cut : status.cuts()) {
      if (cut.version() == request.also_at()) return cut;
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  return absl::DeadlineExceededError("the ps server writes no cut");
}

absl::Status WriteCheckpoint(ParameterServerAdmin::Stub& stub, const std::string& directory,
                             const CutName& cut, WriteCheckpointResponse* response) {
  std::filesystem::create_directories(directory + "/000001");
  WriteCheckpointRequest request;
  request.set_directory(directory);
  request.set_checkpoint(1);
  *request.mutable_cut() = cut;
  MILLRACE_ASSIGN_OR_RETURN(*response,
                            Call(stub, &ParameterServerAdmin::Stub::WriteCheckpoint, request));
  return absl::OkStatus();
}

absl::Status WritePlainFile(const std::string& path, uint64_t bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path));
  const std::vector<char> buffer(kBytesAtOnce, 'x');
  absl::Status status;
  for (uint64_t done = 0; done < bytes && status.ok(); done += buffer.size()) {
    if (write(file, buffer.data(), buffer.size()) < 0) {
      status = absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
    }
  }
  if (fsync(file) != 0) status.Update(absl::ErrnoToStatus(errno, absl::StrCat("fsync ", path)));
  close(file);
  return status;
}

// What the process has in memory now, its part of files in memory among it.
double ResidentMebibytes(int process) {
  std::ifstream status(absl::StrCat("/proc/", process, "/status"));
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == "VmRSS:" && status >> kibibytes) return kibibytes / 1024;
  }
  return 0;
}

// The most that it has while this lives.
class PeakMemory {
 public:
  explicit PeakMemory(int process)
      : thread_([this, process] {
          while (!stopping_) {
            peak_ = std::max(peak_.load(), ResidentMebibytes(process));
            absl::SleepFor(absl::Milliseconds(10));
          }
        }) {}
  ~PeakMemory() {
    stopping_ = true;
    thread_.join();
  }
  double mebibytes() const { return peak_; }

 private:
  std::atomic<bool> stopping_{false};
  std::atomic<double> peak_{0};
  std::thread thread_;
};

// Rates are of all runs together: one has few pushes.
struct Total {
  double seconds = 0;
  double pushes = 0;

  void Add(const Stretch& stretch) {
    seconds += stretch.seconds;
    pushes += static_cast<double>(stretch.pushes.size());
  }
  double Rate() const { return pushes / seconds; }
};

struct Figures {
  Total calm, busy, beside_plain;
  std::vector<double> p50, p99, write_speed, extra;
};

absl::Status MeasureOnce(const Options& options, WireServerProcess& server,
                         ParameterServerAdmin::Stub& stub, Trainers& trainers,
                         const std::string& directory, CutName* common, Figures* figures) {
  double calm_memory = 0;
  MILLRACE_ASSIGN_OR_RETURN(const Stretch calm, trainers.During([&] {
    const PeakMemory memory(server.process());
    absl::SleepFor(absl::Seconds(options.seconds));
    calm_memory = memory.mebibytes();
    return absl::OkStatus();
  }));
  WriteCheckpointResponse response;
  double busy_memory = 0;
  double writing_seconds = 0;
  MILLRACE_ASSIGN_OR_RETURN(const Stretch busy, trainers.During([&]() -> absl::Status {
    const PeakMemory memory(server.process());
    MILLRACE_ASSIGN_OR_RETURN(*common, TakeCut(stub, *common));
    const absl::Time start = absl::Now();
    MILLRACE_RETURN_IF_ERROR(WriteCheckpoint(stub, directory, *common, &response));
    writing_seconds = absl::ToDoubleSeconds(absl::Now() - start);
    busy_memory = memory.mebibytes();
    return absl::OkStatus();
  }));
  const std::string plain = directory + "/plain";
  const uint64_t bytes = response.shard().bytes_written();
  MILLRACE_ASSIGN_OR_RETURN(const Stretch plainly,
                            trainers.During([&] { return WritePlainFile(plain, bytes); }));
  std::filesystem::remove_all(directory);
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  absl::PrintF("calm: %.2f pushes/s, p50 %.3f s, p99 %.3f s; writing: %.2f, %.3f, %.3f\n",
               calm.Rate(), calm.Quantile(0.5), calm.Quantile(0.99), busy.Rate(),
               busy.Quantile(0.5), busy.Quantile(0.99));
  absl::PrintF(
      "  cut %.2f s; %.0f MiB in %.2f s (plain file: %.2f s), memory %.0f -> %.0f MiB "
      "(says %.1f)\n",
      busy.seconds - writing_seconds, mebibytes, writing_seconds, plainly.seconds, calm_memory,
      busy_memory, static_cast<double>(response.extra_memory()) / (1 << 20));
  figures->calm.Add(calm);
  figures->busy.Add(busy);
  figures->beside_plain.Add(plainly);
  figures->p50.push_back(busy.Quantile(0.5) / calm.Quantile(0.5));
  figures->p99.push_back(busy.Quantile(0.99) / calm.Quantile(0.99));
  figures->write_speed.push_back(plainly.seconds / writing_seconds);
  figures->extra.push_back((busy_memory - calm_memory) / mebibytes);
  return absl::OkStatus();
}

absl::Status Measure(const Options& options, const std::string& root) {
  MILLRACE_ASSIGN_OR_RETURN(const auto server,
                            WireServerProcess::Start({absl::StrCat("--data_dir=", root, "/ps"),
                                                      absl::StrCat("--arena=", options.arena)}));
  const auto stub = ParameterServerAdmin::NewStub(CreateChannel(server->addresses().ps));
  MILLRACE_RETURN_IF_ERROR(CreateShard(options, *stub));
  Trainers trainers(options, server->addresses().ps);
  Figures figures;
  // As in any job a while after its start: there was a cut, for whose time memory had been needed.
  MILLRACE_ASSIGN_OR_RETURN(CutName common, TakeCut(*stub, {}));
  for (int run = 0; run < options.runs; ++run) {
    MILLRACE_RETURN_IF_ERROR(
        MeasureOnce(options, *server, *stub, trainers, root + "/checkpoints", &common, &figures));
  }
  absl::PrintF("throughput while writing  %.2f of that without\n",
               figures.busy.Rate() / figures.calm.Rate());
  absl::PrintF("throughput beside a plain file that is written  %.2f\n",
               figures.beside_plain.Rate() / figures.calm.Rate());
  absl::PrintF("p50 of pushes             %.2f times that without\n", Median(figures.p50));
  absl::PrintF("p99 of pushes             %.2f times that without\n", Median(figures.p99));
  absl::PrintF("speed of writing          %.2f of a plain file with fsync\n",
               Median(figures.write_speed));
  absl::PrintF("extra memory              %.3f of the shard\n", Median(figures.extra));
  return absl::OkStatus();
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "checkpoint_benchmark: %s\n", status.ToString());
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures what a checkpoint costs those who train meanwhile.");
  Options options;
  options.data_dir = std::filesystem::temp_directory_path().string();
  bool serve = false;
  app.add_option("--size_mib", options.mebibytes, "Size of a checkpoint")
      ->check(CLI::Range(4, 1 << 20));
  app.add_option("--runs", options.runs, "Checkpoints")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "Before each one")->check(CLI::Range(1, 3600));
  app.add_option("--data_dir", options.data_dir, "Where all is written, in directories of its own");
  app.add_option("--arena", options.arena, "Where the server's memory is");
  app.add_flag("--serve", serve, "Be the server process (started by the other one)");
  CLI11_PARSE(app, argc, argv);
  if (serve) return Report(ServeWire({.data_dir = options.data_dir, .arena = options.arena}));
  const std::string root = options.data_dir + "/checkpoint_benchmark.data";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  const absl::Status status = Measure(options, root);
  std::filesystem::remove_all(root);
  return Report(status);
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) {
  millrace::ConfigureGrpcEnvironment();
  return millrace::testing::Main(argc, argv);
}
