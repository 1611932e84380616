#!/usr/bin/env bash
# What tools/gather_binaries.sh gathers runs with its own libraries.
set -euo pipefail
gathered=$TEST_TMPDIR/gathered
tools/gather_binaries.sh "$gathered" testing/digits/make_digits
found=$(env -i /usr/bin/ldd /bin/true >/dev/null && env -i "LD_LIBRARY_PATH=$gathered/lib" /usr/bin/ldd "$gathered/binaries/make_digits")
if ! grep --quiet "$gathered/lib/libglog" <<<"$found"; then
  echo "FAILED: libglog is not taken from the folder: $found"
  exit 1
fi
env -i "$gathered/make_digits" --out="$TEST_TMPDIR/digits" >/dev/null
[[ -s $TEST_TMPDIR/digits/train-images-idx3-ubyte.gz || -s $TEST_TMPDIR/digits/train-images-idx3-ubyte ]] || {
  echo "FAILED: the gathered binary wrote nothing: $(ls "$TEST_TMPDIR/digits")"
  exit 1
}
if tools/gather_binaries.sh "$gathered" no_such_binary 2>"$TEST_TMPDIR/error"; then
  echo "FAILED: a binary that is not there was gathered"
  exit 1
fi
grep --quiet "no_such_binary: no such file" "$TEST_TMPDIR/error"
