#include "client/keras/keras_prune.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace millrace::client {
namespace {

using LayersByName = std::map<std::string, const LayerSpec*>;

LayersByName ByName(const KerasGraph& graph) {
  LayersByName layers;
  for (const LayerSpec& layer : graph.layers) layers.emplace(layer.name(), &layer);
  return layers;
}

// Names of the layers that the outputs follow from.
std::set<std::string> UsedLayers(const KerasGraph& graph, const LayersByName& layers) {
  std::set<std::string> used;
  std::vector<std::string> open = graph.outputs;
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    const auto found = layers.find(name);
    if (found == layers.end() || !used.insert(name).second) continue;
    open.insert(open.end(), found->second->inputs().begin(), found->second->inputs().end());
  }
  return used;
}

// New names, by the old ones, of layers that take the place of one that is not used.
std::map<std::string, std::string> Successors(const KerasGraph& graph,
                                              const std::set<std::string>& used) {
  std::map<std::string, std::string> names;
  std::set<std::string> taken;
  for (const LayerSpec& layer : graph.layers) {
    const std::string& owner = layer.variables_of();
    if (owner.empty() || used.count(layer.name()) == 0 || used.count(owner) > 0) continue;
    if (taken.insert(owner).second) names[layer.name()] = owner;
  }
  return names;
}

void Rename(const std::map<std::string, std::string>& names, std::string* name) {
  const auto found = names.find(*name);
  if (found != names.end()) *name = found->second;
}

}  // namespace

void LeaveOutUnusedLayers(KerasGraph* graph) {
  const LayersByName layers = ByName(*graph);
  const std::set<std::string> used = UsedLayers(*graph, layers);
  if (used.size() == graph->layers.size()) return;
  const std::map<std::string, std::string> names = Successors(*graph, used);
  std::vector<LayerSpec> kept;
  std::set<std::string> kept_names;
  for (const LayerSpec& layer : graph->layers) {
    if (used.count(layer.name()) == 0) continue;
    LayerSpec& copy = kept.emplace_back(layer);
    for (std::string& input : *copy.mutable_inputs()) Rename(names, &input);
    Rename(names, copy.mutable_name());
    if (copy.name() == copy.variables_of()) {
      const LayerSpec& owner = *layers.at(copy.name());
      copy.clear_variables_of();
      if (owner.has_trainable()) copy.set_trainable(owner.trainable());
    }
    kept_names.insert(copy.name());
  }
  for (std::string& output : graph->outputs) Rename(names, &output);
  const auto is_gone = [&](const KerasLayerVariables& one) {
    return kept_names.count(one.layer) == 0;
  };
  auto& variables = graph->variables;
  variables.erase(std::remove_if(variables.begin(), variables.end(), is_gone), variables.end());
  graph->layers = std::move(kept);
}

}  // namespace millrace::client
