#include "client/keras/keras_optimizer_notes.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/keras/keras_training.h"
#include "client/keras/keras_values.h"
#include "common/printable.h"
#include "google/protobuf/text_format.h"

namespace millrace::client {
namespace {

// Whether a field asks for something.
bool IsAsked(const KerasJson& fields, const char* field) {
  const KerasJson& value = ValueAt(fields, field);
  return !value.is_null() && value != false && value != 0;
}

// What can be done for what no optimizer of ours, or not this one, has.
std::string InPlaceOfExtras(const KerasJson& fields) {
  std::string advice;
  if (IsAsked(fields, "weight_decay")) {
    advice +=
        " Of optimizers, adamw alone has weight decay; without momentum, an l2 of half of it in "
        "the regularizers of the layers does the same as SGD's.";
  }
  if (IsAsked(fields, "use_ema")) {
    advice += " Nothing stands for use_ema: variables are not averaged.";
  }
  if (IsAsked(fields, "gradient_accumulation_steps")) {
    absl::StrAppend(&advice, " For gradient_accumulation_steps, take a batch_size ",
                    ShowJson(fields["gradient_accumulation_steps"]),
                    " times as large: the mean gradient is the same.");
  }
  if (IsAsked(fields, "loss_scale_factor")) {
    advice += " No loss needs a scale here: gradients are float32.";
  }
  return advice;
}

// The optimizer as a job file has it, without what cannot be converted. Empty: it has more of that.
std::string WithoutExtras(KerasJson optimizer, bool in_keras2_hdf5) {
  if (FindObject(optimizer, "config") == nullptr) return "";
  // Adam's weight decay may stay.
  for (const bool with_decay : {true, false}) {
    for (const char* field : {"use_ema", "ema_overwrite_frequency", "gradient_accumulation_steps",
                              "loss_scale_factor"}) {
      optimizer["config"].erase(field);
    }
    if (!with_decay) optimizer["config"].erase("weight_decay");
    const auto spec = ConvertKerasOptimizer(optimizer, in_keras2_hdf5);
    if (!spec.ok()) continue;
    google::protobuf::TextFormat::Printer printer;
    printer.SetSingleLineMode(true);
    printer.SetUseShortRepeatedPrimitives(true);
    std::string text;
    printer.PrintToString(*spec, &text);
    return absl::StrCat("optimizer { ", text, text.empty() || text.back() == ' ' ? "}" : " }");
  }
  return "";
}

}  // namespace

std::vector<std::string> NotesOfKerasOptimizer(const KerasJson& optimizer,
                                               const OptimizerSpec& spec) {
  std::vector<std::string> notes;
  const std::string name = KerasClassOf(optimizer);
  if (absl::EndsWith(name, "LossScaleOptimizer")) {
    notes.push_back(
        "LossScaleOptimizer is left out, and the optimizer within it is kept: gradients are "
        "float32 here, which need no scale.");
  }
  if (!spec.has_adamw()) return notes;
  if (!absl::EndsWith(absl::AsciiStrToLower(name), "adamw")) {
    notes.push_back(
        "Adam with weight_decay becomes adamw, which computes the same: the decay is apart from "
        "the gradient.");
  }
  notes.push_back(
      "The weight decay is of all trained variables: what exclude_from_weight_decay named, Keras "
      "does not write into its file.");
  return notes;
}

std::string NoteOfRefusedKerasOptimizer(const KerasJson& optimizer, const absl::Status& why,
                                        bool in_keras2_hdf5) {
  const KerasJson& fields = ValueAt(optimizer, "config");
  const bool has_schedule = ValueAt(fields, "learning_rate").is_object();
  std::string note =
      absl::StrCat("Left out of how the model was compiled: ", std::string(why.message()),
                   ". The job has no optimizer now: all of ",
                   PrintableName(KerasClassOf(optimizer)), " is left out, with its learning rate",
                   has_schedule ? " and its schedule." : ".", InPlaceOfExtras(fields));
  const std::string without = WithoutExtras(optimizer, in_keras2_hdf5);
  absl::StrAppend(&note,
                  without.empty() ? " Set optimizer in the job file."
                                  : " What is left of it, to be set in the job file: ",
                  without);
  return note;
}

}  // namespace millrace::client
