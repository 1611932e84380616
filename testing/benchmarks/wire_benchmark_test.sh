#!/bin/bash
# The benchmark, with little to do, prints every figure.
set -euo pipefail

"$1" --size_mib=3 --runs=2 --small_steps=20 --json | python3 -c '
import json, sys
figures = json.load(sys.stdin)
assert figures["bytes"] == 3 << 20, figures
for name in ("raw_send_bytes_per_second", "raw_receive_bytes_per_second", "push_bytes_per_second",
             "push_to_raw", "pull_bytes_per_second", "pull_to_raw", "small_steps_per_second",
             "small_steps_to_bare_grpc", "small_steps_of_many_per_second", "small_steps_of_many_to_bare_grpc"):
    assert figures[name] > 0, (name, figures)
'
"$1" --size_mib=1 --runs=1 --small_steps=1 | grep -q "^push "
