#include "client/commands/checkpoints_show.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/best.h"
#include "client/commands/checkpoint_choice.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "client/tensor_files/tensor_statistics.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ShowJson = nlohmann::ordered_json;

struct ShownTensor {
  std::string name;  // "dense/kernel", "dense/kernel@momentum".
  std::vector<uint64_t> shape;
  TensorStatistics statistics;
};

absl::StatusOr<std::vector<ShownTensor>> ReadTensors(const CommandContext& context,
                                                     Checkpoint* checkpoint) {
  const int arrays = context.flags.slots ? checkpoint->arrays() : 1;
  std::vector<ShownTensor> tensors;
  for (size_t variable = 0; variable < checkpoint->variables().size(); ++variable) {
    for (int array = 0; array < arrays; ++array) {
      ShownTensor& tensor = tensors.emplace_back();
      tensor.name = ArrayName(*checkpoint, variable, array);
      tensor.shape = checkpoint->variables()[variable].shape;
      MILLRACE_RETURN_IF_ERROR(ForEachPart(*context.interrupt, checkpoint, variable, array,
                                           [&tensor](absl::Span<const float> part) {
                                             tensor.statistics.Add(part);
                                             return absl::OkStatus();
                                           }));
    }
  }
  return tensors;
}

std::string ModeText(const JobSpec& spec) {
  if (spec.has_synchronous()) {
    return absl::StrCat("synchronous, ", spec.synchronous().replicas(), " replicas");
  }
  return absl::StrCat("asynchronous, staleness bound ", StalenessBound(spec));
}

std::string OptimizerName(const OptimizerSpec& optimizer) {
  const auto* kind = OptimizerSpec::descriptor()->FindFieldByNumber(optimizer.kind_case());
  return kind == nullptr ? "" : kind->name();
}

