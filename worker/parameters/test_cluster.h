// Fake parameter servers with the variables of a job spread over them, and a client.
#ifndef MILLRACE_WORKER_PARAMETERS_TEST_CLUSTER_H_
#define MILLRACE_WORKER_PARAMETERS_TEST_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/wire/tensor_codec.h"
#include "protos/job.pb.h"
#include "worker/parameters/fake_parameter_server.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::testing {

// The values of each variable.
using Values = std::vector<std::vector<float>>;

// The sizes of some variables, in elements: all in one block; in several.
inline const std::vector<uint64_t> kSmall = {5, 1, 100};
inline const std::vector<uint64_t> kLarge = {3 * kBlockElements + 17, 9, 2 * kBlockElements};

// A job "job" whose variables, one after the other, are divided into `shards` shards of about the
// same size; shard i is on server i mod `servers`, which is named "ps-i".
class TestCluster {
 public:
  TestCluster(std::vector<uint64_t> variable_sizes, int shards, int servers);

  // From now on nothing of the variable is pushed, as clients are told that are made later.
  void Freeze(size_t variable);

  FakeParameterServer& server(int index) { return *servers_[index]; }
  const Routing& routing() const { return routing_; }

  std::unique_ptr<worker::ParameterClient> NewClient(int connections_per_server = 4,
                                                     Clock* clock = Clock::Real());
  std::unique_ptr<worker::ParameterClient> NewClient(const worker::ParameterClientOptions& options);

  // Values that differ from each other and with `seed`; whole numbers, so that sums are exact. None
  // of variables that are frozen.
  Values MakeValues(uint64_t seed) const;
  Values Zeros() const;

  // The values on the servers.
  Values Stored();
  void Store(const Values& values);

  // Adds every variable of `gradients` that has any to a push, and commits it.
  static void AddAll(const std::shared_ptr<const Values>& gradients,
                     worker::ParameterClient::Push* push);

  // Spans over `values`, as Pull takes them.
  static std::vector<absl::Span<float>> Spans(Values* values);

 private:
  const std::vector<uint64_t> variable_sizes_;
  std::vector<bool> frozen_;  // By variable.
  Routing routing_;
  std::vector<std::unique_ptr<FakeParameterServer>> servers_;
};

// What a step pushes: numbers that follow from it.
std::shared_ptr<const Values> Gradients(const TestCluster& cluster, uint64_t step);

// Pushes them, and waits a minute at most until that is done.
absl::Status PushStep(TestCluster* cluster, worker::ParameterClient* client, uint64_t step);

}  // namespace millrace::testing

#endif  // MILLRACE_WORKER_PARAMETERS_TEST_CLUSTER_H_
