#!/usr/bin/env bash
# Runs every test, and runs them again under the sanitizers: ThreadSanitizer for what is concurrent,
# AddressSanitizer and UndefinedBehaviorSanitizer for everything. The last of these builds is
# clang's, which checks the annotations of locks besides, and with which libFuzzer looks for inputs
# that break something.
#
#   ./test.sh            all of it
#   ./test.sh opt        without sanitizers, in less than half the time (also: asan, tsan)
#
# Tests on real data skip unless MILLRACE_TEST_DATA names a folder that holds it (CONTRIBUTING.md).
set -euo pipefail
cd "$(dirname "$0")"

phases=("$@")
[[ $# -gt 0 ]] || phases=(opt tsan asan)

timed() {
  local name=$1 start=$SECONDS
  shift
  "$@"
  echo "== $name: $((SECONDS - start)) s"
}

run_phase() {
  case $1 in
    opt)
      bazel build --nobuild //... # That it can be built: tests need less.
      bazel test //...
      ;;
    tsan) bazel test --config=tsan //... ;;
    asan)
      bazel test --config=asan //...
      timed "fuzzing" tools/fuzz.sh
      ;;
    *)
      echo "test.sh: unknown phase '$1'; the phases are opt, tsan and asan" >&2
      exit 2
      ;;
  esac
}

timed "install dependencies" tools/install_dependencies.sh
for phase in "${phases[@]}"; do
  timed "tests ($phase)" run_phase "$phase"
done
