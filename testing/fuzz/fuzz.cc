// libFuzzer's way into the targets: fuzz --target=NAME [libFuzzer's flags and folders]. `fuzz
// --targets` lists them, each with the folders of its known inputs.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "testing/fuzz/fuzz_target.h"

namespace millrace::testing {
namespace {

const FuzzTarget* chosen = nullptr;

void ListTargets() {
  for (const FuzzTarget& target : FuzzTargets()) {
    std::cout << target.name << " " << absl::StrJoin(InputFolders(target), " ") << "\n";
  }
}

void Choose(absl::string_view argument) {
  if (!absl::ConsumePrefix(&argument, "--target=")) return;
  for (const FuzzTarget& target : FuzzTargets()) {
    if (target.name == argument) chosen = &target;
  }
}

}  // namespace
}  // namespace millrace::testing

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace millrace::testing;  // NOLINT: the entry point has to be outside.
  for (int i = 1; i < *argc; ++i) {
    if (absl::string_view((*argv)[i]) == "--targets") {
      ListTargets();
      std::exit(0);
    }
    Choose((*argv)[i]);
  }
  if (chosen != nullptr) return 0;
  std::cerr << "fuzz: --target=NAME; --targets lists the names\n";
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::testing::chosen->feed(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
