#!/bin/bash
# A worker that is written from docs/protocol.md alone computes what ours do.
set -euo pipefail

"$1" "$TEST_TMPDIR" > "$TEST_TMPDIR/values"
python3 "$2" "$TEST_TMPDIR/values"

# The vectors of the page are among the values.
vectors=$(sed -n '/^## Test vectors$/,/^## Results$/p' "$3" | grep -E '^[a-z_]+[^=]* = [0-9 ]+$')
[[ $(wc -l <<< "$vectors") -ge 17 ]]
while IFS= read -r vector; do
  grep -Fxq -- "$vector" "$TEST_TMPDIR/values" || { echo "$3: '$vector' is not true" >&2; exit 1; }
done <<< "$vectors"
