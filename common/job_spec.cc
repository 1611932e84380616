#include "common/job_spec.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/proto_duration.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace millrace {
namespace {

constexpr uint32_t kDefaultStalenessBound = 4;
constexpr uint32_t kDefaultEvaluationBatchSize = 256;
constexpr absl::Duration kDefaultCutPeriod = absl::Seconds(10);

// Keeps what the parser complains of, with the place in front.
class ErrorList final : public google::protobuf::io::ErrorCollector {
 public:
  explicit ErrorList(absl::string_view file_name) : file_name_(file_name) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    // Counted from 0; -1 where an error belongs to the file as a whole.
    const std::string place =
        line < 0 ? std::string() : absl::StrCat(":", line + 1, ":", column + 1);
    errors_.push_back(absl::StrCat(file_name_, place, ": ", message));
  }

  std::string Join() const { return absl::StrJoin(errors_, "\n"); }

 private:
  const absl::string_view file_name_;
  std::vector<std::string> errors_;
};

}  // namespace

absl::StatusOr<JobSpec> ParseJobSpec(absl::string_view text, absl::string_view file_name) {
  ErrorList errors(file_name);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  JobSpec spec;
  if (!parser.ParseFromString(std::string(text), &spec)) {
    return absl::InvalidArgumentError(errors.Join());
  }
  return spec;
}

uint32_t StalenessBound(const JobSpec& spec) {
  if (spec.has_synchronous()) return 0;
  return spec.asynchronous().has_staleness_bound() ? spec.asynchronous().staleness_bound()
                                                   : kDefaultStalenessBound;
}

uint32_t Replicas(const JobSpec& spec) {
  return spec.has_synchronous() ? spec.synchronous().replicas() : 0;
}

absl::Duration CutPeriod(const JobSpec& spec) {
  return spec.cuts().has_period() ? FromProto(spec.cuts().period()) : kDefaultCutPeriod;
}

uint32_t EvaluationBatchSize(const JobSpec& spec) {
  const uint32_t size = spec.evaluation().batch_size();
  return size == 0 ? kDefaultEvaluationBatchSize : size;
}

uint64_t TotalSteps(const JobSpec& spec, uint64_t train_examples) {
  if (spec.length_case() == JobSpec::kSteps) return std::min(spec.steps(), kMaxSteps);
  const uint64_t batch_size = spec.batch_size();
  const uint64_t epoch = train_examples / batch_size + (train_examples % batch_size != 0);
  if (epoch != 0 && spec.epochs() > kMaxSteps / epoch) return kMaxSteps;
  return spec.epochs() * epoch;
}

std::string LayerName(const ModelSpec& model, int layer) {
  const LayerSpec& spec = model.layers(layer);
  if (!spec.name().empty()) return spec.name();
  const auto* kind = LayerSpec::descriptor()->FindFieldByNumber(spec.kind_case());
  return absl::StrCat(kind->name(), "_", layer);
}

}  // namespace millrace
