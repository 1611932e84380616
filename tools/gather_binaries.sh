#!/usr/bin/env bash
# Copies binaries with the shared libraries that they need into one folder, to run them on a machine
# that has none of Debian's packages, such as one with a GPU:
#
#   tools/gather_binaries.sh OUT bazel-bin/worker/worker bazel-bin/client/millrace ...
#
# OUT/NAME runs each of them. A libmillrace_cuda.so among the binaries is found by the others. Left
# out is what every Linux of the same or a later glibc has, and what comes with CUDA and its driver.
set -euo pipefail

if [[ $# -lt 2 ]]; then
  echo "usage: tools/gather_binaries.sh OUT BINARY..." >&2
  exit 2
fi
out=$1
shift
mkdir -p "$out/lib" "$out/binaries"

# Names of libraries that stay behind.
left_out='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libnss_.*|libcuda|libcudart|libcublas|libcublasLt|libnccl|libcudnn)\.so'

libraries_of() { # The paths of what the binary $1 needs.
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
}

for binary in "$@"; do
  if [[ ! -f $binary ]]; then
    echo "gather_binaries: $binary: no such file; build it first" >&2
    exit 1
  fi
  name=$(basename "$binary")
  while read -r library; do
    [[ $(basename "$library") =~ $left_out ]] || cp --force --update --dereference "$library" "$out/lib/"
  done < <(libraries_of "$binary")
  if [[ $name == *.so ]]; then
    cp --force --dereference "$binary" "$out/lib/$name"
    continue
  fi
  cp --force --dereference "$binary" "$out/binaries/$name"
  cat >"$out/$name" <<'RUN'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/binaries/$(basename "$0")" "$@"
RUN
  chmod +x "$out/$name"
done
echo "gather_binaries: $(ls "$out/binaries" | wc -l) binaries and $(ls "$out/lib" | wc -l) libraries in $out, $(du -sm "$out" | cut -f1) MiB"
