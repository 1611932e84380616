#!/usr/bin/env bash
# Installs what Millrace needs to build and run on Debian 12. Run it as often as you like: it
# installs only what is missing, and says what that is.
set -euo pipefail

packages=(
  # Build: the tool, its rules, the compiler.
  bazel-bootstrap bazel-rules-proto bazel-rules-java bazel-skylib bazel-platforms
  g++-12 mold pkg-config protobuf-compiler protobuf-compiler-grpc
  # Libraries.
  libabsl-dev libboost-context-dev libcli11-dev libdnnl-dev libgoogle-glog-dev libgrpc++-dev libgrpc-dev libhdf5-dev
  libjpeg-dev libpng-dev libprotobuf-dev libre2-dev librocksdb-dev libssl-dev libxxhash-dev
  nlohmann-json3-dev zlib1g-dev
  # Tests, sanitizers and the checks of format and locks.
  libbenchmark-dev libgmock-dev libgtest-dev clang-14 clang-format libclang-rt-14-dev openssl
  python3 python3-grpcio python3-numpy python3-pip python3-protobuf python3-xxhash
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done

# The Python package safetensors, which Debian 12 has not: into an environment of its own. Only a test
# needs it, which skips without it.
install_safetensors() {
  local venv=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/venv
  "$venv/bin/python3" -c 'import numpy, safetensors, xxhash' 2>/dev/null && return
  if /usr/bin/python3 -m venv --system-site-packages --without-pip "$venv" >/dev/null &&
    "$venv/bin/python3" -m pip install --quiet --disable-pip-version-check 'safetensors>=0.4,<1' \
      >/dev/null 2>&1; then
    echo "Dependencies: the Python package safetensors is installed in $venv."
  else
    echo "Dependencies: no safetensors from PyPI (cannot be reached?); the test that needs it skips."
  fi
}

if [[ ${#missing[@]} -eq 0 ]]; then
  echo "Dependencies: all ${#packages[@]} packages are installed."
  install_safetensors
  exit 0
fi

by_hand() {
  echo "$1" >&2
  echo "Install these Debian 12 packages, or what your system calls them, by hand:" >&2
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
}

command -v apt-get >/dev/null || by_hand "This system has no apt-get."
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || by_hand "Installing needs root, and there is no sudo."
  as_root=(sudo)
fi

echo "Dependencies: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install=("${as_root[@]}" apt-get install --yes --quiet=2 --no-install-recommends "${missing[@]}")
# The package lists may be fresh enough; where they are not, fetch them and try again.
if ! "${install[@]}" >/dev/null 2>&1; then
  "${as_root[@]}" apt-get update --quiet=2 || by_hand "apt-get update failed."
  "${install[@]}" >/dev/null || by_hand "apt-get install failed."
fi
install_safetensors
echo "Dependencies: done."
