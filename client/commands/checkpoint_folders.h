// Folders in a directory of checkpoints that are none any more, or not yet.
#ifndef MILLRACE_CLIENT_COMMANDS_CHECKPOINT_FOLDERS_H_
#define MILLRACE_CLIENT_COMMANDS_CHECKPOINT_FOLDERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"

namespace millrace::client {

using ListedCheckpoints = std::vector<CheckpointDirectory::Listed>;

// Whether something is in the folder. The mark of a removal is nothing: the folder with the highest
// number stays to remember it.
bool HasFiles(const std::string& directory, uint64_t number);

// Numbers of the folders that have no manifest, growing; not of those that are only remembered.
std::vector<uint64_t> FoldersWithoutManifest(const std::string& directory,
                                             const ListedCheckpoints& listed);

// Whether nobody writes it any more: checkpoints are there with higher numbers, or somebody has
// begun to remove it. REQUIRES: it has no manifest.
bool IsAbandoned(const std::string& directory, const ListedCheckpoints& listed, uint64_t number);

// Why files of a folder stay that has no manifest, or is to lose it.
struct FolderUse {
  std::vector<uint64_t> needed_by;   // Other checkpoints that refer to them.
  std::vector<uint64_t> unreadable;  // Later ones that may: their manifests cannot be read.
};
FolderUse UseOf(const ListedCheckpoints& listed, uint64_t number);

// "000004, 000005, 000006 and 2 more".
std::string FoldersText(const std::vector<uint64_t>& numbers);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CHECKPOINT_FOLDERS_H_