// Lines with labels; a value type.
class LabelledLines {
 public:
  void Add(const std::string& label, const std::string& value) {
    if (value.empty()) return;
    absl::StrAppend(&text_, label, std::string(13 - label.size(), ' '), Printable(value), "\n");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string BestText(const CheckpointManifest& manifest) {
  if (!manifest.has_best()) return "";
  const uint64_t number = manifest.best().checkpoint().number();
  return absl::StrCat(DescribeBest(manifest.best()), ", checkpoint ", CheckpointFolder(number),
                      number == manifest.number() ? " (this one)" : "");
}

std::string SummaryText(const std::string& path, const CheckpointManifest& manifest) {
  const JobSpec& spec = manifest.spec();
  LabelledLines lines;
  lines.Add("checkpoint", path);
  lines.Add("job", PrintableName(manifest.job_id()));
  lines.Add("name", spec.name());
  lines.Add("goes on from", absl::StrJoin(manifest.earlier_job_ids(), ", "));
  lines.Add("step",
            absl::StrCat(FormatCount(manifest.step()), " of ", FormatCount(manifest.total_steps()),
                         manifest.exact() ? ", exact" : ", some shards have more"));
  lines.Add("written", absl::FormatTime("%Y-%m-%d %H:%M:%S", FromTimestamp(manifest.written()),
                                        absl::LocalTimeZone()));
  lines.Add("took", FormatShortTime(FromProto(manifest.took())));
  lines.Add("size", absl::StrCat(FormatBytes(BytesOf(manifest)), " in ",
                                 FormatCount(static_cast<uint64_t>(manifest.shards_size())),
                                 manifest.shards_size() == 1 ? " shard" : " shards"));
  lines.Add("metrics", absl::StrJoin(FormatMetrics(ToMetrics(manifest.metrics())), "  "));
  lines.Add("best", BestText(manifest));
  if (manifest.has_stopped_early()) lines.Add("stopped", manifest.stopped_early().reason());
  lines.Add("mode", ModeText(spec));
  lines.Add("optimizer", absl::StrCat(OptimizerName(spec.optimizer()),
                                      manifest.slots().empty() ? "" : "; slots: ",
                                      absl::StrJoin(manifest.slots(), ", ")));
  lines.Add("batch size", FormatCount(spec.batch_size()));
  lines.Add("data", spec.data().directory());
  return lines.text();
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Empty where there is no finite value.
std::string NumberText(const TensorStatistics& statistics, double value) {
  return statistics.finite() == 0 ? "" : FormatMetric(value);
}

std::string TensorTable(const std::vector<ShownTensor>& tensors) {
  Table table({"VARIABLE", "SHAPE", "MIN", "MAX", "MEAN", "NORM", "NAN", "INF", "BYTES"});
  for (const ShownTensor& tensor : tensors) {
    const TensorStatistics& of = tensor.statistics;
    table.AddRow({PrintableName(tensor.name), ShapeText(tensor.shape), NumberText(of, of.min()),
                  NumberText(of, of.max()), NumberText(of, of.mean()), NumberText(of, of.norm()),
                  FormatCount(of.nan()), FormatCount(of.infinite()),
                  FormatCount(of.count() * sizeof(float))});
  }
  return table.ToString();
}

ShowJson TensorsJson(const std::vector<ShownTensor>& tensors) {
  ShowJson json = ShowJson::array();
  for (const ShownTensor& tensor : tensors) {
    const TensorStatistics& of = tensor.statistics;
    const auto number = [&of](double value) {
      return of.finite() == 0 ? ShowJson(nullptr) : ShowJson(value);
    };
    json.push_back({{"name", tensor.name},
                    {"shape", tensor.shape},
                    {"min", number(of.min())},
                    {"max", number(of.max())},
                    {"mean", number(of.mean())},
                    {"norm", number(of.norm())},
                    {"nan", of.nan()},
                    {"infinite", of.infinite()},
                    {"bytes", of.count() * sizeof(float)}});
  }
  return json;
}

ShowJson SummaryJson(const std::string& path, const CheckpointManifest& manifest) {
  const JobSpec& spec = manifest.spec();
  ShowJson best = manifest.has_best() ? BestJson(manifest.best()) : ShowJson(nullptr);
  return {{"path", path},
          {"number", manifest.number()},
          {"job_id", manifest.job_id()},
          {"name", spec.name()},
          {"earlier_job_ids", std::vector<std::string>(manifest.earlier_job_ids().begin(),
                                                       manifest.earlier_job_ids().end())},
          {"step", manifest.step()},
          {"total_steps", manifest.total_steps()},
          {"exact", manifest.exact()},
          {"written", absl::FormatTime(absl::RFC3339_full, FromTimestamp(manifest.written()),
                                       absl::UTCTimeZone())},
          {"bytes", BytesOf(manifest)},
          {"shards", manifest.shards_size()},
          {"metrics", ToMetrics(manifest.metrics())},
          {"best", std::move(best)},
          {"replicas", Replicas(spec)},
          {"optimizer", OptimizerName(spec.optimizer())},
          {"slots", std::vector<std::string>(manifest.slots().begin(), manifest.slots().end())},
          {"batch_size", spec.batch_size()},
          {"seed", spec.seed()},
          {"data", spec.data().directory()}};
}

absl::StatusOr<ExitCode> ShowOne(const CommandContext& context, const CheckpointName& name) {
  MILLRACE_ASSIGN_OR_RETURN(const auto checkpoint, OpenCheckpoint(name));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<ShownTensor> tensors,
                            ReadTensors(context, checkpoint.get()));
  const CheckpointManifest& manifest = checkpoint->manifest();
  const std::string path = CheckpointPath(name.directory, manifest.number());
  if (context.flags.json) {
    ShowJson json = SummaryJson(path, manifest);
    json["variables"] = TensorsJson(tensors);
    *context.console.out << JsonLine(json) << std::flush;
  } else {
    *context.console.out << SummaryText(path, manifest) << "\n"
                         << TensorTable(tensors) << std::flush;
  }
  return ExitCode::kSucceeded;
}

}  // namespace

absl::StatusOr<ExitCode> RunCheckpointsShow(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointName name, ParsePath(context.flags.path));
  const auto shown = ShowOne(context, name);
  if (!shown.ok()) return OfferOneBefore(name, shown.status());
  return shown;
}

}  // namespace millrace::client
