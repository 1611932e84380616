"""e2e_test: a Python unittest that runs the real binaries as processes."""

_BINARIES = [
    "//client:millrace",
    "//coordinator",
    "//ps",
    "//testing/digits:make_digits",
    "//testing/example_data:make_example_data",
    "//worker",
]

def e2e_test(name, data = [], **kwargs):
    """Runs NAME.py from the runfiles' root, where each binary and example has its path in the tree."""
    native.sh_test(
        name = name,
        srcs = ["//testing/e2e:run_python.sh"],
        args = ["$(location %s.py)" % name],
        data = [name + ".py", "//testing/e2e:harness.py", "//examples:jobs"] + _BINARIES + data,
        **kwargs
    )

def e2e_program(name, data = [], **kwargs):
    """The same for a program that is run by hand: bazel run."""
    native.sh_binary(
        name = name,
        srcs = ["//testing/e2e:run_python.sh"],
        args = ["$(location %s.py)" % name],
        data = [name + ".py", "//testing/e2e:harness.py", "//examples:jobs"] + _BINARIES + data,
        **kwargs
    )
