#include "coordinator/testing/fake_cluster.h"

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "glog/logging.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(60);

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(SystemDeadline(kCallTimeout));
}

std::string FreshDirectory() {
  static int count = 0;
  std::string directory = absl::StrCat(testing::TempDir(), "/coordinator-", getpid(), "-", ++count);
  std::filesystem::remove_all(directory);
  return directory;
}

}  // namespace

JobSpec PlainJob(uint64_t steps) {
  JobSpec spec;
  spec.set_name("plain");
  LayerSpec& layer = *spec.mutable_model()->add_layers();
  layer.mutable_dense()->set_units(1);
  spec.mutable_model()->set_loss(BINARY_CROSSENTROPY);
  LibsvmFile& train = *spec.mutable_data()->mutable_train()->mutable_libsvm();
  train.set_file("train");
  train.set_features(3);
  spec.mutable_data()->set_directory("/data");
  spec.mutable_optimizer()->mutable_sgd();
  spec.set_batch_size(1);
  spec.set_steps(steps);
  return spec;
}

JobSpec EvaluatedJob(uint64_t steps, uint64_t every) {
  JobSpec spec = PlainJob(steps);
  *spec.mutable_data()->mutable_evaluate() = spec.data().train();
  spec.mutable_evaluation()->set_every_steps(every);
  return spec;
}

FakeCluster::FakeCluster(int ps, const CoordinatorOptions& options) : options_(options) {
  options_.data_dir = FreshDirectory();
  options_.heartbeat_period = absl::Hours(1);
  options_.min_ps = ps;
  for (int i = 0; i < ps; ++i) ps_.push_back(std::make_unique<FakePs>(absl::StrCat("ps-", i)));
  StartCoordinator();
}

FakeCluster::~FakeCluster() {
  workers_.clear();
  StopCoordinator();
  ps_.clear();
}

void FakeCluster::StartPs() {
  for (const auto& ps : ps_) ps->Start(address());
}

FakeWorker& FakeCluster::AddWorker(FakeWorkerScript script) {
  workers_.push_back(std::make_unique<FakeWorker>(absl::StrCat("worker-", workers_.size()),
                                                  servers(), std::move(script)));
  workers_.back()->Join(address());
  return *workers_.back();
}

void FakeCluster::StopCoordinator() {
  if (coordinator_ != nullptr) coordinator_->Stop();
  coordinator_.reset();
}

void FakeCluster::StopCoordinatorInOrder() {
  coordinator_->StopInOrder();
  coordinator_.reset();
}

void FakeCluster::StartCoordinator() {
  auto coordinator = Coordinator::Start(options_);
  CHECK(coordinator.ok()) << coordinator.status();
  coordinator_ = *std::move(coordinator);
  jobs_ = Jobs::NewStub(CreateChannel(address()));
}

FakePsList FakeCluster::servers() const {
  FakePsList servers;
  for (const auto& ps : ps_) servers.push_back(ps.get());
  return servers;
}

