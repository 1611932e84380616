#!/usr/bin/env bash
# The benchmarks that call CUDA's libraries by themselves are there, so they have been compiled.
set -euo pipefail
for program in "$@"; do test -x "$program"; done
