#include "common/wire/piece_elements.h"

#include <utility>

#include "glog/logging.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace millrace {
namespace {

const google::protobuf::FieldDescriptor* DescriptorOf(Encoding::Kind encoding) {
  return Piece::descriptor()->FindFieldByNumber(FieldOf(encoding).number);
}

}  // namespace

const ElementsField& FieldOf(Encoding::Kind encoding) {
  for (const ElementsField& field : kElementsFields) {
    if (field.encoding == encoding) return field;
  }
  LOG(FATAL) << "a Piece has no field for the encoding " << static_cast<int>(encoding);
}

absl::optional<Encoding::Kind> EncodingOfField(int number) {
  for (const ElementsField& field : kElementsFields) {
    if (field.number == number) return field.encoding;
  }
  return absl::nullopt;
}

Encoding::Kind EncodingOf(const Piece& piece) {
  if (piece.has_rows()) return piece.rows().encoding();
  return EncodingOfField(piece.elements_case()).value_or(Encoding::FLOAT32);
}

const std::string& ElementsOf(const Piece& piece) {
  if (piece.has_rows()) return piece.row_elements();
  return piece.GetReflection()->GetStringReference(piece, DescriptorOf(EncodingOf(piece)), nullptr);
}

void SetElements(Encoding::Kind encoding, std::string elements, Piece* piece) {
  piece->GetReflection()->SetString(piece, DescriptorOf(encoding), std::move(elements));
}

}  // namespace millrace
