// Which field of a Piece its elements are in: each encoding has one of its own.
#ifndef MILLRACE_COMMON_WIRE_PIECE_ELEMENTS_H_
#define MILLRACE_COMMON_WIRE_PIECE_ELEMENTS_H_

#include <array>
#include <string>

#include "absl/types/optional.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"

namespace millrace {

struct ElementsField {
  Encoding::Kind encoding;
  int number;  // Of the field, in Piece.
  const char* name;
};

// All that there are.
inline constexpr std::array<ElementsField, 3> kElementsFields = {{
    {Encoding::FLOAT32, Piece::kDataFieldNumber, "data"},
    {Encoding::FLOAT16, Piece::kFloat16FieldNumber, "float16"},
    {Encoding::BFLOAT16, Piece::kBfloat16FieldNumber, "bfloat16"},
}};

// REQUIRES: `encoding` is one of Encoding::Kind.
const ElementsField& FieldOf(Encoding::Kind encoding);

// nullopt: the field has no elements.
absl::optional<Encoding::Kind> EncodingOfField(int number);

// Of a message that generated code has parsed; of a piece with rows these are the rows' elements.
// A piece that has no elements is FLOAT32.
Encoding::Kind EncodingOf(const Piece& piece);
const std::string& ElementsOf(const Piece& piece);

// Of a piece without rows. REQUIRES: as FieldOf; `elements` are so encoded.
void SetElements(Encoding::Kind encoding, std::string elements, Piece* piece);

}  // namespace millrace

#endif  // MILLRACE_COMMON_WIRE_PIECE_ELEMENTS_H_
