#include "worker/parameters/pull_operation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/proto_duration.h"
#include "glog/logging.h"
#include "worker/parameters/variable_rows.h"

namespace millrace::worker {
namespace {

// How long a server is asked to wait for a version. Short, so that it soon forgets those who have
// given up, and other requests on the stream get their turn.
constexpr absl::Duration kServerWait = absl::Seconds(2);

}  // namespace

PullOperation::PullOperation(std::shared_ptr<ClientCore> core, ParameterClient::PullOptions options,
                             absl::Span<const absl::Span<float>> values)
    : RetriedCalls(std::move(core), ClientCore::Call::kPull,
                   options.version.has_value() ? absl::StrCat("pull of version ", *options.version)
                                               : "pull"),
      options_(std::move(options)),
      groups_(core_->layout().shards.size()) {
  const Layout& layout = core_->layout();
  CHECK_EQ(values.size(), layout.variables.size());
  CheckRows(values);
  for (const ShardLayout& shard : layout.shards) {
    std::vector<PulledSlice> destinations;
    for (const Slice& slice : shard.slices) {
      const absl::Span<float> variable = values[slice.variable()];
      CHECK_LE(slice.offset() + slice.length(), variable.size())
          << "of variable " << slice.variable();
      destinations.push_back(
          {variable.subspan(slice.offset(), slice.length()), slice.variable(), slice.offset()});
    }
    destinations_.push_back(std::move(destinations));
  }
  MakeRequests();
  try {
    for (size_t i = 0; i < requests_.size(); ++i) Send(i);
  } catch (...) {  // What was asked for is not to be written to what is no more.
    CloseAll();
    throw;
  }
}

void PullOperation::CheckRows(absl::Span<const absl::Span<float>> values) const {
  if (options_.rows.empty()) return;
  CHECK_EQ(options_.rows.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (options_.rows[i].width > 0) CheckVariableRows(options_.rows[i], values[i].size());
  }
}

void PullOperation::MakeRequests() {
  for (size_t i = 0; i < core_->layout().shards.size(); ++i) {
    bool knows_rows;
    {
      MutexLock lock(&core_->monitor()->mutex);
      knows_rows = core_->knows_rows(i);
    }
    for (PullPart& part : MakePullParts(layout_of(i), options_.rows, knows_rows,
                                        core_->connections(i)->connections())) {
      AddPart(i, (knows_rows ? part.wanted : part.elements) * sizeof(float));
      requests_.push_back({i, std::move(part)});
    }
  }
}

void PullOperation::Send(size_t index) {
  const Request& request = requests_[index];
  std::shared_ptr<PullAttempt> attempt;
  {
    MutexLock lock(&core_->monitor()->mutex);
    if (core_->monitor()->cancelled) return;
    // A version and a pinned cut do not change from part to part.
    const bool changes = !options_.version.has_value() && options_.cut_id.empty();
    std::shared_ptr<PullGroup>& group = groups_[request.shard];
    if (changes && request.part.count > 1 && group == nullptr) {
      group = std::make_shared<PullGroup>();
      while (group->number == 0) group->number = core_->NextId();
    }
    attempt = std::make_shared<PullAttempt>(
        MakeRequest(request, group == nullptr ? 0 : group->number), group, request.shard,
        &destinations_[request.shard], &options_.arrived,
        AskedElements{request.part.elements, request.part.wanted}, copied_, core_.get());
    parts()[index].attempt = attempt;
  }
  attempt->Send();
}

// A server that has forgotten the group would begin it anew, with a newer state than that of the
// parts that are here.
Attempt::Again PullOperation::AfterSilence(size_t index) const {
  return groups_[requests_[index].shard] != nullptr ? Attempt::Again::kWithItsShard
                                                    : Attempt::Again::kAtOnce;
}

void PullOperation::OnFailed(size_t index, Attempt::Again again) {
  if (again == Attempt::Again::kWithItsShard) groups_[requests_[index].shard] = nullptr;
}

PullRequest PullOperation::MakeRequest(const Request& request, uint64_t group) {
  PullRequest message;
  message.set_job_id(core_->job_id());
  message.set_shard(layout_of(request.shard).shard);
  message.set_generation(core_->layout().generation);
  message.set_pull_id(core_->NextId());
  if (options_.version.has_value()) {
    message.set_version(*options_.version);
    *message.mutable_timeout() = ToProto(std::min(kServerWait, core_->call_timeout() / 2));
  }
  message.set_cut_id(options_.cut_id);
  message.set_part(request.part.index);
  message.set_parts(request.part.count);
  message.set_pull_group(group);
  message.set_encoding(options_.encoding);
  for (const WantedOfSlice& of_slice : request.part.rows) {
    WantedRows* const wanted = message.add_rows();
    wanted->set_slice(of_slice.slice);
    wanted->set_width(of_slice.width);
    wanted->mutable_rows()->Add(of_slice.rows.begin(), of_slice.rows.end());
  }
  return message;
}

}  // namespace millrace::worker
