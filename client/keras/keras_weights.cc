#include "client/keras/keras_weights.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/tensor_files/tensor_writer.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

constexpr char kOldModelGroup[] = "model_weights";

std::string ShowShape(const std::vector<uint64_t>& shape) {
  const auto show = [](std::string* out, uint64_t size) {
    absl::StrAppend(out, size == 0 ? "?" : absl::StrCat(size));
  };
  return absl::StrCat("[", absl::StrJoin(shape, ", ", show), "]");
}

bool Fits(const std::vector<uint64_t>& shape, const std::vector<uint64_t>& expected) {
  return std::equal(shape.begin(), shape.end(), expected.begin(), expected.end(),
                    [](uint64_t is, uint64_t wanted) { return wanted == 0 || is == wanted; });
}

// A list that Keras may have divided: NAME, or NAME0, NAME1 and so on.
absl::StatusOr<std::vector<std::string>> TextList(const Hdf5File& file, const std::string& group,
                                                  const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> texts, file.Texts(group, name));
  for (int part = 0; part == 0 || !texts.empty(); ++part) {
    MILLRACE_ASSIGN_OR_RETURN(const auto more, file.Texts(group, absl::StrCat(name, part)));
    if (more.empty()) break;
    texts.insert(texts.end(), more.begin(), more.end());
  }
  return texts;
}

class WeightFinder {
 public:
  WeightFinder(const Hdf5File& file, const std::vector<KerasLayerVariables>& layers)
      : file_(file), layers_(layers) {}

  absl::StatusOr<std::vector<KerasWeight>> Run() {
    MILLRACE_ASSIGN_OR_RETURN(const bool by_names, FindOldGroup());
    for (size_t i = 0; i < layers_.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(by_names ? AddByName(&i) : AddByClass(layers_[i]));
    }
    return std::move(weights_);
  }

 private:
  absl::Status Error(const std::string& path, const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.name(), ": ", PrintableName(path), ": ", what));
  }

  // Whether the file knows layers by their names.
  absl::StatusOr<bool> FindOldGroup() {
    if (file_.Has(kOldModelGroup)) old_group_ = kOldModelGroup;
    MILLRACE_ASSIGN_OR_RETURN(const auto names, TextList(file_, old_group_, "layer_names"));
    return !names.empty();
  }

  absl::Status Add(const std::string& path, const KerasLayerVariables& layer,
                   const KerasVariable& variable) {
    if (!file_.Has(path)) {
      return Error(path, absl::StrCat("not there; must be '", PrintableName(variable.name),
                                      "' of layer '", PrintableName(layer.layer), "'"));
    }
    MILLRACE_ASSIGN_OR_RETURN(std::vector<uint64_t> shape, file_.Shape(path));
    if (!Fits(shape, variable.shape)) {
      return Error(
          path, absl::StrCat("its shape is ", ShowShape(shape), "; '", PrintableName(variable.name),
                             "' must be ", ShowShape(variable.shape)));
    }
    weights_.push_back({variable.name, std::move(shape), path});
    return absl::OkStatus();
  }

  // Keras 3's files, and those of Keras 2.12, which called the groups otherwise.
  absl::Status AddByClass(const KerasLayerVariables& layer) {
    std::string group = layer.group;
    if (!file_.Has(group)) {
      const std::string old =
          absl::StrReplaceAll(group, {{"layers", "_layer_checkpoint_dependencies"}});
      if (file_.Has(old)) group = old;
    }
    for (size_t i = 0; i < layer.variables.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(Add(absl::StrCat(group, "/vars/", i), layer, layer.variables[i]));
    }
    const std::string next = absl::StrCat(group, "/vars/", layer.variables.size());
    if (!file_.Has(next)) return absl::OkStatus();
    return Error(next, absl::StrCat("layer '", PrintableName(layer.layer), "' has ",
                                    layer.variables.size(), " variables, and must have no more"));
  }

  // All of the layers that are, or are in, one of the whole model's: those that are trained first.
  absl::Status AddByName(size_t* next) {
    const std::string top_layer = layers_[*next].top_layer;
    std::vector<std::pair<const KerasLayerVariables*, const KerasVariable*>> variables;
    for (size_t i = *next; i < layers_.size() && layers_[i].top_layer == top_layer; *next = i++) {
      for (const KerasVariable& one : layers_[i].variables)
        variables.emplace_back(&layers_[i], &one);
    }
    std::stable_partition(variables.begin(), variables.end(),
                          [](const auto& one) { return one.second->trainable; });
    const std::string group = absl::StrCat(old_group_, old_group_.empty() ? "" : "/", top_layer);
    if (!file_.Has(group)) return Error(group, "not there; must be a layer's weights");
    MILLRACE_ASSIGN_OR_RETURN(const auto names, TextList(file_, group, "weight_names"));
    if (names.size() != variables.size()) {
      return Error(group, absl::StrCat("it has ", names.size(), " weights; layer '",
                                       PrintableName(top_layer), "' must have ", variables.size()));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(
          Add(absl::StrCat(group, "/", names[i]), *variables[i].first, *variables[i].second));
    }
    return absl::OkStatus();
  }

  const Hdf5File& file_;
  const std::vector<KerasLayerVariables>& layers_;
  std::string old_group_;
  std::vector<KerasWeight> weights_;
};

}  // namespace

absl::StatusOr<std::vector<KerasWeight>> FindKerasWeights(
    const Hdf5File& file, const std::vector<KerasLayerVariables>& layers) {
  return WeightFinder(file, layers).Run();
}

absl::Status WriteKerasWeights(const Hdf5File& file, const std::vector<KerasWeight>& weights,
                               const std::string& path) {
  std::vector<TensorInfo> tensors;
  for (const KerasWeight& weight : weights) tensors.push_back({weight.name, weight.shape});
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<TensorWriter> writer,
                            CreateTensorWriter(path, std::move(tensors)));
  for (const KerasWeight& weight : weights) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<float> values, file.Values(weight.path));
    MILLRACE_RETURN_IF_ERROR(writer->Append(values));
  }
  return writer->Commit();
}

}  // namespace millrace::client
