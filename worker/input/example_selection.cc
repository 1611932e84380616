#include "worker/input/example_selection.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/input/example_range.h"
#include "worker/split_mix.h"

namespace millrace::worker {

bool IsHeldOut(const HoldOut& hold_out, uint64_t example) {
  const uint64_t draw = SplitMix64(SplitMix64(hold_out.seed()) + example);
  return static_cast<double>(draw >> 11) * 0x1p-53 < hold_out.fraction();
}

ExampleSelection::ExampleSelection(const millrace::Dataset& set)
    : range_(set.range()), hold_out_(set.hold_out()), has_hold_out_(set.has_hold_out()) {}

bool ExampleSelection::Contains(uint64_t example) const {
  if (example < range_.begin() || (range_.end() != 0 && example >= range_.end())) return false;
  return !has_hold_out_ || IsHeldOut(hold_out_, example) == (hold_out_.part() == HoldOut::HELD_OUT);
}

absl::Status ExampleSelection::CheckCount(uint64_t examples, uint64_t selected,
                                          const std::string& files,
                                          const std::string& field) const {
  MILLRACE_RETURN_IF_ERROR(ResolveRange(range_, examples, files, field).status());
  if (selected > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ".hold_out: no example of ", files, " is in the part ",
                   HoldOut::Part_Name(hold_out_.part()), ", of ", examples,
                   " in all; use another fraction or seed"));
}

}  // namespace millrace::worker
