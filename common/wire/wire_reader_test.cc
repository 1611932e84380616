#include "common/wire/wire_reader.h"

#include <string>
#include <vector>

#include "common/wire/wire_test_util.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::millrace::testing::CutInto;

// Reads one field from `bytes`, byte by byte; returns whether that succeeds, with all bytes read.
bool CopiesField(const std::string& bytes, int depth, std::string* out) {
  const std::vector<grpc::Slice> slices = CutInto(bytes, 1);
  WireReader reader(slices);
  uint32_t tag;
  return reader.ReadTag(&tag) && reader.CopyField(tag, depth, out) && reader.AtLimit();
}

TEST(WireReaderTest, FieldsOfEveryTypeAreCopied) {
  for (const std::string& field :
       {std::string("\x08\x96\x01"), std::string("\x09") + "12345678", std::string("\x0d") + "1234",
        std::string("\x0a\x03") + "abc", std::string("\x0a\x00", 2),
        std::string("\x0b\x08\x01\x13\x14\x0c"), std::string("\xf8\xff\xff\xff\x0f\x01")}) {
    std::string copy;
    EXPECT_TRUE(CopiesField(field, /*depth=*/2, &copy));
    EXPECT_EQ(copy, field);
    for (size_t length = 0; length < field.size(); ++length) {
      EXPECT_FALSE(CopiesField(field.substr(0, length), /*depth=*/2, &copy)) << length;
    }
  }
}

TEST(WireReaderTest, InvalidFieldsAreRefused) {
  const std::string continued = "\xff\xff\xff\xff\xff";
  for (const std::string& field : {
           std::string("\x00\x01", 2),               // Field number 0.
           std::string("\x0c"),                      // The end of no group.
           std::string("\x0b\x14"),                  // The end of another group.
           std::string("\x0e\x01"),                  // No wire type.
           continued + "\x01",                       // A tag of six bytes.
           std::string("\x88\x80\x80\x80\x80\x01"),  // Another, of a field that there might be.
           "\x08" + continued + continued,           // A varint of ten that does not end.
           "\x08" + continued + continued + "\x01",  // A varint of eleven.
           std::string("\x0a\x80\x80\x80\x80\x80\x00", 7),
           std::string("\x0a\xff\xff\xff\xff\x7f"),
           std::string("\x0a\x02") + "a",
       }) {
    std::string copy;
    EXPECT_FALSE(CopiesField(field, /*depth=*/2, &copy));
  }
}

TEST(WireReaderTest, GroupsAreNestedNoDeeperThanAllowed) {
  std::string copy;
  EXPECT_TRUE(CopiesField("\x0b\x0b\x0c\x0c", /*depth=*/2, &copy));
  EXPECT_FALSE(CopiesField("\x0b\x0b\x0c\x0c", /*depth=*/1, &copy));
}

TEST(WireReaderTest, LongRowOfGroupsIsNoDepth) {
  std::string row = "\x0b";
  for (int i = 0; i < 1000; ++i) row += "\x13\x14";
  row += "\x0c";
  std::string copy;
  EXPECT_TRUE(CopiesField(row, /*depth=*/2, &copy));
}

TEST(WireReaderTest, NothingIsReadPastTheLimit) {
  const std::vector<grpc::Slice> slices = CutInto("\x08\x96\x01\x08", 2);
  WireReader reader(slices);
  const size_t limit = reader.PushLimit(2);
  uint32_t tag;
  ASSERT_TRUE(reader.ReadTag(&tag));
  std::string copy;
  EXPECT_FALSE(reader.CopyField(tag, /*depth=*/1, &copy));
  EXPECT_TRUE(reader.AtLimit());
  std::vector<grpc::Slice> taken;
  EXPECT_FALSE(reader.TakeSlices(1, &taken));
  reader.SetLimit(limit);
  EXPECT_FALSE(reader.AtLimit());
  EXPECT_TRUE(reader.TakeSlices(2, &taken));
  EXPECT_TRUE(reader.AtLimit());
}

TEST(WireReaderTest, TakenSlicesLieWhereTheyWere) {
  const std::string bytes(1000, 'x');
  const std::vector<grpc::Slice> slices = CutInto(bytes, 400);
  WireReader reader(slices);
  std::vector<grpc::Slice> taken;
  ASSERT_TRUE(reader.TakeSlices(500, &taken));
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].begin(), slices[0].begin());
  EXPECT_EQ(taken[1].begin(), slices[1].begin());
  EXPECT_EQ(taken[1].size(), 100u);
}

TEST(WireReaderTest, VarintSizeIsThatOfTheAppendedVarint) {
  for (uint64_t value :
       {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 35, ~uint64_t{0}}) {
    std::string bytes;
    AppendVarint(value, &bytes);
    EXPECT_EQ(bytes.size(), VarintSize(value)) << value;
  }
}

}  // namespace
}  // namespace millrace
