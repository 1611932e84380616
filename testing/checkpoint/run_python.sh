#!/usr/bin/env bash
# Runs a Python test that needs the package safetensors, which tools/install_dependencies.sh puts
# into an environment of its own. Skips it where the package is missing. The argument is its path.
home=$(getent passwd "$(id -u)" | cut -d: -f6)
for python in "${XDG_CACHE_HOME:-$home/.cache}/millrace/venv/bin/python3" python3 /usr/bin/python3; do
  "$python" -c 'import numpy, safetensors, xxhash' 2>/dev/null || continue
  exec "$python" -B "$@"
done
echo "SKIPPED: the Python packages safetensors, numpy and xxhash are not there; tools/install_dependencies.sh installs them."
