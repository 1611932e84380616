// Readers that take bytes in memory.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/keras/keras_model.h"
#include "common/job_spec.h"
#include "common/safetensors/safetensors_header.h"
#include "common/spec_checks.h"
#include "common/wire/tensor_codec.h"
#include "common/wire/wire_test_util.h"
#include "glog/logging.h"
#include "google/protobuf/stubs/logging.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"
#include "testing/fuzz/fuzz_target.h"
#include "worker/input/images/decode_image.h"

namespace millrace::testing {
namespace {

void CheckRefused(const absl::Status& status) {
  CHECK(status.ok() || absl::IsInvalidArgument(status)) << status;
}

// What may be asked of a spec that passes.
void UseSpec(const JobSpec& spec) {
  const absl::Status status = CheckJobSpec(spec);
  CheckRefused(status);
  if (!status.ok()) return;
  CHECK_GE(CheckpointsToKeep(spec), 1u);
  CHECK_GE(EvaluationBatchSize(spec), 1u);
  CHECK_GT(CutPeriod(spec), absl::ZeroDuration());
  CHECK_GT(CheckpointPeriod(spec), absl::ZeroDuration());
  CHECK_GE(CheckpointKeptPeriod(spec), absl::ZeroDuration());
  CHECK_LE(TotalSteps(spec, /*train_examples=*/1'000'003), kMaxSteps);
  CHECK_LE(StalenessBound(spec), kMaxStalenessBound);
  CHECK_LE(Replicas(spec), kMaxReplicas);
  CheckpointEverySteps(spec);
  OptimizerSlots(spec.optimizer());
  for (int i = 0; i < spec.model().layers_size(); ++i) {
    CHECK(!LayerName(spec.model(), i).empty());
    CHECK(!LayerKind(spec.model().layers(i)).empty());
  }
}

// A small job, which --set changes.
const JobSpec& BaseJob() {
  constexpr char kText[] = R"(
      data {
        train { idx { images: "a" labels: "b" } }
        evaluate { csv { files: "c" columns { name: "d" number {} } label { name: "e" } } }
      }
      model {
        layers { conv2d { filters: 2 kernel_size: 3 } }
        layers { dense { units: 10 } }
        loss: SPARSE_CATEGORICAL_CROSSENTROPY
      }
      optimizer { adam { learning_rate: 0.1 } }
      asynchronous {}
      batch_size: 10
      epochs: 2)";
  static const JobSpec* const job = new JobSpec(ParseJobSpec(kText, "base").value());
  return *job;
}

}  // namespace

void FeedImage(absl::string_view input) {
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(input.data()),
                                        input.size());
  for (const bool grey : {false, true}) {
    const absl::StatusOr<worker::Image> image = worker::DecodeImage(bytes, grey);
    CheckRefused(image.status());
    if (!image.ok()) continue;
    CHECK_EQ(image->channels, grey ? 1u : 3u);
    CHECK_EQ(image->pixels.size(), image->height * image->width * image->channels);
    CHECK_GT(image->pixels.size(), 0u);
  }
}

void FeedJobText(absl::string_view input) {
  const absl::StatusOr<JobSpec> spec = ParseJobSpec(input, "file");
  CheckRefused(spec.status());
  if (spec.ok()) UseSpec(*spec);
}

void FeedJobMessage(absl::string_view input) {
  JobSpec spec;
  const google::protobuf::LogSilencer silencer;
  if (spec.ParseFromArray(input.data(), static_cast<int>(input.size()))) UseSpec(spec);
}

// Lines, one after the other.
void FeedJobField(absl::string_view input) {
  JobSpec spec = BaseJob();
  while (!input.empty()) {
    const absl::string_view line = input.substr(0, input.find('\n'));
    CheckRefused(SetField(line, &spec));
    input.remove_prefix(std::min(input.size(), line.size() + 1));
  }
  UseSpec(spec);
}

void FeedKeras(absl::string_view input) {
  const auto model = client::ConvertKerasModel(input, "file");
  CheckRefused(model.status());
  if (model.ok()) CheckRefused(CheckModelSpec(model->model));
}

void FeedSafetensors(absl::string_view input) {
  if (input.size() < kSafetensorsLengthBytes) return;
  const auto length =
      ParseSafetensorsLength("file", input.substr(0, kSafetensorsLengthBytes), input.size());
  CheckRefused(length.status());
  if (!length.ok()) return;
  const auto header =
      ParseSafetensorsHeader("file", input.substr(kSafetensorsLengthBytes, *length), input.size());
  CheckRefused(header.status());
  if (!header.ok()) return;
  CHECK_EQ(header->bytes + header->value_bytes(), input.size());
  for (const SafetensorsEntry& tensor : header->tensors) CHECK_LE(tensor.begin, tensor.end);
  SafetensorsHeader again = *header;
  CheckRefused(EncodeSafetensorsHeader("file", &again).status());
}

// The first byte says how many follow that cut the rest into slices.
void FeedWire(absl::string_view input) {
  if (input.empty()) return;
  std::vector<size_t> cuts(std::min<size_t>(static_cast<uint8_t>(input[0]) % 8, input.size() - 1));
  const std::string bytes(input.substr(1 + cuts.size()));
  for (size_t i = 0; i < cuts.size(); ++i) {
    cuts[i] = static_cast<uint8_t>(input[1 + i]) * bytes.size() / 255;
  }
  std::sort(cuts.begin(), cuts.end());
  const grpc::ByteBuffer buffer = ToBuffer(CutAt(bytes, cuts));
  const google::protobuf::LogSilencer silencer;
  PushRequest push;
  const bool valid = push.ParseFromString(bytes);
  const auto decoded = DecodePush(buffer);
  CHECK_EQ(decoded.ok(), valid) << decoded.status();
  if (valid) CHECK_EQ(decoded->refusal.ok(), HasUsablePieces(push)) << decoded->refusal;
  CheckRefused(DecodePull(buffer).status());
  PullRequest pull;
  CHECK_EQ(DecodePullRequest(buffer).ok(), pull.ParseFromString(bytes));
}

}  // namespace millrace::testing
