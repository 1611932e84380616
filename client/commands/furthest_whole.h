// The furthest checkpoint of a directory that a job can go on from.
#ifndef MILLRACE_CLIENT_COMMANDS_FURTHEST_WHOLE_H_
#define MILLRACE_CLIENT_COMMANDS_FURTHEST_WHOLE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/interrupt.h"
#include "common/checkpoint/checkpoint_reader.h"

namespace millrace::client {

// What may take long says what it does, and can be ended.
struct Reading {
  const Interrupt* interrupt;                    // Not owned.
  std::function<void(const std::string&)> tell;  // Is given what the user should know. Sentences.
};

// Of those that led up to the newest one the one with the most steps of which every byte is as
// written (FurthestFirst): reads all of it. Tells of further ones that are damaged; instead of one
// that is, only what led up to it is taken. Null: there is none at all.
// DATA_LOSS: none is whole; CANCELLED: interrupted;
// FAILED_PRECONDITION: of a newer format; UNAVAILABLE.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenFurthestWhole(const std::string& directory,
                                                              const Reading& reading);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_FURTHEST_WHOLE_H_
