#include "testing/simulation/world.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace::simulation {
namespace {

constexpr size_t kNotes = 400;

}  // namespace

void World::After(absl::Duration delay, std::weak_ptr<const void> life,
                  std::function<void()> event) {
  After(delay, [life = std::move(life), event = std::move(event)] {
    if (!life.expired()) event();
  });
}

bool World::Next() {
  if (events_.empty()) return false;
  const auto first = events_.begin();
  clock_.Advance(first->first.first - Now());
  const std::function<void()> event = std::move(first->second);
  events_.erase(first);
  event();
  return true;
}

absl::Duration World::Between(absl::Duration least, absl::Duration most) {
  const double share = static_cast<double>(Below(1 << 20)) / (1 << 20);
  return least + (most - least) * (share * share * share * share);
}

void World::Note(std::string line) {
  notes_.push_back(absl::StrCat(
      absl::StrFormat("%9.4f ", absl::ToDoubleSeconds(Now() - absl::UnixEpoch())), line));
  if (notes_.size() > kNotes) notes_.pop_front();
}

void World::Fail(const std::string& what) {
  Note(absl::StrCat("FAILED: ", what));
  if (failure_.empty()) failure_ = what;
}

}  // namespace millrace::simulation
