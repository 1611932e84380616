#include "common/printable.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr absl::string_view kEllipsis = "...";
constexpr char kLineFeed = '\n';

// Bytes of the UTF-8 character that `text` begins with; 0: it begins with none.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer forms than needed, halves of UTF-16 pairs, and what is past the last character.
  const bool bad = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                   (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return bad ? 0 : bytes;
}

// The C0 and C1 sets of ISO 6429, and DEL.
bool IsControl(absl::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<uint8_t>(character[1]) < 0xa0;
}

std::string Escape(absl::string_view bytes) {
  std::string escaped;
  for (const char byte : bytes) {
    absl::StrAppend(&escaped, "\\x",
                    absl::Hex(static_cast<uint8_t>(byte), absl::PadSpec::kZeroPad2));
  }
  return escaped;
}

std::string Print(absl::string_view text, bool keep_lines, size_t max_bytes) {
  std::string printed;
  size_t cut = 0;  // Where the text would be cut so that the ellipsis has room.
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const absl::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
    const bool kept = bytes > 0 && (!IsControl(character) || (keep_lines && text[0] == kLineFeed));
    printed += kept ? std::string(character.data(), character.size()) : Escape(character);
    if (printed.size() + kEllipsis.size() <= max_bytes) cut = printed.size();
    if (printed.size() > max_bytes) return absl::StrCat(printed.substr(0, cut), kEllipsis);
    text.remove_prefix(character.size());
  }
  return printed;
}

}  // namespace

std::string Printable(absl::string_view text, size_t max_bytes) {
  return Print(text, /*keep_lines=*/true, max_bytes);
}

std::string OneLine(absl::string_view text) {
  return Print(text, /*keep_lines=*/false, kMaxPrintableBytes);
}

std::string PrintableName(absl::string_view name) {
  return Print(name, /*keep_lines=*/false, kMaxPrintableNameBytes);
}

}  // namespace millrace
