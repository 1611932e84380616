#include "worker/model/graph.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "worker/model/invalid.h"

namespace millrace::worker {
namespace {

constexpr size_t kMostNamesTold = 20;  // In a message.

using IndexByName = absl::flat_hash_map<std::string, size_t>;

IndexByName LayersByName(const ModelSpec& spec) {
  IndexByName layers;
  for (int i = 0; i < spec.layers_size(); ++i) layers.emplace(spec.layers(i).name(), i);
  return layers;
}

// "a, b and 3 more".
std::string SomeNames(const std::vector<std::string>& names) {
  const size_t told = std::min(names.size(), kMostNamesTold);
  std::string list = absl::StrJoin(absl::MakeConstSpan(names).first(told), ", ");
  if (told < names.size()) absl::StrAppend(&list, " and ", names.size() - told, " more");
  return list;
}

std::string LayerNames(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : spec.layers()) names.push_back(layer.name());
  return SomeNames(names);
}

std::string FeatureNames(const std::vector<TensorSpec>& features) {
  std::vector<std::string> names;
  for (const TensorSpec& feature : features) names.push_back(feature.name);
  return SomeNames(names);
}

absl::Status AtLayer(const ModelSpec& spec, size_t layer, absl::string_view what) {
  return Invalid(LayerPath(layer, spec.layers(static_cast<int>(layer)).name()), ": ", what);
}

// Looks up the names of inputs.
class InputNames {
 public:
  InputNames(const ModelSpec& spec, const std::vector<TensorSpec>& features)
      : spec_(spec), features_(features), layers_(LayersByName(spec)) {
    for (size_t i = 0; i < features.size(); ++i) features_by_name_.emplace(features[i].name, i);
  }

  absl::StatusOr<std::vector<Source>> SourcesOf(size_t layer) const {
    const LayerSpec& layer_spec = spec_.layers(static_cast<int>(layer));
    if (layer_spec.inputs().empty()) return DefaultSources(layer);
    std::vector<Source> sources;
    for (int i = 0; i < layer_spec.inputs_size(); ++i) {
      absl::StatusOr<Source> source = Find(layer_spec.inputs(i));
      if (!source.ok()) {
        return AtLayer(spec_, layer,
                       absl::StrCat("inputs[", i, "] is '", layer_spec.inputs(i), "', ",
                                    source.status().message()));
      }
      sources.push_back(*source);
    }
    return sources;
  }

 private:
  absl::StatusOr<std::vector<Source>> DefaultSources(size_t layer) const {
    if (layer > 0) return std::vector<Source>{{Source::kLayer, layer - 1}};
    if (features_.size() == 1) return std::vector<Source>{{Source::kFeature, 0}};
    return AtLayer(
        spec_, layer,
        absl::StrCat("inputs is empty, and the data has ", features_.size(),
                     " features; name those that it takes, of ", FeatureNames(features_)));
  }

  absl::StatusOr<Source> Find(const std::string& name) const {
    const auto layer = layers_.find(name);
    const auto feature = features_by_name_.find(name);
    if (layer != layers_.end() && feature != features_by_name_.end()) {
      return Invalid("which is a layer and a feature of the data; give the layer another name");
    }
    if (layer != layers_.end()) return Source{Source::kLayer, layer->second};
    if (feature != features_by_name_.end()) return Source{Source::kFeature, feature->second};
    return Invalid("which is no layer and no feature; there are the layers ", LayerNames(spec_),
                   " and the features ", FeatureNames(features_));
  }

