#include "coordinator/checkpoint/patient_call.h"

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/testing/gate.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

absl::StatusOr<int> CallOn(const PatientCaller& caller, const std::string& directory,
                           std::function<absl::StatusOr<int>()> call) {
  return caller.Call<int>(directory, std::move(call), [] { return false; });
}

TEST(PatientCallTest, DirectoryThatHangsKeepsNobodyFromOthers) {
  const auto gate = std::make_shared<Gate>();
  const auto hangs = [gate]() -> absl::StatusOr<int> {
    gate->Pass();
    return 1;
  };
  const PatientCaller hasty(absl::ZeroDuration());
  for (int i = 0; i < PatientCaller::kMostLeft; ++i) {
    EXPECT_EQ(CallOn(hasty, "/hangs", hangs).status().message(),
              "/hangs: no answer from the disk within 0");
  }
  EXPECT_EQ(CallOn(hasty, "/hangs", hangs).status().message(),
            "/hangs: earlier reads of files hang");
  EXPECT_EQ(CallOn(hasty, "/other", hangs).status().message(),
            "/other: no answer from the disk within 0");
  gate->Open();
}

TEST(PatientCallTest, CallsThatEndInTimeDoNotCount) {
  const PatientCaller caller;
  for (int i = 0; i < 2 * PatientCaller::kMostLeftInAll; ++i) {
    EXPECT_EQ(*CallOn(caller, "/d", [i]() -> absl::StatusOr<int> { return i; }), i);
  }
}

TEST(PatientCallTest, OneForWhichThereIsNoThreadIsToBeTriedAgain) {
  const PatientCaller caller(absl::Seconds(30),
                             [](const std::function<void()>&) -> absl::StatusOr<std::thread> {
                               return absl::ResourceExhaustedError("no memory");
                             });
  for (int i = 0; i < 2 * PatientCaller::kMostLeft; ++i) {
    EXPECT_EQ(CallOn(caller, "/d", []() -> absl::StatusOr<int> { return 1; }).status(),
              absl::UnavailableError(
                  "/d: the coordinator has no thread to work on files with (no memory)"));
  }
}

}  // namespace
}  // namespace millrace::coordinator
