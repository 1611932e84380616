#!/bin/bash
# The benchmark, with little to do: a checkpoint is written while two clients train.
set -euo pipefail

figures=$("$1" --size_mib=6 --runs=1 --seconds=1 --data_dir="$TEST_TMPDIR" --arena="$TEST_TMPDIR")
grep -q "^throughput while writing .* of that without$" <<<"$figures"
grep -q "^speed of writing .* of a plain file with fsync$" <<<"$figures"
