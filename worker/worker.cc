#include "worker/worker.h"

#include <mutex>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/membership/member_session.h"
#include "common/memory_limit.h"
#include "common/net/address.h"
#include "common/status_macros.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/input/dataset.h"
#include "worker/model/layered_model.h"
#include "worker/training/trainer.h"

namespace millrace::worker {
namespace {
// How long the coordinator may take to hear the goodbye; nothing depends on it.
constexpr absl::Duration kGoodbye = absl::Seconds(1);

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
  if (options.device != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("device: '", options.device, "'; this binary has 'cpu'"));
  }
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

TrainerOptions ForTrainer(const WorkerOptions& options) {
  TrainerOptions trainer;
  trainer.worker_name = options.name;
  trainer.clock = options.clock;
  trainer.step_timeout = options.step_timeout;
  trainer.call_timeout = options.call_timeout;
  trainer.make_model = options.model_factory;
  if (!trainer.make_model) {
    trainer.make_model = ModelsByName(
        options.own_models, LayeredModelFactory(std::make_shared<CpuDevice>(options.threads)));
  }
  trainer.open_dataset = options.open_dataset;
  if (!trainer.open_dataset) {
    trainer.open_dataset = [data_memory = options.data_memory](const millrace::Dataset& spec,
                                                               const std::string& directory,
                                                               const std::string& field) {
      return OpenDataset(spec, directory, field, data_memory);
    };
  }
  trainer.make_client = options.parameter_client_factory;
  if (!trainer.make_client) trainer.make_client = ParameterClient::Create;
  return trainer;
}

MemberSessionOptions ForSession(const WorkerOptions& options) {
  absl::BitGen random;
  MemberMessage message;
  RegisterWorker& registration = *message.mutable_register_worker();
  registration.set_name(options.name);
  registration.set_incarnation(absl::Uniform<uint64_t>(random));
  registration.set_lease_slots(static_cast<uint32_t>(options.lease_slots));
  registration.set_device(absl::StrCat(options.device, "/", options.threads));
  MemberSessionOptions session;
  session.coordinator_address = options.coordinator_address;
  session.name = options.name;
  session.registration = [message] { return message; };
  session.clock = options.clock;
  return session;
}

class WorkerImpl final : public Worker, private MemberListener {
 public:
  explicit WorkerImpl(const WorkerOptions& options)
      : session_(ForSession(options), this),
        trainer_(ForTrainer(options), [this](MemberMessage m) { session_.Send(std::move(m)); }) {
    session_.Start();
  }

  ~WorkerImpl() override { Stop(); }

  void Stop() override {
    std::call_once(stop_, [this] {
      MemberMessage draining;
      draining.mutable_draining();
      session_.Send(std::move(draining));
      trainer_.Stop();
      session_.Leave(kGoodbye);
    });
  }

  absl::Status Wait() override { return session_.Wait(); }

 private:
  void Welcomed() override { trainer_.DropWork(); }
  void Received(CoordinatorMessage message) override { trainer_.Handle(message); }
  void FillHeartbeat(Heartbeat& heartbeat) override {
    for (Activity& activity : trainer_.Activities()) {
      *heartbeat.add_activities() = std::move(activity);
    }
  }
  // A step that is done stays done, and a worker that is to stop still is.
  bool OutlivesItsStream(const MemberMessage& message) override {
    return message.has_step_result() || message.has_draining();
  }

  // In this order: the trainer's threads send until they have ended, and once the session has ended
  // (Stop sees to it) it does not call any more.
  MemberSession session_;
  Trainer trainer_;
  std::once_flag stop_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options) {
  MILLRACE_RETURN_IF_ERROR(Check(options));
  return std::make_unique<WorkerImpl>(options);
}

}  // namespace millrace::worker
