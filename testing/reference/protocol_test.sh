#!/bin/bash
# A worker that is written from docs/protocol.md alone computes what ours do.
set -euo pipefail

"$1" "$TEST_TMPDIR" > "$TEST_TMPDIR/values"
python3 "$2" "$TEST_TMPDIR/values"
