// Where a command writes.
#ifndef MILLRACE_CLIENT_CONSOLE_H_
#define MILLRACE_CLIENT_CONSOLE_H_

#include <functional>
#include <ostream>

namespace millrace::client {

// A value type; the streams are not owned.
struct Console {
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  // A terminal that lines can be drawn over on.
  bool out_is_terminal = false;
  // Its width in columns, now.
  std::function<int()> width = nullptr;
};

// The process's standard output and standard error.
Console SystemConsole();

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_CONSOLE_H_
