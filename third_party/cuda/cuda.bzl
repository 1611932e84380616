"""cuda_library: files that nvcc compiles. What depends on one is skipped where there is no CUDA.

HAVE_CUDA says whether there is, WHY_NO_CUDA why not.
"""

load("//tools:cc.bzl", "together")
load("@cuda//:cuda.bzl", "CUDA_HOME", "CUDA_RELEASE", _HAVE_CUDA = "HAVE_CUDA", _WHY_NO_CUDA = "WHY_NO_CUDA")

HAVE_CUDA = _HAVE_CUDA
WHY_NO_CUDA = _WHY_NO_CUDA

# For `target_compatible_with`.
NEEDS_CUDA = [] if HAVE_CUDA else ["//third_party/cuda:needs_cuda"]

# A100 and H100, and for newer ones code that their driver translates.
_ARCHITECTURES = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=[sm_90,compute_90]",
]

# As .bazelrc has it for the host's code; the library exports what it says that it does.
_HOST_OPTIONS = [
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Wshadow=local",
    "-Wnon-virtual-dtor",
    "-Werror",
]

# What ptxas says of each kernel goes to a file of its own, without times, so that it can be cached.
_COMPILE = """
report=$1; shift
"$@" >"$report" 2>&1 || { cat "$report" >&2; exit 1; }
sed -i '/Compile time/d' "$report"
"""

def _compile(ctx, src, headers):
    name = src.basename[:-len(".cu")]
    object = ctx.actions.declare_file("_cuda/%s/%s.pic.o" % (ctx.label.name, name))
    report = ctx.actions.declare_file("_cuda/%s/%s.ptxas" % (ctx.label.name, name))
    args = ctx.actions.args()
    args.add(report)
    args.add(CUDA_HOME + "/bin/nvcc")
    args.add_all(["-c", "-std=c++20", "-O3", "-ccbin=g++-12", "-I.", "-I" + ctx.bin_dir.path, "-Xptxas=-v", "-Werror=all-warnings"])
    args.add_all(_ARCHITECTURES)
    args.add_joined(_HOST_OPTIONS, join_with = ",", format_joined = "-Xcompiler=%s")
    args.add("-o", object)
    args.add(src)
    ctx.actions.run_shell(
        command = _COMPILE,
        arguments = [args],
        inputs = depset([src] + ctx.files.hdrs, transitive = headers),
        outputs = [object, report],
        env = {"CUDA_RELEASE": CUDA_RELEASE},
        mnemonic = "CudaCompile",
        progress_message = "Compiling with nvcc: " + src.short_path,
        use_default_shell_env = True,
    )
    return object, report

def _cuda_objects_impl(ctx):
    headers = [dep[CcInfo].compilation_context.headers for dep in ctx.attr.deps]
    pairs = [_compile(ctx, src, headers) for src in ctx.files.srcs]
    return [
        DefaultInfo(files = depset([object for object, _ in pairs])),
        OutputGroupInfo(ptxas = depset([report for _, report in pairs])),
    ]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], testonly = False, visibility = None):
    """A library of the functions of `srcs`, compiled together as //tools:cc.bzl does.

    NAME_ptxas are the reports of ptxas of each compilation.
    """
    _cuda_objects(
        name = name + "_objects",
        srcs = together(name + "_cuda", srcs, testonly, extension = ".cu"),
        hdrs = hdrs,
        deps = deps,
        testonly = testonly,
        target_compatible_with = NEEDS_CUDA,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = [name + "_objects"],
        hdrs = hdrs,
        deps = deps + ["@cuda//:cudart"],
        testonly = testonly,
        target_compatible_with = NEEDS_CUDA,
        alwayslink = True,
        visibility = visibility,
    )
    native.filegroup(
        name = name + "_ptxas",
        srcs = [name + "_objects"],
        output_group = "ptxas",
        testonly = testonly,
        visibility = visibility,
    )
