// A job that goes on from a checkpoint with damaged values fails only when its ps servers have read
// it, and the same command would fail so each time. So the values are read before.
#include "client/commands/furthest_whole.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/commands/checkpoint_choice.h"
#include "client/progress/format.h"
#include "common/checkpoint/checkpoint_lineage.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// To read more takes so long that people would wonder.
constexpr uint64_t kManyBytes = 1 << 30;

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenWhole(const CheckpointName& name,
                                                      const Reading& reading) {
  MILLRACE_ASSIGN_OR_RETURN(auto checkpoint, OpenCheckpoint(name));
  const uint64_t bytes = BytesOf(checkpoint->manifest());
  if (bytes > kManyBytes) {
    reading.tell(absl::StrCat("Reads checkpoint ", CheckpointFolder(name.number), " in ",
                              name.directory, " (", FormatBytes(bytes),
                              ") to see that it is whole."));
  }
  MILLRACE_RETURN_IF_ERROR(CheckWhole(*reading.interrupt, name.directory, name.number));
  return checkpoint;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenFurthestWhole(const std::string& directory,
                                                              const Reading& reading) {
  auto listed = CheckpointDirectory(RealFileSystem(), directory).List();
  if (absl::IsNotFound(listed.status())) return nullptr;
  MILLRACE_RETURN_IF_ERROR(listed.status());
  std::string damage;
  for (const CheckpointDirectory::Listed& each :
       FurthestFirst(LeadingUpTo(0, *std::move(listed)))) {
    if (!damage.empty()) reading.tell(absl::StrCat(damage, ". The one before is taken."));
    auto opened = OpenWhole({directory, each.number}, reading);
    if (!absl::IsDataLoss(opened.status())) return opened;
    damage = absl::StrCat("Checkpoint ", CheckpointFolder(each.number),
                          " cannot be used: ", std::string(opened.status().message()));
  }
  if (damage.empty()) return nullptr;
  return absl::DataLossError(
      absl::StrCat("no checkpoint in ", directory, " is whole: ", damage,
                   ". See `millrace checkpoints verify`; to train anew give the job another "
                   "directory of checkpoints"));
}

}  // namespace millrace::client
