#!/usr/bin/env bash
# Checks the locks' annotations with clang: every source that has or uses them is parsed, nothing is
# compiled. Needs the generated headers: run it after a build.
set -euo pipefail
cd "$(dirname "$0")/.."

clang=$(command -v clang++-14 || command -v clang++) || {
  echo "lock_check: there is no clang++; run tools/install_dependencies.sh" >&2
  exit 1
}
generated=$(bazel info bazel-bin 2>/dev/null)

# Sources with annotations of their own, or whose header has some.
annotated='ABSL_GUARDED_BY|ABSL_EXCLUSIVE_LOCKS_REQUIRED|ABSL_LOCKS_EXCLUDED|MutexLock'
sources=()
while IFS= read -r source; do
  header=${source%.cc}.h
  [[ -f $header ]] || header=/dev/null
  if grep -qE "$annotated" "$source" "$header"; then sources+=("$source"); fi
done < <(git ls-files -- 'client/*.cc' 'common/*.cc' 'coordinator/*.cc' 'ps/*.cc' 'testing/*.cc' 'worker/*.cc')

printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" \
  "$clang" -fsyntax-only -std=c++20 -I. -I"$generated" -Wno-everything -Wthread-safety -Werror=thread-safety
echo "lock_check: ${#sources[@]} sources keep to their locks' annotations."
