#include "worker/parameters/pull_operation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/proto_duration.h"
#include "common/wire/tensor_codec.h"
#include "glog/logging.h"

namespace millrace::worker {
namespace {

// How long a server is asked to wait for a version. Short, so that it soon forgets those who have
// given up, and other requests on the stream get their turn.
constexpr absl::Duration kServerWait = absl::Seconds(2);

// The sizes of a shard's blocks, in the order in which parts share them (see PullRequest.parts).
std::vector<uint64_t> BlocksOf(const ShardLayout& shard) {
  std::vector<uint64_t> blocks;
  for (const Slice& slice : shard.slices) {
    for (uint64_t offset = 0; offset < slice.length(); offset += kBlockElements) {
      blocks.push_back(std::min<uint64_t>(kBlockElements, slice.length() - offset));
    }
  }
  return blocks;
}

// A stream for each block's worth, as far as there are streams.
uint32_t PartsOf(const ShardLayout& shard, int connections) {
  const uint64_t blocks = (shard.elements + kBlockElements - 1) / kBlockElements;
  return static_cast<uint32_t>(std::min<uint64_t>(blocks, connections));
}

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

void PullOperation::MakeRequests() {
  for (size_t i = 0; i < core_->layout().shards.size(); ++i) {
    const std::vector<uint64_t> blocks = BlocksOf(layout_of(i));
    const uint32_t parts = PartsOf(layout_of(i), core_->connections(i)->connections());
    for (uint32_t part = 0; part < parts; ++part) {
      const auto begin = blocks.begin() + blocks.size() * part / parts;
      const auto end = blocks.begin() + blocks.size() * (part + 1) / parts;
      const uint64_t elements = std::accumulate(begin, end, uint64_t{0});
      requests_.push_back({i, part, parts, elements});
      AddPart(i, elements * sizeof(float));
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
    uint64_t& group = groups_[request.shard];
    while (changes && request.parts > 1 && group == 0) group = core_->NextId();
    attempt = std::make_shared<PullAttempt>(
        MakeRequest(request, group), &destinations_[request.shard], &options_.arrived,
        request.elements, copied_, core_->connections(request.shard), core_->monitor(),
        core_->clock());
    parts()[index].attempt = attempt;
  }
  attempt->Send();
}

// A server that has forgotten the group would begin it anew, with a newer state than that of the
// parts that are here.
Attempt::Again PullOperation::AfterSilence(size_t index) const {
  return groups_[requests_[index].shard] != 0 ? Attempt::Again::kWithItsShard
                                              : Attempt::Again::kAtOnce;
}

void PullOperation::OnFailed(size_t index, Attempt::Again again) {
  if (again == Attempt::Again::kWithItsShard) groups_[requests_[index].shard] = 0;
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
  message.set_part(request.part);
  message.set_parts(request.parts);
  message.set_pull_group(group);
  message.set_encoding(options_.encoding);
  return message;
}

}  // namespace millrace::worker
