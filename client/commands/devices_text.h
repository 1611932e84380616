// What a job's workers compute on, for people and for programs.
#ifndef MILLRACE_CLIENT_COMMANDS_DEVICES_TEXT_H_
#define MILLRACE_CLIENT_COMMANDS_DEVICES_TEXT_H_

#include <string>

#include "nlohmann/json_fwd.hpp"
#include "protos/job.pb.h"

namespace millrace::client {

// A table with a line for each worker; empty: there are none, or they do not say.
std::string DevicesText(const JobExplanation& explanation);

// A list of "name", "device", "steps_done", and of workers with GPUs "device_memory" and
// "device_memory_used" (bytes) and "device_busy" (a share).
nlohmann::ordered_json DevicesJson(const JobExplanation& explanation);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_DEVICES_TEXT_H_
