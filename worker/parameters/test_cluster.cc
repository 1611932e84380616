#include "worker/parameters/test_cluster.h"

#include <algorithm>
#include <map>
#include <utility>

#include "glog/logging.h"

namespace millrace::testing {
namespace {

// Divides the variables, laid out one after the other, into `shards` equal runs.
Routing Divide(const std::vector<uint64_t>& variable_sizes, int shards) {
  uint64_t total = 0;
  for (uint64_t size : variable_sizes) total += size;
  Routing routing;
  routing.set_generation(1);
  for (int i = 0; i < shards; ++i) {
    ShardRoute* shard = routing.add_shards();
    shard->set_shard(i);
    const uint64_t begin = total * i / shards;
    const uint64_t end = total * (i + 1) / shards;
    uint64_t first = 0;  // Of the variable, in the layout.
    for (size_t variable = 0; variable < variable_sizes.size(); ++variable) {
      const uint64_t from = std::max(first, begin);
      const uint64_t to = std::min(first + variable_sizes[variable], end);
      if (from < to) {
        Slice* slice = shard->add_slices();
        slice->set_variable(variable);
        slice->set_offset(from - first);
        slice->set_length(to - from);
      }
      first += variable_sizes[variable];
    }
  }
  return routing;
}

}  // namespace

TestCluster::TestCluster(std::vector<uint64_t> variable_sizes, int shards, int servers)
    : variable_sizes_(std::move(variable_sizes)),
      frozen_(variable_sizes_.size()),
      routing_(Divide(variable_sizes_, shards)) {
  std::vector<std::map<uint32_t, std::vector<uint64_t>>> held(servers);
  for (const ShardRoute& shard : routing_.shards()) {
    for (const Slice& slice : shard.slices()) {
      held[shard.shard() % servers][shard.shard()].push_back(slice.length());
    }
  }
  for (const auto& shards_of_server : held) {
    servers_.push_back(std::make_unique<FakeParameterServer>(shards_of_server));
  }
  for (ShardRoute& shard : *routing_.mutable_shards()) {
    const int server = shard.shard() % servers;
    shard.set_server("ps-" + std::to_string(server));
    shard.set_address(servers_[server]->address());
    for (int i = 0; i < shard.slices_size(); ++i) {
      servers_[server]->Place(shard.shard(), static_cast<size_t>(i), shard.slices(i).offset());
    }
  }
}

void TestCluster::Freeze(size_t variable) {
  frozen_[variable] = true;
  for (const ShardRoute& shard : routing_.shards()) {
    for (int i = 0; i < shard.slices_size(); ++i) {
      if (shard.slices(i).variable() != variable) continue;
      server(shard.shard() % servers_.size()).Freeze(shard.shard(), static_cast<size_t>(i));
    }
  }
}

std::unique_ptr<worker::ParameterClient> TestCluster::NewClient(int connections_per_server,
                                                                Clock* clock) {
  worker::ParameterClientOptions options;
  options.clock = clock;
  options.connections_per_server = connections_per_server;
  return NewClient(options);
}

std::unique_ptr<worker::ParameterClient> TestCluster::NewClient(
    const worker::ParameterClientOptions& options) {
  worker::ParameterClientOptions with_frozen = options;
  with_frozen.frozen = frozen_;
  // A test's clock goes with it: no stream may be left.
  if (options.clock != Clock::Real()) with_frozen.stream_patience = absl::Seconds(60);
  auto client = worker::ParameterClient::Create("job", variable_sizes_, routing_, with_frozen);
  CHECK(client.ok()) << client.status();
  return *std::move(client);
}

Values TestCluster::MakeValues(uint64_t seed) const {
  Values values;
  for (size_t variable = 0; variable < variable_sizes_.size(); ++variable) {
    values.emplace_back();
    for (uint64_t i = 0; !frozen_[variable] && i < variable_sizes_[variable]; ++i) {
      values.back().push_back(static_cast<float>((i + 1) * (2 * seed + 1) % 8191));
    }
  }
  return values;
}

Values TestCluster::Zeros() const {
  Values values;
  for (uint64_t size : variable_sizes_) values.emplace_back(size);
  return values;
}

Values TestCluster::Stored() {
  Values values = Zeros();
  for (const ShardRoute& shard : routing_.shards()) {
    for (int i = 0; i < shard.slices_size(); ++i) {
      const Slice& slice = shard.slices(i);
      const auto stored = server(shard.shard() % servers_.size()).values(shard.shard(), i);
      std::copy(stored.begin(), stored.end(), values[slice.variable()].begin() + slice.offset());
    }
  }
  return values;
}

void TestCluster::Store(const Values& values) {
  for (const ShardRoute& shard : routing_.shards()) {
    for (int i = 0; i < shard.slices_size(); ++i) {
      const Slice& slice = shard.slices(i);
      const float* begin = values[slice.variable()].data() + slice.offset();
      server(shard.shard() % servers_.size())
          .SetValues(shard.shard(), i, std::vector<float>(begin, begin + slice.length()));
    }
  }
}

void TestCluster::AddAll(const std::shared_ptr<const Values>& gradients,
                         worker::ParameterClient::Push* push) {
  for (size_t i = gradients->size(); i-- > 0;) {
    if (!(*gradients)[i].empty()) push->Add(i, (*gradients)[i], gradients);
  }
  push->Commit();
}

std::vector<absl::Span<float>> TestCluster::Spans(Values* values) {
  std::vector<absl::Span<float>> spans;
  for (std::vector<float>& variable : *values) spans.push_back(absl::MakeSpan(variable));
  return spans;
}

std::shared_ptr<const Values> Gradients(const TestCluster& cluster, uint64_t step) {
  return std::make_shared<const Values>(cluster.MakeValues(step));
}

absl::Status PushStep(TestCluster* cluster, worker::ParameterClient* client, uint64_t step) {
  const auto push = client->StartPush(step, 32);
  TestCluster::AddAll(Gradients(*cluster, step), push.get());
  return push->Wait(Clock::Real()->Now() + absl::Seconds(60));
}

}  // namespace millrace::testing
