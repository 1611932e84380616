#!/usr/bin/env bash
# Lets libFuzzer look for bytes that break what reads them (testing/fuzz): each target so many
# seconds, as many targets at once as there are cores. It begins with the inputs that are known.
#
#   tools/fuzz.sh                 20 seconds, all targets
#   tools/fuzz.sh 3600 csv zip    an hour, these two
#
# An input that takes more than 10 s, 128 MiB at once or 2 GiB in all breaks something too. What is
# found is left in a folder that is named then; where MILLRACE_FUZZ_FOUND names one, so is everything
# else that is new, and the next run begins with it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-20}
shift || true
fuzz=bazel-bin/testing/fuzz/fuzz
found=${MILLRACE_FUZZ_FOUND:-$(mktemp -d -t millrace_fuzz.XXXXXX)}

# NAME FOLDER...
run_target() {
  local name=$1
  shift
  mkdir -p "$found/$name"
  if "$fuzz" --target="$name" -max_total_time="$seconds" -max_len=4096 -timeout=10 \
    -malloc_limit_mb=128 -rss_limit_mb=2048 -artifact_prefix="$found/$name-" \
    "$found/$name" "$@" >"$found/$name.log" 2>&1; then
    echo "fuzz: $name: $(sed -n 's/^Done \(.*\)/\1/p' "$found/$name.log")"
  else
    tail -n 60 "$found/$name.log" >&2
    echo "fuzz: $name: broken; again: $fuzz --target=$name $found/$name-[INPUT]" >&2
    return 1
  fi
}
export -f run_target
export fuzz found seconds

bazel build --config=asan //testing/fuzz:fuzz
targets=$("$fuzz" --targets | grep -E "^($(IFS='|' && echo "${*:-.*}")) ")
xargs -P "$(nproc)" -I{} bash -c 'run_target {}' <<<"$targets"
[[ -n ${MILLRACE_FUZZ_FOUND:-} ]] || rm -r "$found"