absl::StatusOr<std::string> FakeCluster::Submit(const JobSpec& spec,
                                                const std::string& request_id) {
  grpc::ClientContext context;
  SetDeadline(context);
  SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  SubmitJobResponse response;
  const grpc::Status status = jobs_->SubmitJob(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response.job_id();
}

absl::StatusOr<JobStatus> FakeCluster::Get(const std::string& job_id) {
  grpc::ClientContext context;
  SetDeadline(context);
  GetJobRequest request;
  request.set_job_id(job_id);
  JobStatus response;
  const grpc::Status status = jobs_->GetJob(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

std::vector<JobStatus> FakeCluster::List() {
  grpc::ClientContext context;
  SetDeadline(context);
  ListJobsResponse response;
  EXPECT_TRUE(jobs_->ListJobs(&context, ListJobsRequest(), &response).ok());
  return {response.jobs().begin(), response.jobs().end()};
}

absl::StatusOr<JobStatus> FakeCluster::Cancel(const std::string& job_id) {
  grpc::ClientContext context;
  SetDeadline(context);
  CancelJobRequest request;
  request.set_job_id(job_id);
  JobStatus response;
  const grpc::Status status = jobs_->CancelJob(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

absl::StatusOr<CheckpointInfo> FakeCluster::Checkpoint(const std::string& job_id, bool wait) {
  grpc::ClientContext context;
  SetDeadline(context);
  CheckpointJobRequest request;
  request.set_job_id(job_id);
  request.set_wait(wait);
  CheckpointJobResponse response;
  const grpc::Status status = jobs_->CheckpointJob(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response.checkpoint();
}

absl::StatusOr<JobExplanation> FakeCluster::Explain(const std::string& job_id) {
  grpc::ClientContext context;
  SetDeadline(context);
  ExplainJobRequest request;
  request.set_job_id(job_id);
  JobExplanation response;
  const grpc::Status status = jobs_->ExplainJob(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

JobExplanation FakeCluster::AwaitVerdict(const std::string& job_id, const std::string& text) {
  // Sooner than a gate ends the test: this says more.
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(30);
  for (;;) {
    JobExplanation told = Explain(job_id).value();
    if (absl::StrContains(told.verdict(), text)) return told;
    if (Clock::Real()->Now() < deadline) continue;
    ADD_FAILURE() << "not: " << text << ", but: " << told.DebugString();
    return told;
  }
}

absl::StatusOr<GetVariablesResponse> FakeCluster::Variables(const std::string& job_id) {
  grpc::ClientContext context;
  SetDeadline(context);
  GetVariablesRequest request;
  request.set_job_id(job_id);
  GetVariablesResponse response;
  const grpc::Status status = jobs_->GetVariables(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

absl::StatusOr<EvacuatePsResponse> FakeCluster::Evacuate(const std::string& ps_server, bool undo) {
  grpc::ClientContext context;
  SetDeadline(context);
  EvacuatePsRequest request;
  request.set_ps_server(ps_server);
  request.set_undo(undo);
  EvacuatePsResponse response;
  const grpc::Status status = jobs_->EvacuatePs(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

absl::StatusOr<RebalanceJobResponse> FakeCluster::Rebalance(const std::string& job_id) {
  grpc::ClientContext context;
  SetDeadline(context);
  RebalanceJobRequest request;
  request.set_job_id(job_id);
  RebalanceJobResponse response;
  const grpc::Status status = jobs_->RebalanceJob(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

absl::StatusOr<std::vector<JobEvent>> FakeCluster::Watch(
    const std::string& job_id, uint64_t after_sequence,
    const std::function<bool(const JobEvent&)>& enough) {
  grpc::ClientContext context;
  SetDeadline(context);
  WatchJobRequest request;
  request.set_job_id(job_id);
  request.set_after_sequence(after_sequence);
  auto reader = jobs_->WatchJob(&context, request);
  std::vector<JobEvent> events;
  JobEvent event;
  while (reader->Read(&event)) {
    events.push_back(event);
    if (!enough(event)) continue;
    context.TryCancel();
    while (reader->Read(&event)) {
    }
    reader->Finish().ok();
    return events;
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpcStatus(status);
  return events;
}

JobStatus FakeCluster::AwaitEnd(const std::string& job_id) {
  const auto events = Watch(job_id);
  EXPECT_TRUE(events.ok()) << events.status();
  if (events.ok()) {
    EXPECT_TRUE(events->back().has_state_changed()) << events->back().DebugString();
  }
  return Get(job_id).value();
}

void FakeCluster::AwaitNotice(const std::string& job_id, const std::string& text) {
  const auto events = Watch(job_id, 0, [&](const JobEvent& event) {
    return absl::StrContains(event.notice().message(), text);
  });
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_TRUE(absl::StrContains(events->back().notice().message(), text))
      << "the job ended without: " << text << "; " << events->back().DebugString();
}

void FakeCluster::AwaitRunning(const std::string& job_id) {
  const auto events = Watch(
      job_id, 0, [&](const JobEvent& event) { return event.state_changed().state() == "RUNNING"; });
  ASSERT_TRUE(events.ok()) << events.status();
}

JobEvent FakeCluster::AwaitCheckpoint(const std::string& job_id, uint64_t after) {
  const auto events =
      Watch(job_id, after, [](const JobEvent& event) { return event.has_checkpoint_ended(); });
  CHECK(events.ok()) << events.status();
  EXPECT_TRUE(events->back().has_checkpoint_ended()) << events->back().DebugString();
  return events->back();
}

void FakeCluster::AwaitUnknown(const std::string& job_id) {
  const absl::Time deadline = Clock::Real()->Now() + kCallTimeout;
  while (!absl::IsNotFound(Get(job_id).status())) {
    ASSERT_LT(Clock::Real()->Now(), deadline) << job_id << " is still known";
  }
}

void FakeCluster::ExpectAllApplied(const std::string& job_id, uint64_t steps) const {
  for (size_t i = 0; i < ps_.size(); ++i) {
    for (const ShardStatus& shard : ps_[i]->Shards(job_id)) {
      EXPECT_EQ(shard.applied().watermark(), steps) << "ps-" << i << " shard " << shard.shard();
    }
  }
}

}  // namespace millrace::coordinator
