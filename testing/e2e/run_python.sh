#!/usr/bin/env bash
# Runs a Python test with the standard library alone. The argument is its path.
PYTHONPATH=testing/e2e exec python3 -B "$@"
