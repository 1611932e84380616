#!/usr/bin/env bash
# Generates Python from protos/*.proto into a folder, for worker.py's PYTHONPATH. From the root of the
# source tree: examples/python_worker/generate.sh OUT
set -euo pipefail

for tool in protoc grpc_python_plugin; do
  if ! command -v "$tool" > /dev/null; then
    echo "generate.sh: there is no $tool; install Debian's protobuf-compiler and protobuf-compiler-grpc" >&2
    exit 1
  fi
done
mkdir -p "$1"
protoc -I. --python_out="$1" --grpc_python_out="$1" \
  --plugin=protoc-gen-grpc_python="$(command -v grpc_python_plugin)" protos/*.proto
