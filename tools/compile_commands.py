#!/usr/bin/env python3
"""Writes compile_commands.json at the root, for clangd and clang-tidy.

    tools/compile_commands.py [TARGET ...]    (all targets if none is named)

Asks `bazel aquery` how each file is compiled; nothing is built. Generated headers are found where a
build has left them, so build once before.
"""

import json
import pathlib
import subprocess
import sys

# Flags of gcc that clang's tools do not know.
UNKNOWN_TO_CLANG = {
    "-fno-canonical-system-headers",
    "-Wno-free-nonheap-object",
    "-Wshadow=local",
    "-Wunused-but-set-parameter",
}
# Flags for by-products of a compilation; the first group takes a value.
WITH_VALUE = {"-MF", "-o"}
BY_PRODUCT = {"-MD"}


def bazel(*arguments):
    result = subprocess.run(["bazel", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"compile_commands: bazel {arguments[0]} failed:\n{result.stderr}")
    return result.stdout


def source_and_flags(arguments):
    """Takes a compiler's command line apart: its source file, and the line without by-products."""
    source = None
    kept = []
    rest = iter(arguments)
    for argument in rest:
        if argument in WITH_VALUE:
            next(rest)
        elif argument == "-c":
            source = next(rest)
            kept += ["-c", source]
        elif argument in UNKNOWN_TO_CLANG | BY_PRODUCT or argument.startswith("-frandom-seed"):
            continue
        else:
            kept.append(argument)
    return source, kept


def compile_commands(targets, workspace):
    query = f'mnemonic("CppCompile", {" + ".join(targets)})'
    actions = json.loads(bazel("aquery", "--config=each_file", "--output=jsonproto", "--include_artifacts=false", query))["actions"]
    commands = {}
    for action in actions:
        source, arguments = source_and_flags(action["arguments"])
        # A file may be compiled for several targets: the first is as good as the others.
        if source is not None and source not in commands:
            commands[source] = {"directory": str(workspace), "file": source, "arguments": arguments}
    return list(commands.values())


def link_external(workspace):
    """The commands name external/..., which exists only inside Bazel's own tree."""
    link = workspace / "external"
    if not link.is_symlink():
        link.symlink_to(pathlib.Path(bazel("info", "output_base").strip()) / "external")


def main():
    workspace = pathlib.Path(bazel("info", "workspace").strip())
    commands = compile_commands(sys.argv[1:] or ["//..."], workspace)
    link_external(workspace)
    path = workspace / "compile_commands.json"
    path.write_text(json.dumps(commands, indent=1) + "\n")
    print(f"compile_commands: {len(commands)} files in {path}")


if __name__ == "__main__":
    main()
