#!/usr/bin/env bash
# Runs every test, most of them twice or more: without sanitizers; under ThreadSanitizer what is
# concurrent; under AddressSanitizer and UndefinedBehaviorSanitizer everything but real processes
# and what takes minutes (tagged no-asan). The last of these builds is clang's, which checks the
# annotations of locks besides, and with which libFuzzer looks for inputs that break something.
#
#   ./test.sh            all of it
#   ./test.sh opt        every test, without sanitizers, in less than half the time (also: asan, tsan)
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

# Not on the way of a step or a variable, or GPUs' kernels, which another compiler compiles: that it
# runs without sanitizers shows nothing that it does not show with them. (Whether gcc has warnings
# for these tests is seen by `./test.sh opt` alone.)
with_sanitizers_alone=(//client/... //coordinator/... //worker/input/... //worker/device/cuda/... //testing/gpu/...)

run_phase() {
  case $1 in
    opt)
      bazel build --nobuild //... # That it can be built: tests need less.
      local left_out=()
      if [[ " ${phases[*]} " == *" asan "* ]]; then
        mapfile -t left_out < <(bazel query --noshow_progress \
          "tests(set(${with_sanitizers_alone[*]})) except attr(tags, no-asan, //...)")
        echo "left to the asan phase: ${#left_out[@]} tests"
      fi
      bazel test -- //... "${left_out[@]/#/-}"
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

# On a full disk tests fail with other words, or wait until their time is over. Nothing shrinks the
# caches by itself.
check_disk() {
  local least=4 free
  [[ -d ~/.cache/millrace-bazel ]] || least=10 # Nothing is built yet.
  mkdir -p ~/.cache
  free=$(($(df --output=avail -k ~/.cache | tail -1) / 1024 / 1024))
  ((free < least)) || return 0
  echo "test.sh: $free GiB are free on the disk of ~/.cache, at least $least are needed; to make room," \
    "remove ~/.cache/millrace-bazel, which is built anew, and what 'bazel clean --expunge' removes" \
    "in other checkouts" >&2
  exit 1
}

check_disk
timed "install dependencies" tools/install_dependencies.sh
for phase in "${phases[@]}"; do
  timed "tests ($phase)" run_phase "$phase"
done
