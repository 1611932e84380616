// What tests of pulls share.
#ifndef MILLRACE_WORKER_PARAMETERS_PULL_TEST_UTIL_H_
#define MILLRACE_WORKER_PARAMETERS_PULL_TEST_UTIL_H_

#include <algorithm>
#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "worker/parameters/fake_parameter_server.h"
#include "worker/parameters/parameter_client.h"
#include "worker/parameters/test_cluster.h"

namespace millrace::worker {

using PullOptions = ParameterClient::PullOptions;

inline PullOptions UntilSoon() {
  PullOptions options;
  options.deadline = Clock::Real()->Now() + absl::Seconds(60);
  return options;
}

// Pulls into values that were not there before.
inline absl::Status PullInto(ParameterClient* client, const PullOptions& options,
                             ::millrace::testing::Values* values) {
  for (auto& variable : *values) std::fill(variable.begin(), variable.end(), -1.0f);
  return client->Pull(options, ::millrace::testing::TestCluster::Spans(values));
}

// Lets `verdict` befall the first `times` requests, and serves the others.
inline ::millrace::testing::FakeParameterServer::PullRule Times(
    int times, ::millrace::testing::Verdict verdict) {
  return [verdict, left = std::make_shared<std::atomic<int>>(times)](const PullRequest&) {
    return left->fetch_sub(1) > 0 ? verdict : ::millrace::testing::Verdict();
  };
}

inline ::millrace::testing::Verdict Refusal(absl::StatusCode code, const char* message) {
  return {::millrace::testing::Verdict::kRefuse, static_cast<int>(code), message};
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PULL_TEST_UTIL_H_
