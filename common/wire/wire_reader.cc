#include "common/wire/wire_reader.h"

#include <algorithm>

namespace millrace {
namespace {

enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr int kMaxVarintBytes = 10;
constexpr int kMaxTagBytes = 5;
constexpr int kMaxLengthBytes = 5;

WireType TypeOf(uint32_t tag) { return static_cast<WireType>(tag & 7); }
uint32_t NumberOf(uint32_t tag) { return tag >> 3; }

}  // namespace

WireReader::WireReader(const std::vector<grpc::Slice>& slices) : slices_(slices) {
  for (const grpc::Slice& slice : slices) limit_ += slice.size();
}

size_t WireReader::PushLimit(size_t length) {
  const size_t before = limit_;
  limit_ = position_ + length;
  return before;
}

bool WireReader::ReadByte(uint8_t* byte) {
  if (AtLimit()) return false;
  while (offset_ == slices_[slice_].size()) {
    ++slice_;
    offset_ = 0;
  }
  *byte = slices_[slice_].begin()[offset_];
  ++offset_;
  ++position_;
  return true;
}

bool WireReader::ReadTag(uint32_t* tag) {
  *tag = 0;
  for (int i = 0; i < kMaxTagBytes; ++i) {
    uint8_t byte;
    if (!ReadByte(&byte)) return false;
    *tag |= static_cast<uint32_t>(byte & 0x7f) << (7 * i);  // Bits past the 32nd are ignored.
    if (byte < 0x80) return NumberOf(*tag) != 0;
  }
  return false;
}

bool WireReader::ReadLength(size_t* length) {
  *length = 0;
  for (int i = 0; i < kMaxLengthBytes; ++i) {
    uint8_t byte;
    if (!ReadByte(&byte)) return false;
    *length |= static_cast<size_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return *length <= limit_ - position_;
  }
  return false;
}

template <typename Visitor>
bool WireReader::Advance(size_t length, Visitor visit) {
  if (length > limit_ - position_) return false;
  while (length > 0) {
    const grpc::Slice& slice = slices_[slice_];
    const size_t part = std::min(length, slice.size() - offset_);
    if (part > 0) visit(slice, offset_, offset_ + part);
    offset_ += part;
    position_ += part;
    length -= part;
    if (length > 0) {
      ++slice_;
      offset_ = 0;
    }
  }
  return true;
}

bool WireReader::CopyVarint(std::string* out) {
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    uint8_t byte;
    if (!ReadByte(&byte)) return false;
    out->push_back(static_cast<char>(byte));
    if (byte < 0x80) return true;
  }
  return false;
}

bool WireReader::CopyBytes(size_t length, std::string* out) {
  return Advance(length, [out](const grpc::Slice& slice, size_t begin, size_t end) {
    out->append(reinterpret_cast<const char*>(slice.begin()) + begin, end - begin);
  });
}

bool WireReader::TakeSlices(size_t length, std::vector<grpc::Slice>* out) {
  out->clear();
  return Advance(length, [out](const grpc::Slice& slice, size_t begin, size_t end) {
    out->push_back(slice.sub(begin, end));
  });
}

bool WireReader::CopyGroup(uint32_t start_tag, int depth, std::string* out) {
  if (depth == 0) return false;
  while (true) {
    uint32_t tag;
    if (!ReadTag(&tag)) return false;
    if (TypeOf(tag) == kEndGroup) {
      AppendVarint(tag, out);
      return NumberOf(tag) == NumberOf(start_tag);
    }
    if (!CopyField(tag, depth - 1, out)) return false;
  }
}

bool WireReader::CopyField(uint32_t tag, int depth, std::string* out) {
  AppendVarint(tag, out);
  switch (TypeOf(tag)) {
    case kVarint:
      return CopyVarint(out);
    case kFixed64:
      return CopyBytes(8, out);
    case kFixed32:
      return CopyBytes(4, out);
    case kLengthDelimited: {
      size_t length;
      if (!ReadLength(&length)) return false;
      AppendVarint(length, out);
      return CopyBytes(length, out);
    }
    case kStartGroup:
      return CopyGroup(tag, depth, out);
    default:  // The end of a group that was not begun, or no wire type.
      return false;
  }
}

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++size;
  }
  return size;
}

}  // namespace millrace
