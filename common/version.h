// Which Millrace this is.
#ifndef MILLRACE_COMMON_VERSION_H_
#define MILLRACE_COMMON_VERSION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// For people: "0.1.0 (build cb558b3545850ed1)". The build is the beginning of the build id that
// the linker gave the program that runs, or "unknown": two files of the same program have the same
// one, as good as surely, only where they were linked of the same code.
std::string Version();

// The same, with a name: "ps 0.1.0 (build cb558b3545850ed1)".
std::string VersionText(absl::string_view program);

}  // namespace millrace

#endif  // MILLRACE_COMMON_VERSION_H_
