#!/usr/bin/env bash
# Fails if a kernel uses local memory: if it spills registers, or has arrays that are not in
# registers. The arguments are reports of ptxas; the first is of a kernel that does so, and must be
# found. No arguments: there is no nvcc.
set -euo pipefail

if [[ $# -eq 0 ]]; then
  echo "SKIPPED: the CUDA code was left out: $WHY_NO_CUDA"
  exit 0
fi

# Prints a line for each kernel and architecture of a report that uses local memory.
local_memory() {
  awk -v file="$1" '
    /Compiling entry function/ { split($0, quoted, "\047"); kernel = quoted[2]; architecture = quoted[4] }
    /bytes stack frame/ && !/ 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/ {
      sub(/^ +/, "")
      print file ": " kernel " (" architecture "): " $0
    }' "$1" | c++filt
}

if ! local_memory "$1" | grep -q 'UsesLocalMemory.*sm_90'; then
  echo "A kernel that uses local memory is not found in what ptxas says of it:" >&2
  cat "$1" >&2
  exit 1
fi
shift

kernels=0
found=
for report in "$@"; do
  kernels=$((kernels + $(grep -c 'bytes stack frame' "$report" || true)))
  found+=$(local_memory "$report")
done
[[ $kernels -gt 0 ]] || { echo "ptxas says nothing of any kernel: $*" >&2; exit 1; }
if [[ -n $found ]]; then
  echo "These kernels use local memory:" >&2
  echo "$found" >&2
  exit 1
fi
echo "None of the $kernels kernels uses local memory (each architecture counts)."
