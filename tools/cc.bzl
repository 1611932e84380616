"""cc_library and cc_test that compile the source files of a target together.

Two thirds of a compilation are reading headers. So a target's source files are compiled as one file,
or as a few: they share what they include, and two of them must not use one name for two things that
are local to a file. `--config=each_file` compiles every file on its own.
"""

# That are compiled as one.
_MOST_FILES = 16

def together(name, srcs, testonly, extension = ".cc"):
    """`srcs`, with generated files that hold several .cc files each in place of these."""
    sources = [src for src in srcs if src.endswith(extension)]
    if len(sources) < 2:
        return srcs
    files = [src for src in srcs if not src.endswith(extension)]
    groups = (len(sources) + _MOST_FILES - 1) // _MOST_FILES
    for i in range(groups):
        group = "%s_%d" % (name, i)
        native.genrule(
            name = group,
            srcs = sources[len(sources) * i // groups:len(sources) * (i + 1) // groups],
            outs = [group + ".together" + extension],
            # Messages and debuggers name the files themselves.
            cmd = "for file in $(SRCS); do echo '#line 1 \"'$$file'\"' && cat $$file; done >$@",
            testonly = testonly,
            visibility = ["//visibility:private"],
        )
        files.append(group + ".together" + extension)
    return select({
        "//tools:each_file": srcs,
        "//conditions:default": files,
    })

def _precompiled(name):
    """Options and dependencies of a target that `name` of //tools/precompiled has been compiled for."""
    return {
        "copts": select({
            "//tools:each_file": [],
            "//conditions:default": ["-include", "$(BINDIR)/tools/precompiled/%s.h" % name],
        }),
        "deps": select({
            "//tools:each_file": [],
            "//conditions:default": ["//tools/precompiled:" + name],
        }),
    }

# One kind of object file, as the precompiled headers are: no shared library is made of any of them.
_FEATURES = ["-supports_pic"]

def cc_library(name, srcs = [], testonly = False, copts = [], deps = [], precompiled = True, **kwargs):
    """`precompiled`: False where .bazelrc has options for these files alone. With `copts` it never is."""
    header = {"copts": [], "deps": []}
    if precompiled and srcs and not copts:
        header = _precompiled("for_libraries")
    native.cc_library(
        name = name,
        srcs = together(name, srcs, testonly),
        testonly = testonly,
        copts = copts + header["copts"],
        deps = deps + header["deps"],
        linkstatic = True,
        features = _FEATURES,
        **kwargs
    )

def cc_test(name, srcs, deps = [], **kwargs):
    header = _precompiled("for_tests")
    native.cc_test(
        name = name,
        srcs = together(name, srcs, True),
        copts = header["copts"],
        deps = deps + header["deps"],
        features = _FEATURES,
        **kwargs
    )
