"""The registers and the shared memory of each CUDA kernel, as a table in Markdown, from what ptxas said of it.

    bazel build //worker/device/cuda/kernels:kernels_ptxas
    python3 testing/gpu/kernel_table.py [--architecture=sm_90] [--all] [--least=N] bazel-bin/worker/device/cuda/kernels/_cuda/*/*.ptxas

A kernel that is compiled for several tiles, functions or types has one row, with the least and the most of them; with
--all each has its own. --least: those alone that have so many registers in some form.
"""

import argparse
import collections
import pathlib
import re
import subprocess

import kernel_names

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def kernels(paths, architecture):
    """[(mangled name, registers, bytes of shared memory)]."""
    found = []
    for path in paths:
        name = None
        for line in pathlib.Path(path).read_text().splitlines():
            entry = ENTRY.search(line)
            if entry:
                name = entry.group(1) if entry.group(2) == architecture else None
            used = USED.search(line)
            if used and name:
                shared = SHARED.search(line)
                found.append((name, int(used.group(1)), int(shared.group(1)) if shared else 0))
                name = None
    return found


def demangled(names):
    return subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.splitlines()


def span(numbers):
    return f"{min(numbers):,}" if min(numbers) == max(numbers) else f"{min(numbers):,} to {max(numbers):,}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("reports", nargs="+")
    options = parser.parse_args()
    found = sorted(set(kernels(options.reports, options.architecture)))
    if not found:
        raise SystemExit(f"kernel_table: no kernel for {options.architecture} in these reports")
    rows = collections.defaultdict(list)
    for name, (_, registers, shared) in zip(demangled([name for name, _, _ in found]), found):
        rows[kernel_names.plain(name, options.all)].append((registers, shared))
    print("| kernel | compiled for | registers | shared memory, bytes |\n|---|---|---|---|")
    for name, used in sorted(rows.items()):
        if max(r for r, _ in used) < options.least:
            continue
        print(f"| `{name}` | {len(used)} | {span([r for r, _ in used])} | {span([s for _, s in used])} |")


if __name__ == "__main__":
    main()
