// What the command line says.
#ifndef MILLRACE_CLIENT_COMMANDS_FLAGS_H_
#define MILLRACE_CLIENT_COMMANDS_FLAGS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace millrace::client {

// Each command has some of them; the others keep their defaults. A value type.
struct Flags {
  std::string command;   // "train", "submit", ...
  std::string job_file;  // JOB.textproto
  std::string job_id;
  std::string data;              // Replaces data.directory; empty: as the job file says.
  std::vector<std::string> set;  // "PATH=VALUE", applied in order.
  std::string cluster;           // The coordinator's HOST:PORT; empty: an embedded cluster.
  int ps = 1;                    // Of an embedded cluster.
  int workers = 2;
  std::string state_dir;                      // Of an embedded cluster; empty: a temporary one.
  std::string export_file;                    // Empty: none.
  absl::Duration timeout = absl::Minutes(1);  // Of a cancellation.
  bool json = false;
  bool verbose = false;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_FLAGS_H_
