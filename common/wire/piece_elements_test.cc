#include "common/wire/piece_elements.h"

#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(PieceElementsTest, EveryEncodingHasAFieldOfItsOwn) {
  const auto* const encodings = Encoding::Kind_descriptor();
  ASSERT_EQ(encodings->value_count(), static_cast<int>(kElementsFields.size()));
  EXPECT_EQ(Piece::descriptor()->oneof_decl(0)->field_count(), encodings->value_count());
  for (int i = 0; i < encodings->value_count(); ++i) {
    const auto encoding = static_cast<Encoding::Kind>(encodings->value(i)->number());
    const ElementsField& field = FieldOf(encoding);
    EXPECT_EQ(EncodingOfField(field.number), encoding);
    EXPECT_EQ(Piece::descriptor()->FindFieldByNumber(field.number)->name(), field.name);
  }
  EXPECT_FALSE(EncodingOfField(Piece::kOffsetFieldNumber).has_value());
}

TEST(PieceElementsTest, APieceSaysHowItIsEncodedByTheFieldThatItHas) {
  Piece piece;
  EXPECT_EQ(EncodingOf(piece), Encoding::FLOAT32) << "it has none";
  EXPECT_EQ(ElementsOf(piece), "");
  SetElements(Encoding::BFLOAT16, "ab", &piece);
  EXPECT_EQ(piece.bfloat16(), "ab");
  EXPECT_EQ(EncodingOf(piece), Encoding::BFLOAT16);
  EXPECT_EQ(ElementsOf(piece), "ab");
  SetElements(Encoding::FLOAT16, "cd", &piece);
  EXPECT_EQ(piece.float16(), "cd");
  EXPECT_FALSE(piece.has_bfloat16());
  SetElements(Encoding::FLOAT32, "efgh", &piece);
  EXPECT_EQ(piece.data(), "efgh");
  EXPECT_EQ(EncodingOf(piece), Encoding::FLOAT32);
}

TEST(PieceElementsTest, ElementsOfAPieceWithRowsAreThoseOfTheRows) {
  Piece piece;
  piece.mutable_rows()->set_encoding(Encoding::FLOAT16);
  piece.set_row_elements("ab");
  EXPECT_EQ(EncodingOf(piece), Encoding::FLOAT16);
  EXPECT_EQ(ElementsOf(piece), "ab");
}

}  // namespace
}  // namespace millrace
