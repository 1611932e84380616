#include "client/keras/keras_prune.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/printable.h"

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

// Names of the layers that can be computed, each after those that it takes.
std::set<std::string> ComputableLayers(const LayersByName& layers) {
  std::map<std::string, size_t> missing;
  std::map<std::string, std::vector<std::string>> readers;
  std::vector<std::string> open;
  for (const auto& [name, layer] : layers) {
    for (const std::string& input : layer->inputs()) {
      if (layers.count(input) == 0) continue;
      ++missing[name];
      readers[input].push_back(name);
    }
    if (missing.count(name) == 0) open.push_back(name);
  }
  std::set<std::string> computable;
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    computable.insert(name);
    for (const std::string& reader : readers[name]) {
      if (--missing[reader] == 0) open.push_back(reader);
    }
  }
  return computable;
}

void Rename(const std::map<std::string, std::string>& names, std::string* name) {
  const auto found = names.find(*name);
  if (found != names.end()) *name = found->second;
}

}  // namespace

absl::Status CheckNoCircle(const KerasGraph& graph) {
  const LayersByName layers = ByName(graph);
  const std::set<std::string> computable = ComputableLayers(layers);
  const auto is_not = [&](const auto& one) { return computable.count(one.first) == 0; };
  const auto first = std::find_if(layers.begin(), layers.end(), is_not);
  if (first == layers.end()) return absl::OkStatus();
  // Each of them takes another such one: backwards a layer comes again.
  std::set<std::string> seen;
  std::string name = first->first;
  while (seen.insert(name).second) {
    const auto& inputs = layers.at(name)->inputs();
    name = *std::find_if(inputs.begin(), inputs.end(), [&](const std::string& input) {
      return layers.count(input) > 0 && computable.count(input) == 0;
    });
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", PrintableName(name),
                   "' takes its own output in the end; must take what does not follow from it"));
}

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
