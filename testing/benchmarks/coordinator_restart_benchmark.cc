// Measures how soon a coordinator that was killed hands out steps again: real processes of the
// coordinator and of two ps servers, and many members with real sessions that take leases and hold
// them.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/membership/member_session.h"
#include "common/mutex.h"
#include "common/net/channel.h"
#include "glog/logging.h"
#include "protos/job.grpc.pb.h"
#include "testing/benchmarks/cluster_process.h"

namespace millrace::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);

// What has come to all members since the last Reset. Thread-safe.
class Tally {
 public:
  void Reset() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    welcomes_ = leases_ = 0;
  }
  void AddWelcome() ABSL_LOCKS_EXCLUDED(mutex_) { Add(&welcomes_); }
  void AddLease() ABSL_LOCKS_EXCLUDED(mutex_) { Add(&leases_); }
  void AwaitWelcomes(int count) ABSL_LOCKS_EXCLUDED(mutex_) { Await(welcomes_, count); }
  void AwaitLeases(int count) ABSL_LOCKS_EXCLUDED(mutex_) { Await(leases_, count); }

 private:
  void Add(int* number) {
    MutexLock lock(&mutex_);
    ++*number;
    changed_.SignalAll();
  }
  void Await(const int& number, int count) {
    const absl::Time deadline = Clock::Real()->Now() + kPatience;
    MutexLock lock(&mutex_);
    while (number < count) {
      CHECK(!Clock::Real()->WaitUntil(&changed_, &mutex_, deadline))
          << "only " << number << " of " << count << " have come";
    }
  }

  Mutex mutex_;
  CondVar changed_;
  int welcomes_ = 0;
  int leases_ = 0;
};

// A worker that says yes to everything and computes nothing.
class IdleWorker final : public MemberListener {
 public:
  IdleWorker(const std::string& coordinator, int number, Tally* tally)
      : name_(absl::StrCat("worker-", number)), tally_(tally) {
    MemberSessionOptions options;
    options.coordinator_address = coordinator;
    options.name = name_;
    options.registration = [this] {
      MemberMessage message;
      message.mutable_register_worker()->set_name(name_);
      message.mutable_register_worker()->set_incarnation(1);
      message.mutable_register_worker()->set_lease_slots(1);
      return message;
    };
    session_ = std::make_unique<MemberSession>(options, this);
    session_->Start();
  }

  void Welcomed() override { tally_->AddWelcome(); }

  void Received(CoordinatorMessage message) override {
    MemberMessage answer;
    if (message.has_plan_job()) {
      answer.mutable_plan_result()->set_request_id(message.plan_job().request_id());
      JobPlan& plan = *answer.mutable_plan_result()->mutable_plan();
      plan.set_train_examples(1000);
      VariableSpec& variable = *plan.add_variables();
      variable.set_name("v");
      variable.add_shape(1000);
      variable.mutable_initial_value()->set_constant(0);
    } else if (message.has_set_route()) {
      answer.mutable_job_prepared()->set_job_id(message.set_route().job_id());
    } else if (message.has_lease()) {
      return tally_->AddLease();
    } else {
      return;
    }
    session_->Send(std::move(answer));
  }

 private:
  const std::string name_;
  Tally* const tally_;
  std::unique_ptr<MemberSession> session_;  // Last: it calls this object.
};

JobSpec LongJob() {
  JobSpec spec;
  spec.set_name("restart");
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(1);
  spec.mutable_model()->set_loss(BINARY_CROSSENTROPY);
  LibsvmFile& train = *spec.mutable_data()->mutable_train()->mutable_libsvm();
  train.set_file("train");
  train.set_features(3);
  spec.mutable_data()->set_directory("/data");
  spec.mutable_optimizer()->mutable_sgd();
  spec.mutable_asynchronous()->set_staleness_bound(100000);
  spec.set_batch_size(1);
  spec.set_steps(1000000);
  return spec;
}

void Submit(const std::string& coordinator) {
  const auto jobs = Jobs::NewStub(CreateChannel(coordinator));
  grpc::ClientContext context;
  context.set_deadline(SystemDeadline(kPatience));
  SubmitJobRequest request;
  *request.mutable_spec() = LongJob();
  SubmitJobResponse response;
  const grpc::Status status = jobs->SubmitJob(&context, request, &response);
  CHECK(status.ok()) << status.error_message();
}

struct Options {
  std::string coordinator;
  std::string ps;
  int members = 100;
  int runs = 5;
  double away_seconds = 3;
};

void Measure(const Options& options) {
  constexpr int kServers = 2;
  const std::string directory = FreshDirectory("restart-benchmark");
  const std::string address = FreeLoopbackAddress();
  const auto start = [&] {
    return std::make_unique<ClusterProcess>(
        std::vector<std::string>{options.coordinator, "--listen=" + address,
                                 "--data_dir=" + directory + "/coordinator", "--min_ps=2"});
  };
  auto coordinator = start();
  std::vector<std::unique_ptr<ClusterProcess>> servers;
  for (int i = 0; i < kServers; ++i) {
    servers.push_back(std::make_unique<ClusterProcess>(std::vector<std::string>{
        options.ps, "--coordinator=" + address, "--listen=127.0.0.1:0",
        absl::StrCat("--name=ps-", i), absl::StrCat("--data_dir=", directory, "/ps-", i)}));
  }
  Tally tally;
  const int count = options.members - kServers;
  std::vector<std::unique_ptr<IdleWorker>> workers;
  for (int i = 0; i < count; ++i) {
    workers.push_back(std::make_unique<IdleWorker>(address, i, &tally));
  }
  tally.AwaitWelcomes(count);
  Submit(address);
  tally.AwaitLeases(count);
  absl::PrintF("%d members, killed and %.1f s away; from its start until:\n", options.members,
               options.away_seconds);
  absl::PrintF("%16s %16s %16s\n", "the first step", "all workers back", "all have steps");
  for (int run = 0; run < options.runs; ++run) {
    coordinator.reset();
    tally.Reset();
    absl::SleepFor(absl::Seconds(options.away_seconds));
    const absl::Time begin = Clock::Real()->Now();
    const auto elapsed = [&] { return absl::ToDoubleSeconds(Clock::Real()->Now() - begin); };
    coordinator = start();
    tally.AwaitLeases(1);
    const double first = elapsed();
    tally.AwaitWelcomes(count);
    const double back = elapsed();
    tally.AwaitLeases(count);
    absl::PrintF("%14.3f s %14.3f s %14.3f s\n", first, back, elapsed());
    std::fflush(stdout);
  }
  workers.clear();
  servers.clear();
  coordinator.reset();
  std::filesystem::remove_all(directory);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures how soon a coordinator that was killed hands out steps again.");
  Options options;
  app.add_option("coordinator", options.coordinator, "The coordinator binary")->required();
  app.add_option("ps", options.ps, "The ps binary")->required();
  app.add_option("--members", options.members, "Workers and the two ps servers")
      ->check(CLI::Range(3, 10000));
  app.add_option("--runs", options.runs, "Kills")->check(CLI::Range(1, 1000));
  app.add_option("--away", options.away_seconds, "Seconds between a kill and the next start")
      ->check(CLI::Range(0.0, 600.0));
  CLI11_PARSE(app, argc, argv);
  Measure(options);
  return 0;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) {
  millrace::ConfigureGrpcEnvironment();
  google::InitGoogleLogging(argv[0]);
  return millrace::testing::Main(argc, argv);
}
