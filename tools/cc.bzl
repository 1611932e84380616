"""cc_library and cc_test that compile the source files of a target together.

Two thirds of a compilation are reading headers. So a target's source files are compiled in groups,
each as one file: they share what they include, and must not name two things alike that are local to
a file. `--config=each_file` compiles every file on its own.
"""

_FILES_IN_GROUP = 8

def _together(name, srcs, testonly):
    """What the target compiles: `srcs`, with its .cc files replaced by files that hold some of them each."""
    sources = [src for src in srcs if src.endswith(".cc")]
    if len(sources) < 2:
        return srcs
    together = [src for src in srcs if not src.endswith(".cc")]
    for first in range(0, len(sources), _FILES_IN_GROUP):
        group = "%s_%d" % (name, first // _FILES_IN_GROUP)
        native.genrule(
            name = group,
            srcs = sources[first:first + _FILES_IN_GROUP],
            outs = [group + ".together.cc"],
            # Messages and debuggers name the files themselves.
            cmd = "for file in $(SRCS); do echo '#line 1 \"'$$file'\"' && cat $$file; done >$@",
            testonly = testonly,
            visibility = ["//visibility:private"],
        )
        together.append(group + ".together.cc")
    return select({
        "//tools:each_file": srcs,
        "//conditions:default": together,
    })

def cc_library(name, srcs = [], testonly = False, **kwargs):
    native.cc_library(name = name, srcs = _together(name, srcs, testonly), testonly = testonly, **kwargs)

def cc_test(name, srcs, **kwargs):
    native.cc_test(name = name, srcs = _together(name, srcs, True), **kwargs)