  const ModelSpec& spec_;
  const std::vector<TensorSpec>& features_;
  const IndexByName layers_;
  IndexByName features_by_name_;
};

using Readers = std::vector<std::vector<size_t>>;  // Of each layer's output; one for each input.

Readers ReadersOf(const std::vector<std::vector<Source>>& sources) {
  Readers readers(sources.size());
  for (size_t layer = 0; layer < sources.size(); ++layer) {
    for (const Source& source : sources[layer]) {
      if (source.kind == Source::kLayer) readers[source.index].push_back(layer);
    }
  }
  return readers;
}

std::vector<size_t> OrderOf(const std::vector<std::vector<Source>>& sources,
                            const Readers& readers) {
  std::vector<size_t> missing(sources.size());  // Inputs that have not been computed.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<size_t>> ready;
  for (const std::vector<size_t>& of_layer : readers) {
    for (const size_t reader : of_layer) ++missing[reader];
  }
  for (size_t layer = 0; layer < sources.size(); ++layer) {
    if (missing[layer] == 0) ready.push(layer);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t layer = ready.top();
    ready.pop();
    order.push_back(layer);
    for (const size_t reader : readers[layer]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  return order;
}

// Names one circle. Each layer that is not in the order takes the output of another such one, so
// that going backwards from any of them comes to a layer again.
absl::Status CircleError(const ModelSpec& spec, const ModelGraph& graph) {
  std::vector<bool> computed(graph.sources.size());
  for (const size_t layer : graph.order) computed[layer] = true;
  size_t layer = std::find(computed.begin(), computed.end(), false) - computed.begin();
  std::vector<size_t> path;
  while (std::find(path.begin(), path.end(), layer) == path.end()) {
    path.push_back(layer);
    for (const Source& source : graph.sources[layer]) {
      if (source.kind == Source::kLayer && !computed[source.index]) {
        layer = source.index;
        break;
      }
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), layer));
  std::vector<std::string> names;
  for (const size_t member : path) names.push_back(spec.layers(static_cast<int>(member)).name());
  names.push_back(names.front());
  return AtLayer(
      spec, layer,
      absl::StrCat("it takes its own output in the end: ", absl::StrJoin(names, " takes ")));
}

absl::Status CheckAllUsed(const ModelSpec& spec, const Readers& readers,
                          const std::vector<size_t>& outputs) {
  for (size_t layer = 0; layer < readers.size(); ++layer) {
    if (!readers[layer].empty()) continue;
    if (std::find(outputs.begin(), outputs.end(), layer) != outputs.end()) continue;
    return AtLayer(spec, layer,
                   "no layer takes its output, and it is not the model's; remove it, or name it in "
                   "the inputs of another layer");
  }
  return absl::OkStatus();
}

// Of the layer whose `variables_of` is set.
absl::StatusOr<size_t> SharedLayer(const ModelSpec& spec, const IndexByName& layers,
                                   const LayerSpec& layer) {
  const auto found = layers.find(layer.variables_of());
  if (found == layers.end()) {
    return Invalid("which is no layer; there are ", LayerNames(spec));
  }
  if (layer.variables_of() == layer.name()) return Invalid("which is this layer; name another");
  const LayerSpec& shared = spec.layers(static_cast<int>(found->second));
  if (!shared.variables_of().empty()) {
    return Invalid("which has none of its own; name '", shared.variables_of(), "'");
  }
  if (shared.kind_case() != layer.kind_case()) {
    return Invalid("which is a ", LayerKind(shared), " and this a ", LayerKind(layer),
                   "; layers that share variables have one kind");
  }
  return found->second;
}

}  // namespace

absl::StatusOr<ModelGraph> ResolveGraph(const ModelSpec& spec,
                                        const std::vector<TensorSpec>& features,
                                        const std::vector<size_t>& outputs) {
  const InputNames names(spec, features);
  ModelGraph graph;
  for (int layer = 0; layer < spec.layers_size(); ++layer) {
    MILLRACE_ASSIGN_OR_RETURN(auto sources, names.SourcesOf(layer));
    graph.sources.push_back(std::move(sources));
  }
  const Readers readers = ReadersOf(graph.sources);
  graph.order = OrderOf(graph.sources, readers);
  if (graph.order.size() < graph.sources.size()) return CircleError(spec, graph);
  MILLRACE_RETURN_IF_ERROR(CheckAllUsed(spec, readers, outputs));
  return graph;
}

absl::StatusOr<std::vector<size_t>> ResolveSharing(const ModelSpec& spec) {
  const IndexByName layers = LayersByName(spec);
  std::vector<size_t> owners;
  for (int i = 0; i < spec.layers_size(); ++i) {
    const LayerSpec& layer = spec.layers(i);
    owners.push_back(i);
    if (layer.variables_of().empty()) continue;
    absl::StatusOr<size_t> shared = SharedLayer(spec, layers, layer);
    if (!shared.ok()) {
      return AtLayer(spec, i,
                     absl::StrCat("variables_of is '", layer.variables_of(), "', ",
                                  shared.status().message()));
    }
    if (layer.has_trainable()) {
      return AtLayer(spec, i,
                     absl::StrCat("trainable is set; it is what '", layer.variables_of(),
                                  "' says, whose variables it uses: leave it out"));
    }
    owners.back() = *shared;
  }
  return owners;
}

}  // namespace millrace::worker
