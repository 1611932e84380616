// The parts of CheckJobSpec that have files of their own.
#ifndef MILLRACE_COMMON_SPEC_CHECKS_H_
#define MILLRACE_COMMON_SPEC_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "protos/csv.pb.h"
#include "protos/data.pb.h"
#include "protos/images.pb.h"
#include "protos/job.pb.h"
#include "protos/model.pb.h"

namespace millrace {

// INVALID_ARGUMENT: "model.layers[2].dense.units: 0; must be at least 1".
absl::Status CheckModelSpec(const ModelSpec& model);

// The part of CheckModelSpec for a layer by itself. `path`: "model.layers[2]".
absl::Status CheckLayerSpec(const LayerSpec& layer, absl::string_view path);

// The part of CheckModelSpec for losses and metrics. INVALID_ARGUMENT:
// "model.outputs[1].huber_delta: ...", or of the short form "model.loss: ...".
absl::Status CheckOutputs(const ModelSpec& model);

// Whether each output can find its label among those of data.train, by its name or as the only one.
// INVALID_ARGUMENT: "model.outputs[1].label: not set; must be one of 'digit', 'size', ...".
// REQUIRES: the model and the data were checked.
absl::Status CheckOutputLabels(const ModelSpec& model, const Dataset& train);

// Whether the labels that the outputs learn are those of data.evaluate too, at the same places.
// INVALID_ARGUMENT: "data.evaluate.numpy.label[1].name: 'z'; must be 'y', as in data.train".
// "data.evaluate: labels 'label'; must be labels 'fine', 'coarse', as in data.train". REQUIRES: the
// model and the data were checked, and CheckOutputLabels.
absl::Status CheckEvaluationLabels(const ModelSpec& model, const DataSpec& data);

// Of job.evaluation, and of what its fields need of the others. INVALID_ARGUMENT:
// "evaluation.early_stopping.metric: ...". REQUIRES: the model and the data were checked.
absl::Status CheckEvaluationSpec(const JobSpec& job);

// INVALID_ARGUMENT: "data.train.idx.images: ...".
absl::Status CheckDataSpec(const DataSpec& data);

// Parts of CheckDataSpec: all of these formats but the names of files. `path`:
// "data.train.numpy".
absl::Status CheckNumpyArrays(const NumpyArrays& spec, const std::string& path);
absl::Status CheckRecordFeatures(const TfRecordFiles& spec, const std::string& path);
absl::Status CheckCsvFiles(const CsvFiles& files, const std::string& path);

// Of all but the folder's name.
absl::Status CheckImageFolder(const ImageFolder& folder, const std::string& path);

absl::Status CheckNormalization(const Normalization& normalization, const std::string& path);
absl::Status CheckAugmentation(const Augmentation& augmentation, const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_COMMON_SPEC_CHECKS_H_
