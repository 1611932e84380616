#include "client/progress/make_view.h"

#include <sstream>

#include "client/testing/fake_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::testing::ProgressEvent;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class MakeViewTest : public ::testing::Test {
 protected:
  // What a view writes for a little progress.
  std::string Written(bool terminal, bool json) {
    console_.out_is_terminal = terminal;
    MakeProgressView(console_, json)->OnEvent(ProgressEvent(1, 10, 5));
    return out_.str();
  }

  std::ostringstream out_;
  std::ostringstream err_;
  Console console_{&out_, &err_, false, [] { return 80; }};
};

TEST_F(MakeViewTest, TerminalsGetABar) { EXPECT_THAT(Written(true, false), StartsWith("\r")); }

TEST_F(MakeViewTest, OthersGetLines) {
  EXPECT_THAT(Written(false, false), StartsWith("step 1/10"));
}

TEST_F(MakeViewTest, JsonIsJsonOnATerminalToo) {
  EXPECT_THAT(Written(true, true), StartsWith("{"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("\r")));
}

TEST_F(MakeViewTest, PeopleAreToldOnStandardErrorBesideJson) {
  MakeProgressView(console_, true)->Note("waits");
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(err_.str(), "waits\n");
}

}  // namespace
}  // namespace millrace::client
