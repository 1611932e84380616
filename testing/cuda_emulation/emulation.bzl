"""Libraries of CUDA kernels for tests on machines without a GPU."""

load("//tools:cc.bzl", "cc_library")

def emulated_cuda_library(name, srcs, hdrs = [], deps = [], **kwargs):
    """A cc_library of `srcs`, .cu files, compiled by the host's compiler.

    CUDA's headers are those of the emulation. Other sources may be among `srcs`, too.
    """
    sources = []
    for src in srcs:
        if not src.endswith(".cu"):
            sources.append(src)
            continue
        out = "%s_emulated/%s.cc" % (name, src[:-len(".cu")])
        native.genrule(
            name = "%s_emulated_%s" % (name, src[:-len(".cu")].replace("/", "_")),
            srcs = [src],
            outs = [out],
            # Messages and debuggers name the file itself.
            cmd = "(echo '#line 1 \"$(SRCS)\"' && cat $(SRCS)) >$@",
            testonly = True,
            visibility = ["//visibility:private"],
        )
        sources.append(out)
    cc_library(
        name = name,
        testonly = True,
        srcs = sources,
        hdrs = hdrs,
        # nvcc's own.
        copts = ["-Wno-unknown-pragmas"],
        deps = deps + ["//testing/cuda_emulation"],
        **kwargs
    )
