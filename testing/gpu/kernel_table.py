"""The registers and the shared memory of each CUDA kernel, as a table in Markdown, from what ptxas said of it.

    bazel build //worker/device/cuda/kernels:kernels_ptxas
    python3 testing/gpu/kernel_table.py [--architecture=sm_90] [--all] [--least=N] bazel-bin/worker/device/cuda/kernels/_cuda/*/*.ptxas

A kernel that is compiled for several tiles, functions or types has one row, with the least and the most of them; with
--all each has its own. --least: those alone that have so many registers in some form.
"""

import argparse
import collections
import re
import subprocess

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def kernels(paths, architecture):
    """[(mangled name, registers, bytes of shared memory)]."""
    found = []
    for path in paths:
        name = None
        for line in open(path):
            entry = ENTRY.search(line)
            if entry:
                name = entry.group(1) if entry.group(2) == architecture else None
            used = USED.search(line)
            if used and name:
                shared = SHARED.search(line)
                found.append((name, int(used.group(1)), int(shared.group(1)) if shared else 0))
                name = None
    return found


def plain(names, whole):
    """Without namespaces and arguments; without template arguments too, unless `whole`."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    for name in text.splitlines():
        name = re.sub(r"\(anonymous namespace\)::|millrace::cuda::", "", name)
        name = re.sub(r"^void ", "", name)
        depth, end = 0, len(name)
        for i, letter in enumerate(name):
            depth += {"<": 1, ">": -1}.get(letter, 0)
            if depth == 0 and letter == "(":
                end = i
                break
        name = name[:end]
        yield name if whole else name.split("<")[0]


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
    for name, (_, registers, shared) in zip(plain([name for name, _, _ in found], options.all), found):
        rows[name].append((registers, shared))
    print("| kernel | compiled for | registers | shared memory, bytes |\n|---|---|---|---|")
    for name, used in sorted(rows.items()):
        if max(r for r, _ in used) < options.least:
            continue
        print(f"| `{name}` | {len(used)} | {span([r for r, _ in used])} | {span([s for _, s in used])} |")


if __name__ == "__main__":
    main()
