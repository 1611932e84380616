// Jobs as users write them: reading, changing and checking a JobSpec, and the defaults of its
// fields.
#ifndef MILLRACE_COMMON_JOB_SPEC_H_
#define MILLRACE_COMMON_JOB_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "protos/job.pb.h"
#include "protos/model.pb.h"
#include "protos/optimizer.pb.h"

namespace millrace {

// Reads protobuf text format; `file_name` is for messages only. Fields may be missing or out of
// range: see CheckJobSpec.
// INVALID_ARGUMENT: "FILE:LINE:COLUMN: " and what is wrong there, both counted from 1.
absl::StatusOr<JobSpec> ParseJobSpec(absl::string_view text, absl::string_view file_name);

// Applies "PATH=VALUE", such as "batch_size=64" or "model.layers[2].dense.units=64".
// PATH goes through messages by field names; elements of lists, which must be there already, have
// an index from 0, which a list of one message or none can do without. Messages on the way come
// into being, and a oneof's member takes the place of the one that was set: "steps=100" clears
// `epochs`. VALUE is a number, "true" or "false", the name of an enum value in either case, a
// duration such as "2s" or "500ms", or a string as it stands. A whole list is set by its elements
// with commas between them; a whole message by text format in braces:
// "optimizer.adam={beta_1: 0.95}". INVALID_ARGUMENT: a message with the path, the value and what is
// allowed; `spec` is unchanged.
absl::Status SetField(absl::string_view assignment, JobSpec* spec);

// Checks all that can be checked without a worker or data. A spec that passes means the same to
// every process of this version; the accessors below may then be used. INVALID_ARGUMENT:
// "optimizer.rmsprop.learning_rate: nan; must be a finite number above 0".
absl::Status CheckJobSpec(const JobSpec& spec);

// The part of CheckJobSpec for the optimizer; `path` is the field's, "optimizer".
absl::Status CheckOptimizerSpec(const OptimizerSpec& spec, absl::string_view path);

// INVALID_ARGUMENT: no kind, or one that this program does not know, or a number out of range. The
// message begins with `path`, the field's: "plan.variables[2].update".
absl::Status CheckUpdateRule(const UpdateRule& rule, absl::string_view path);

// Limits of CheckJobSpec that others may rely on.
inline constexpr uint32_t kMaxReplicas = 4096;
inline constexpr uint32_t kMaxBackup = 1024;
inline constexpr uint32_t kMaxStalenessBound = 1 << 20;
inline constexpr uint32_t kMaxBatchSize = 1 << 24;
inline constexpr uint32_t kMaxShards = 1 << 16;
inline constexpr int kMaxLayers = 10000;
inline constexpr uint32_t kMaxUnits = 1 << 24;  // Of a layer, and the features of an example.
// Every step number is exact as a double too (in JSON, for example).
inline constexpr uint64_t kMaxSteps = uint64_t{1} << 53;

// Step n is handed out when every step before n - StalenessBound is applied. 0 in synchronous mode,
// where it has no meaning.
uint32_t StalenessBound(const JobSpec& spec);

// Whether workers pull values of their next step while they compute one. Not in synchronous mode,
// nor where there is one step at a time.
bool PullsAhead(const JobSpec& spec);

// Contributions of a synchronous version; 0: asynchronous.
uint32_t Replicas(const JobSpec& spec);

// How often a shard flushes a cut.
absl::Duration CutPeriod(const JobSpec& spec);

// A checkpoint is due at each multiple of so many steps, which is a whole number of versions in a
// synchronous job. 0: not by steps.
uint64_t CheckpointEverySteps(const JobSpec& spec);
// And when the last one is so old; infinite: not by time.
absl::Duration CheckpointPeriod(const JobSpec& spec);
// So many of the newest checkpoints are kept.
uint32_t CheckpointsToKeep(const JobSpec& spec);
// And one for each further period of this length. Infinite: none.
absl::Duration CheckpointKeptPeriod(const JobSpec& spec);

// Examples that are evaluated at a time.
uint32_t EvaluationBatchSize(const JobSpec& spec);

// What an optimizer keeps for each element, as checkpoints name it: "momentum".
std::vector<std::string> OptimizerSlots(const OptimizerSpec& spec);

// Whether an update needs norms of whole variables: then none may be divided between shards.
bool NeedsWholeVariables(const OptimizerSpec& spec);

// Mini-batches in the whole job: the steps that it names, or epochs * ceil(N / batch_size). At most
// kMaxSteps, where a longer job ends. REQUIRES: the spec has passed CheckJobSpec.
uint64_t TotalSteps(const JobSpec& spec, uint64_t train_examples);

// The name of a layer, as written or made of its kind and position: "dense_2" for the third layer.
// REQUIRES: 0 <= layer < model.layers_size(); the layer has a name or a kind.
std::string LayerName(const ModelSpec& model, int layer);

// "dense": as the field of LayerSpec is called. REQUIRES: the layer has a kind.
std::string LayerKind(const LayerSpec& layer);

// "dense, conv2d, ...": all of them.
std::string LayerKinds();

}  // namespace millrace

#endif  // MILLRACE_COMMON_JOB_SPEC_H_
