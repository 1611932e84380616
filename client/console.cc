#include "client/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

namespace millrace::client {
namespace {

constexpr int kUnknownWidth = 80;

int TerminalWidth() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknownWidth;
  return size.ws_col;
}

// TERM=dumb: it cannot clear a line.
bool IsTerminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

}  // namespace

Console SystemConsole() {
  return {.out = &std::cout,
          .err = &std::cerr,
          .out_is_terminal = IsTerminal(),
          .width = TerminalWidth};
}

}  // namespace millrace::client
