#include "common/printable.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::SizeIs;

TEST(PrintableTest, LeavesTextAlone) {
  EXPECT_EQ(Printable("spec.data:\n  größer als 日本 🎉"), "spec.data:\n  größer als 日本 🎉");
  EXPECT_EQ(Printable(""), "");
}

TEST(PrintableTest, EscapesControlCharacters) {
  EXPECT_EQ(Printable("\x1b[31mred\r\x7f\t"), "\\x1b[31mred\\x0d\\x7f\\x09");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b"
            "31m")
      << "one byte's escape sequence, as UTF-8";
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a\\x00b");
}

TEST(PrintableTest, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(Printable("\xff"), "\\xff");
  EXPECT_EQ(Printable("a\xe2\x82"), "a\\xe2\\x82") << "cut short";
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf") << "longer than needed";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "past the last character";
}

TEST(PrintableTest, CutsAtACharacter) {
  EXPECT_EQ(Printable("0123456789", 10), "0123456789");
  EXPECT_EQ(Printable("0123456789a", 10), "0123456...");
  EXPECT_EQ(Printable("012345ä6789", 10), "012345...");
  EXPECT_EQ(Printable("012345\x1b"
                      "6789",
                      10),
            "012345...");
}

TEST(PrintableTest, NameIsOnOneLineAndShort) {
  EXPECT_EQ(PrintableName("job\nline"), "job\\x0aline");
  EXPECT_THAT(PrintableName(std::string(5000, 'x')), SizeIs(kMaxPrintableNameBytes));
}

}  // namespace
}  // namespace millrace
