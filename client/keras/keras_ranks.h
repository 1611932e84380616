// How many dimensions the values of layers have, where Keras has not written it down: Keras 2's
// .h5 files tell it of the inputs only. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_RANKS_H_
#define MILLRACE_CLIENT_KERAS_KERAS_RANKS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/keras/keras_json.h"
#include "protos/model.pb.h"

namespace millrace::client {

// The dimensions of the input of a layer of Keras's, with the batch's, as it was built or as the
// layer itself says. 0: it is not written there.
size_t KerasInputRank(const KerasJson& layer);

// Ranks count the batch's dimension; 0: not known. Layers may be added in any order.
class KerasRanks {
 public:
  // `name_of`: the name of the layer or the feature that a reference stands for, as far as is known
  // when it is called.
  using NameOf = std::function<std::string(const std::string& reference)>;
  explicit KerasRanks(NameOf name_of) : name_of_(std::move(name_of)) {}

  // What a reference stands for has this rank, if that is not 0.
  void Note(const std::string& reference, size_t rank);

  // `layer` has its name, and references for inputs.
  void Add(const LayerSpec& layer);

  size_t Of(const std::string& reference);

 private:
  struct Layer {
    size_t rank = 0;     // Whatever comes in. 0: that of its inputs...
    size_t further = 0;  // ...and so many more.
    std::vector<std::string> inputs;
  };
  using Ranks = std::map<std::string, size_t>;

  size_t OfName(const std::string& name, Ranks* seen);
  size_t OfInputs(const Layer& layer, Ranks* seen);

  const NameOf name_of_;
  std::map<std::string, Layer> layers_;
  Ranks known_;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_RANKS_H_
