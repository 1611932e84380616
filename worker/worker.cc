#include "worker/worker.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/membership/member_session.h"
#include "common/memory_limit.h"
#include "common/mutex.h"
#include "common/net/address.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "glog/logging.h"
#include "worker/device/cuda/library_loader.h"
#include "worker/device_loss.h"
#include "worker/input/dataset.h"
#include "worker/model/layered_model.h"
#include "worker/training/trainer.h"

namespace millrace::worker {
namespace {
// How long the coordinator may take to hear the goodbye; nothing depends on it.
constexpr absl::Duration kGoodbye = absl::Seconds(1);
// The coordinator takes no more; a worker with GPUs of many kinds would have more to say.
constexpr size_t kMaxDeviceLength = 100;

absl::Status Check(const WorkerOptions& options) {
  if (options.name.empty()) return absl::InvalidArgumentError("name: empty; a worker needs one");
  const auto address = ParseAddress(options.coordinator_address);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("coordinator: ", address.status().message()));
  }
  if (options.lease_slots < 1 || options.lease_slots > kMaxLeaseSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease_slots: ", options.lease_slots, "; must be from 1 to ", kMaxLeaseSlots));
  }
  MILLRACE_RETURN_IF_ERROR(CheckDeviceName(options.device));
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: ", options.threads, "; must be from 1 to ", kMaxThreads));
  }
  if (options.data_memory > MemoryLimit()) {
    return absl::InvalidArgumentError(absl::StrCat("data_memory: ", options.data_memory,
                                                   "; must be at most ", MemoryLimit(),
                                                   ", the memory that this worker may use"));
  }
  if (options.model_factory && !options.own_models.empty()) {
    return absl::InvalidArgumentError(
        "own_models: set, and so is model_factory, which makes the models of all jobs");
  }
  MILLRACE_RETURN_IF_ERROR(CheckOwnModels(options.own_models));
  if (options.device_timeout < kLeastDeviceTimeout || options.device_timeout > kMostDeviceTimeout) {
    return absl::InvalidArgumentError(
        absl::StrCat("device_timeout: ", absl::FormatDuration(options.device_timeout),
                     "; must be from ", absl::FormatDuration(kLeastDeviceTimeout), " to ",
                     absl::FormatDuration(kMostDeviceTimeout)));
  }
  if (options.step_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step_timeout: ", absl::FormatDuration(options.step_timeout), "; must be above 0"));
  }
  if (options.call_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "call_timeout: ", absl::FormatDuration(options.call_timeout), "; must be above 0"));
  }
  return absl::OkStatus();
}

TrainerOptions ForTrainer(const WorkerOptions& options, std::shared_ptr<Device> device) {
  TrainerOptions trainer;
  trainer.worker_name = options.name;
  trainer.clock = options.clock;
  trainer.step_timeout = options.step_timeout;
  trainer.call_timeout = options.call_timeout;
  trainer.make_model = options.model_factory;
  if (!trainer.make_model) {
    trainer.make_model = ModelsByName(options.own_models, LayeredModelFactory(std::move(device)));
  }
  trainer.open_dataset = options.open_dataset;
  if (!trainer.open_dataset) {
    trainer.open_dataset = [data_memory = options.data_memory](const millrace::Dataset& spec,
                                                               const DataDirectory& directory,
                                                               const std::string& field) {
      return OpenDataset(spec, directory, field, data_memory);
    };
  }
  trainer.make_client = options.parameter_client_factory;
  if (!trainer.make_client) trainer.make_client = ParameterClient::Create;
  return trainer;
}

MemberSessionOptions ForSession(const WorkerOptions& options, const Device& device) {
  absl::BitGen random;
  MemberMessage message;
  RegisterWorker& registration = *message.mutable_register_worker();
  registration.set_name(options.name);
  registration.set_incarnation(absl::Uniform<uint64_t>(random));
  registration.set_lease_slots(static_cast<uint32_t>(options.lease_slots));
  registration.set_device(device.description().substr(0, kMaxDeviceLength));
  registration.set_version(Version());
  MemberSessionOptions session;
  session.coordinator_address = options.coordinator_address;
  session.name = options.name;
  session.registration = [message] { return message; };
  session.clock = options.clock;
  return session;
}

// Something that is over once. Thread-safe.
class Ending {
 public:
  void Tell() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    told_ = true;
    told_cond_.SignalAll();
  }

  void Wait() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!told_) told_cond_.Wait(&mutex_);
  }

  // False: it is not within `patience`.
  bool WaitFor(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!told_ && !told_cond_.WaitWithTimeout(&mutex_, patience)) {
    }
    return told_;
  }

 private:
  Mutex mutex_;
  CondVar told_cond_;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
};

