#include "worker/input/npy_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

// IEEE 754 binary16, of which NumPy's arrays keep the bits.
struct Half {
  uint16_t bits;
};

float ToFloat(Half half) {
  const int exponent = half.bits >> 10 & 0x1f;
  const auto fraction = static_cast<float>(half.bits & 0x3ff);
  float value = 0;
  if (exponent == 0) {
    value = fraction * 0x1p-24f;
  } else if (exponent < 31) {
    value = (1.0f + fraction * 0x1p-10f) * std::ldexp(1.0f, exponent - 15);
  } else {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  }
  return (half.bits >> 15) != 0 ? -value : value;
}

template <typename Number>
float ToFloat(Number number) {
  return static_cast<float>(number);
}

// Calls `use` with each element of a row.
template <typename Number, typename Use>
absl::Status ForEach(absl::string_view row, bool big_endian, const Use& use) {
  for (size_t at = 0; at < row.size(); at += sizeof(Number)) {
    char bytes[sizeof(Number)];
    std::memcpy(bytes, row.data() + at, sizeof(Number));
    if (big_endian) std::reverse(bytes, bytes + sizeof(Number));
    Number number;
    std::memcpy(&number, bytes, sizeof(Number));
    MILLRACE_RETURN_IF_ERROR(use(number));
  }
  return absl::OkStatus();
}

template <typename Use>
absl::Status ForEachElement(const NpyType& type, absl::string_view row, const Use& use) {
  const bool big = type.big_endian;
  switch (type.kind * 16 + static_cast<int>(type.bytes)) {
    case 'f' * 16 + 2:
      return ForEach<Half>(row, big, use);
    case 'f' * 16 + 4:
      return ForEach<float>(row, big, use);
    case 'f' * 16 + 8:
      return ForEach<double>(row, big, use);
    case 'i' * 16 + 1:
      return ForEach<int8_t>(row, big, use);
    case 'i' * 16 + 2:
      return ForEach<int16_t>(row, big, use);
    case 'i' * 16 + 4:
      return ForEach<int32_t>(row, big, use);
    case 'i' * 16 + 8:
      return ForEach<int64_t>(row, big, use);
    case 'u' * 16 + 2:
      return ForEach<uint16_t>(row, big, use);
    case 'u' * 16 + 4:
      return ForEach<uint32_t>(row, big, use);
    case 'u' * 16 + 8:
      return ForEach<uint64_t>(row, big, use);
    case 'b' * 16 + 1:
      return ForEach<uint8_t>(row, big, [&use](uint8_t byte) { return use(byte != 0 ? 1 : 0); });
    default:
      return ForEach<uint8_t>(row, big, use);
  }
}

class NpyFloatDecoder final : public RecordDecoder {
 public:
  NpyFloatDecoder(const NpyType& type, const NpyTarget& target) : type_(type), target_(target) {}

  absl::Status Append(absl::string_view record, Batch* batch) const override {
    std::vector<float>& floats =
        (target_.is_label ? batch->labels : batch->features)[target_.index].floats;
    const size_t begin = floats.size();
    const auto divisor = static_cast<float>(target_.divide_by > 0 ? target_.divide_by : 1.0);
    return ForEachElement(type_, record, [&](auto number) -> absl::Status {
      if constexpr (std::is_same_v<decltype(number), double>) {
        if (std::isfinite(number) && !std::isfinite(ToFloat(number))) {
          return absl::InvalidArgumentError(
              absl::StrCat(target_.name, ": element ", floats.size() - begin, " is ", number,
                           "; must be between -3.40282e+38 and 3.40282e+38, as float32 is"));
        }
      }
      floats.push_back(ToFloat(number) / divisor);
      return absl::OkStatus();
    });
  }

 private:
  const NpyType type_;
  const NpyTarget target_;
};

class NpyIdDecoder final : public RecordDecoder {
 public:
  NpyIdDecoder(const NpyType& type, const NpyTarget& target) : type_(type), target_(target) {}

  absl::Status Append(absl::string_view record, Batch* batch) const override {
    std::vector<int64_t>& ids =
        (target_.is_label ? batch->labels : batch->features)[target_.index].ids;
    return ForEachElement(type_, record, [&](auto number) -> absl::Status {
      if constexpr (std::is_same_v<decltype(number), uint64_t>) {
        if (number >> 63 != 0) {
          return absl::InvalidArgumentError(
              absl::StrCat(number, "; ids are whole numbers from 0, below 2^63 - 1"));
        }
      }
      if constexpr (std::is_integral_v<decltype(number)>) {
        ids.push_back(static_cast<int64_t>(number));
      }
      return absl::OkStatus();
    });
  }

 private:
  const NpyType type_;
  const NpyTarget target_;
};

class NpyByteDecoder final : public RecordDecoder {
 public:
  explicit NpyByteDecoder(size_t index) : index_(index) {}

  absl::Status Append(absl::string_view record, Batch* batch) const override {
    std::vector<uint8_t>& bytes = batch->features[index_].bytes;
    bytes.insert(bytes.end(), record.begin(), record.end());
    return absl::OkStatus();
  }

 private:
  const size_t index_;
};

}  // namespace

ElementType NpyElementType(const NpyType& type, bool is_label, double divide_by) {
  if (divide_by > 0 || type.kind == 'f') return ElementType::kFloat;
  if (is_label) return ElementType::kId;
  if (type.kind == 'b') return ElementType::kFloat;
  return type == NpyType{'u', 1, false} ? ElementType::kByte : ElementType::kId;
}

std::unique_ptr<const RecordDecoder> MakeNpyDecoder(const NpyType& type, const NpyTarget& target) {
  switch (NpyElementType(type, target.is_label, target.divide_by)) {
    case ElementType::kFloat:
      return std::make_unique<NpyFloatDecoder>(type, target);
    case ElementType::kId:
      return std::make_unique<NpyIdDecoder>(type, target);
    case ElementType::kByte:
      return std::make_unique<NpyByteDecoder>(target.index);
  }
  return nullptr;
}

}  // namespace millrace::worker
