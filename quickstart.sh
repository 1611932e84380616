#!/usr/bin/env bash
# Builds Millrace and trains a convolutional network on generated digits, through a coordinator,
# a parameter server and two workers in one process. No accelerator and no data needed.
# Arguments go to `millrace train`, e.g. ./quickstart.sh --ps=2 --workers=4
set -euo pipefail
cd "$(dirname "$0")"

tools/install_dependencies.sh
bazel build //client:millrace //testing/digits:make_digits

digits=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/digits
bazel-bin/testing/digits/make_digits --out="$digits"
echo "+ bazel-bin/client/millrace train examples/digits.textproto --data=$digits $*"
exec bazel-bin/client/millrace train examples/digits.textproto --data="$digits" "$@"
