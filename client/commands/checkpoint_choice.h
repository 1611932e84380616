// The checkpoints that a command line means.
#ifndef MILLRACE_CLIENT_COMMANDS_CHECKPOINT_CHOICE_H_
#define MILLRACE_CLIENT_COMMANDS_CHECKPOINT_CHOICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "client/interrupt.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "protos/checkpoint.pb.h"

namespace millrace::client {

// "DIR", "DIR/latest" or "DIR/000017". What holds checkpoints is a DIR whatever its own name is;
// otherwise the name decides. UsageError: empty.
absl::StatusOr<CheckpointName> ParsePath(const std::string& path);

// The same, with the directory as an absolute path: others may have another working directory.
// `flag` is for messages.
absl::StatusOr<CheckpointName> ParseAbsolutePath(const std::string& flag, const std::string& path);

// `path` as an absolute one. UsageError, with `flag`: there is no working directory.
absl::StatusOr<std::string> MakeAbsolute(const std::string& flag, const std::string& path);

// Of what it refers to: its own files and those of earlier ones.
uint64_t BytesOf(const CheckpointManifest& manifest);

// NOT_FOUND, and how to see which there are.
absl::Status NoSuchCheckpoint(const std::string& directory, uint64_t number);

// Opens the checkpoint of that name, the newest one for number 0.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(const CheckpointName& name);

// What opening or reading a checkpoint has returned, and which one before is whole where that one
// is damaged.
absl::Status OfferOneBefore(const CheckpointName& name, const absl::Status& status);

// Whether a listed checkpoint can be opened: its manifest and records are as they should be and its
// files are there. Looks at no value.
absl::Status CheckOpens(const std::string& directory, const CheckpointDirectory::Listed& listed);

// In which order they are taken for what a job goes on from: the furthest first of those that led
// up to the newest (checkpoint_lineage.h); then of those that earlier runs have left behind, which
// only a job takes that names them. `listed`: as CheckpointDirectory::List returns them.
std::vector<CheckpointDirectory::Listed> InOrderOfUse(
    const std::vector<CheckpointDirectory::Listed>& listed);

// "dense/kernel"; of a slot "dense/kernel@momentum". Variable and array as in Checkpoint.
std::string ArrayName(const Checkpoint& checkpoint, size_t variable, int array);

// Reads an array from its beginning to its end, in parts of at most 1 MiB. CANCELLED: interrupted;
// an error of `on_part` ends it; others as of Checkpoint::Read.
absl::Status ForEachPart(const Interrupt& interrupt, Checkpoint* checkpoint, size_t variable,
                         int array,
                         const std::function<absl::Status(absl::Span<const float>)>& on_part);

// Whether every byte of a checkpoint is as written: what "whole" means. Reads all of it. DATA_LOSS:
// it is damaged, and the first place of that; CANCELLED: the interrupt came; others as
// VerifyCheckpoint.
absl::Status CheckWhole(const Interrupt& interrupt, const std::string& directory, uint64_t number);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CHECKPOINT_CHOICE_H_
