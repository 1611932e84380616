// What workers compute on, for people and for programs.
#ifndef MILLRACE_CLIENT_COMMANDS_DEVICES_TEXT_H_
#define MILLRACE_CLIENT_COMMANDS_DEVICES_TEXT_H_

#include <string>

#include "nlohmann/json_fwd.hpp"
#include "protos/job.pb.h"

namespace millrace::client {

// "11.2 GiB of 139.7 GiB", and "93%". Empty where nothing is known, as by default.
std::string DeviceMemoryText(const DeviceUse& use);
std::string DeviceBusyText(const DeviceUse& use);

// "device_memory" and "device_memory_used" (bytes) and "device_busy" (a share). Nothing where
// nothing is known.
void AddDeviceUse(const DeviceUse& use, nlohmann::ordered_json* json);

// A table with a line for each worker of a job; empty: there are none, or they do not say.
std::string DevicesText(const JobExplanation& explanation);

// A list of "name", "device", "steps_done", and of workers with GPUs what AddDeviceUse adds.
nlohmann::ordered_json DevicesJson(const JobExplanation& explanation);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_DEVICES_TEXT_H_
