#include "worker/training/job_numerics.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

JobSpec Travelling(Encoding::Kind wire) {
  JobSpec spec;
  spec.mutable_precision()->set_wire(wire);
  return spec;
}

// A model of somebody's own, which said nothing, had its gradients rounded without a word of it.
TEST(JobNumericsTest, RoundingOnTheWireIsSaidWhateverTheModelSays) {
  EXPECT_EQ(JobNumerics(Travelling(Encoding::FLOAT32), "cpu, 1 thread"), "cpu, 1 thread");
  EXPECT_EQ(JobNumerics(Travelling(Encoding::FLOAT32), ""), "");
  EXPECT_EQ(JobNumerics(Travelling(Encoding::BFLOAT16), "cpu, 1 thread"),
            "cpu, 1 thread, BFLOAT16 on the wire");
  EXPECT_EQ(JobNumerics(Travelling(Encoding::FLOAT16), ""), "FLOAT16 on the wire");
}

TEST(JobNumericsTest, WhatIsUnknownIsComparedWithNothing) {
  for (const auto wire : {Encoding::FLOAT32, Encoding::FLOAT16, Encoding::BFLOAT16}) {
    const std::string known = JobNumerics(Travelling(wire), "cpu, 1 thread");
    const std::string unknown = JobNumerics(Travelling(wire), "");
    EXPECT_TRUE(CheckSameNumerics(known, known).ok());
    EXPECT_TRUE(CheckSameNumerics(known, unknown).ok()) << unknown;
    EXPECT_TRUE(CheckSameNumerics(unknown, known).ok()) << unknown;
    EXPECT_TRUE(CheckSameNumerics(unknown, unknown).ok()) << unknown;
    const std::string other = JobNumerics(Travelling(wire), "cpu, 2 threads");
    EXPECT_THAT(CheckSameNumerics(other, known).ToString(),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(other), HasSubstr(known),
                      HasSubstr("Give all workers the same --threads")));
  }
}

// Of a worker that does not know precision.wire nothing was compared where either said nothing.
TEST(JobNumericsTest, WhoDoesNotSayThatHeRoundsDoesNot) {
  for (const std::string model : {"", "cpu, 1 thread"}) {
    const std::string rounded = JobNumerics(Travelling(Encoding::BFLOAT16), model);
    for (const std::string other : {"", "cpu, 1 thread", "numpy"}) {
      EXPECT_THAT(CheckSameNumerics(rounded, other).ToString(),
                  AllOf(HasSubstr("INVALID_ARGUMENT"),
                        HasSubstr("precision.wire: numbers travel as BFLOAT16 to and from this "
                                  "worker (its numerics are '" +
                                  rounded +
                                  "'), and as FLOAT32 to and from the one that planned "
                                  "the job ('" +
                                  other + "')"),
                        HasSubstr("allow_mixed_workers")));
      EXPECT_TRUE(absl::IsInvalidArgument(CheckSameNumerics(other, rounded))) << other;
    }
  }
}

}  // namespace
}  // namespace millrace::worker
