#!/bin/bash
# The benchmark, with little to do: a shard goes to another server and back.
set -euo pipefail

figures=$("$1" --size_mib=4 --adam --runs=2 --data_dir="$TEST_TMPDIR" --arena="$TEST_TMPDIR")
grep -q "^move .* of plain TCP's$" <<<"$figures"
grep -q "^its reading .* of plain TCP's$" <<<"$figures"
grep -q "^plain file .* of plain TCP's$" <<<"$figures"
