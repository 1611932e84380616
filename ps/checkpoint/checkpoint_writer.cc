#include "ps/checkpoint/checkpoint_writer.h"

#include "absl/strings/str_cat.h"
#include "common/checkpoint/new_file.h"
#include "common/status_macros.h"
#include "ps/dense/initial_value.h"

namespace millrace::ps {
namespace {

// Of what an image says of them, beside their elements.
uint64_t BookkeepingBytes(const ShardImage& image) {
  uint64_t bytes = image.blocks.size() * sizeof(ShardImage::Block);
  for (const ShardImage::Slice& slice : image.slices)
    bytes += sizeof(slice) + slice.variable.size();
  return bytes;
}

}  // namespace

CheckpointWriter::CheckpointWriter(const CheckpointWriterOptions& options)
    : file_system_(options.file_system), bandwidth_(options.bytes_per_second, options.clock) {}

absl::StatusOr<CheckpointWriter::Turn> CheckpointWriter::Begin(const ShardSpec& spec) {
  const Key key(spec.job_id(), spec.shard());
  {
    MutexLock lock(&mutex_);
    if (!busy_.insert(key).second) {
      return absl::AlreadyExistsError(
          absl::StrCat("a checkpoint of ", ShardName(key.first, key.second),
                       " is being written already; try again when that is done"));
    }
  }
  return Turn(this, [key](CheckpointWriter* writer) {
    MutexLock lock(&writer->mutex_);
    writer->busy_.erase(key);
  });
}

absl::Status CheckpointWriter::CheckRequest(const WriteCheckpointRequest& request) {
  MILLRACE_RETURN_IF_ERROR(CheckAbsolutePath("directory", request.directory()));
  if (request.checkpoint() == 0) {
    return absl::InvalidArgumentError("checkpoint: 0; must be at least 1");
  }
  if (request.base() < request.checkpoint()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("base: ", request.base(),
                                                 "; must be below the checkpoint's own number, ",
                                                 request.checkpoint()));
}

absl::StatusOr<WriteCheckpointResponse> CheckpointWriter::Write(
    const ShardPlan& plan, const WriteCheckpointRequest& request, StateSource* source,
    const MayGoOn& may_go_on) {
  const ShardImage image = MakeImage(plan, *source);
  ShardWriteOptions options;
  options.file_system = file_system_;
  options.directory = request.directory();
  options.number = request.checkpoint();
  options.base = request.base();
  options.before_write = [&](uint64_t bytes) { return bandwidth_.Take(bytes, may_go_on); };
  WriteCheckpointResponse response;
  MILLRACE_ASSIGN_OR_RETURN(*response.mutable_shard(), WriteShard(options, image, source));
  // What is written comes from the source's own memory. The record is there as a message and
  // as text, and that of the base as a message.
  response.set_extra_memory(source->memory_bytes() + NewFile::kMemoryBytes +
                            BookkeepingBytes(image) +
                            (request.base() == 0 ? 2 : 3) * response.shard().record_bytes());
  return response;
}

}  // namespace millrace::ps
