#!/bin/bash
# The benchmark, with little to do: a killed server comes back from memory, and from its cuts.
set -euo pipefail

figures=$("$1" --size_mib=4 --shards=2 --runs=2 --data_dir="$TEST_TMPDIR" --arena="$TEST_TMPDIR")
grep -q "^from memory .* s$" <<<"$figures"
grep -q "^from its cuts .* s$" <<<"$figures"
