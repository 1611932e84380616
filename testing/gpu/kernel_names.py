"""Names of kernels as c++filt and Nsight Compute write them, made short."""

import re

NAMESPACES = re.compile(r"\(anonymous namespace\)::|<unnamed>::|millrace::cuda::")
CASTS = re.compile(r"\([\w: ]+\)(?=-?\d)")  # Nsight's of arguments of templates: (int)128, (bool)1.


def plain(name, whole):
    """Without namespaces and arguments; without template arguments too, unless `whole`."""
    name = CASTS.sub("", NAMESPACES.sub("", name)).removeprefix("void ")
    depth = 0
    for i, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if depth == 0 and letter == "(":
            name = name[:i]
            break
    return name if whole else name.split("<")[0]
