#include "worker/worker.h"

#include <mutex>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/net/address.h"
#include "common/status_macros.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/model/layered_model.h"
#include "worker/session/session.h"
#include "worker/training/trainer.h"

namespace millrace::worker {
namespace {

constexpr int kMaxLeaseSlots = 64;

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
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: ", options.threads, "; must be at least 1"));
  }
  if (options.step_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step_timeout: ", absl::FormatDuration(options.step_timeout), "; must be above 0"));
  }
  return absl::OkStatus();
}

TrainerOptions ForTrainer(const WorkerOptions& options) {
  TrainerOptions trainer;
  trainer.worker_name = options.name;
  trainer.clock = options.clock;
  trainer.step_timeout = options.step_timeout;
  trainer.make_model = options.model_factory;
  if (!trainer.make_model) {
    trainer.make_model = LayeredModelFactory(std::make_shared<CpuDevice>(options.threads));
  }
  trainer.open_dataset = options.open_dataset;
  if (!trainer.open_dataset) trainer.open_dataset = OpenDataset;
  trainer.make_client = options.parameter_client_factory;
  if (!trainer.make_client) trainer.make_client = ParameterClient::Create;
  return trainer;
}

SessionOptions ForSession(const WorkerOptions& options) {
  SessionOptions session;
  session.coordinator_address = options.coordinator_address;
  session.clock = options.clock;
  absl::BitGen random;
  session.registration.set_name(options.name);
  session.registration.set_incarnation(absl::Uniform<uint64_t>(random));
  session.registration.set_lease_slots(static_cast<uint32_t>(options.lease_slots));
  session.registration.set_device(options.device);
  return session;
}

class WorkerImpl final : public Worker, private SessionListener {
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

  // In this order: the trainer's threads send until they have ended, and once the session has ended
  // (Stop sees to it) it does not call any more.
  Session session_;
  Trainer trainer_;
  std::once_flag stop_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options) {
  MILLRACE_RETURN_IF_ERROR(Check(options));
  return std::make_unique<WorkerImpl>(options);
}

}  // namespace millrace::worker
