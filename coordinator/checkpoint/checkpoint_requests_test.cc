#include "coordinator/checkpoint/checkpoint_requests.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(CheckpointRequestsTest, ThoseForWhichNobodyWaitsAreOne) {
  CheckpointRequests requests;
  for (int i = 0; i < 3; ++i) requests.Add({.cause = "a client asked for it", .done = nullptr});
  EXPECT_THAT(requests.Take(), SizeIs(1));
}

// A directory that did not answer let them become as many as there was memory for.
TEST(CheckpointRequestsTest, TooManyAreTurnedAwayButForThoseWhoWantToStop) {
  CheckpointRequests requests;
  std::vector<absl::StatusCode> answers;
  const auto ask = [&](bool urgent) {
    requests.Add({.cause = "a client asked for it",
                  .urgent = urgent,
                  .done = [&](const auto& told) { answers.push_back(told.status().code()); }});
  };
  for (size_t i = 0; i < CheckpointRequests::kMost; ++i) ask(/*urgent=*/false);
  EXPECT_THAT(answers, SizeIs(0));
  ask(/*urgent=*/false);
  EXPECT_THAT(answers, ElementsAre(absl::StatusCode::kResourceExhausted));
  ask(/*urgent=*/true);
  EXPECT_THAT(answers, SizeIs(1));
  EXPECT_THAT(requests.TakeUrgent(), SizeIs(1));
  EXPECT_THAT(requests.Take(), SizeIs(CheckpointRequests::kMost));
}

}  // namespace
}  // namespace millrace::coordinator