class WorkerImpl final : public Worker, private MemberListener {
 public:
  // `loss` is told of the device's.
  WorkerImpl(const WorkerOptions& options, std::shared_ptr<Device> device,
             std::shared_ptr<DeviceLoss> loss)
      : loss_(std::move(loss)),
        device_(device),
        last_calls_(options.last_calls),
        on_welcomed_(options.on_welcomed),
        clock_(options.clock),
        session_(ForSession(options, *device), this),
        trainer_(ForTrainer(options, std::move(device)),
                 [this](MemberMessage m) { session_.Send(std::move(m)); }),
        stops_([this] {
          stop_asked_.Wait();
          StopNow();
        }),
        leaves_without_device_([this] {
          if (loss_->Wait()) LeaveWithoutDevice();
        }) {
    session_.Start();
  }

  ~WorkerImpl() override {
    Stop();
    loss_->Close();
    leaves_without_device_.join();
    stops_.join();
  }

  void Stop() override {
    stop_asked_.Tell();
    stopped_.Wait();
  }

  bool hangs() const override { return hangs_; }

  absl::Status Wait() override {
    absl::Status end = session_.Wait();
    const absl::Status why = loss_->why();
    if (!why.ok()) stopped_.Wait();  // For `last_calls` at most, and it is known whether it hangs.
    end.Update(why);
    return end;
  }

 private:
  void StopNow() {
    MemberMessage draining;
    draining.mutable_draining();
    session_.Send(std::move(draining));
    trainer_.Stop();
    session_.Leave(kGoodbye);
    if (!loss_->why().ok() && !device_->AwaitCalls(last_calls_)) LeaveThreads();
    stopped_.Tell();
  }

  // Steps that wait for the device end by themselves, but calls of it may never return.
  void LeaveWithoutDevice() {
    LOG(ERROR) << "a worker leaves, since its device is lost: " << loss_->why().message();
    stop_asked_.Tell();
    if (stopped_.WaitFor(last_calls_)) return;
    LeaveThreads();
    session_.Leave(kGoodbye);
    stopped_.Tell();
  }

  void LeaveThreads() {
    if (hangs_.exchange(true)) return;
    LOG(ERROR) << "a worker leaves without its threads, since calls of its device do not return";
  }

  void Welcomed() override {
    trainer_.DropWork();
    if (on_welcomed_) on_welcomed_();
  }
  void Received(CoordinatorMessage message) override { trainer_.Handle(message); }
  void FillHeartbeat(Heartbeat& heartbeat) override {
    for (Activity& activity : trainer_.Activities()) {
      *heartbeat.add_activities() = std::move(activity);
    }
    FillDeviceUse(heartbeat);
  }
  void FillDeviceUse(Heartbeat& heartbeat) {
    const DeviceMeter* const meter = device_->meter();
    if (meter == nullptr || meter->memory() == 0) return;
    const absl::Time now = clock_->Now();
    const absl::Duration busy = meter->busy();
    DeviceUse& use = *heartbeat.mutable_device_use();
    use.set_memory(meter->memory());
    use.set_memory_used(meter->memory_used());
    const double share = absl::FDivDuration(busy - std::exchange(busy_then_, busy),
                                            now - std::exchange(metered_at_, now));
    use.set_busy(std::clamp(share, 0.0, 1.0));
  }
  // A step that is done stays done, and a worker that is to stop still is.
  bool OutlivesItsStream(const MemberMessage& message) override {
    return message.has_step_result() || message.has_draining();
  }

  // In this order: the trainer's threads send until they have ended, and once the session has ended
  // (Stop sees to it) it does not call any more.
  const std::shared_ptr<DeviceLoss> loss_;
  const std::shared_ptr<Device> device_;
  const absl::Duration last_calls_;
  const std::function<void()> on_welcomed_;
  Clock* const clock_;
  // At the last heartbeat; the session's thread alone uses them.
  absl::Time metered_at_ = absl::InfinitePast();
  absl::Duration busy_then_;
  MemberSession session_;
  Trainer trainer_;
  Ending stop_asked_;
  Ending stopped_;
  std::atomic<bool> hangs_{false};
  std::thread stops_;  // From the start: by then the system may have none left.
  std::thread leaves_without_device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options) {
  MILLRACE_RETURN_IF_ERROR(Check(options));
  // A factory of the user's own has no use for a GPU of ours.
  DeviceOptions on;
  on.name = options.model_factory ? "cpu" : options.device;
  on.threads = options.threads;
  on.deterministic = options.deterministic;
  on.timeout = options.device_timeout;
  on.shared_gpus = options.shared_gpus;
  const auto loss = std::make_shared<DeviceLoss>();
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                            OpenDevice(
                                on, [loss](const absl::Status& why) { loss->Tell(why); },
                                options.load_cuda ? options.load_cuda : LoadCudaLibrary));
  return std::make_unique<WorkerImpl>(options, std::move(device), loss);
}

}  // namespace millrace::worker
