"""The system's CUDA as a Bazel repository, where there is one. Nothing is downloaded."""

_LEAST_RELEASE = 12

def _release(rctx, nvcc):
    """What `nvcc --version` says: "13.0"."""
    result = rctx.execute([nvcc, "--version"])
    if result.return_code != 0 or "release " not in result.stdout:
        return None
    return result.stdout.split("release ")[1].split(",")[0]

def _find(rctx):
    """The folder of CUDA, that of its libraries, its release, and why there is none of use."""
    home = rctx.os.environ.get("CUDA_HOME", "") or "/usr/local/cuda"
    libraries = home + "/lib64"
    for file in [
        home + "/bin/nvcc",
        home + "/include/cublasLt.h",
        libraries + "/libcublasLt.so",
        libraries + "/libcudart_static.a",
    ]:
        if not rctx.path(file).exists:
            return home, libraries, "", "there is no " + file
    release = _release(rctx, home + "/bin/nvcc")
    if release == None:
        return home, libraries, "", home + "/bin/nvcc does not run"
    if int(release.split(".")[0]) < _LEAST_RELEASE:
        return home, libraries, release, "%s is CUDA %s; must be at least %d" % (home, release, _LEAST_RELEASE)
    return home, libraries, release, ""

def _system_cuda_impl(rctx):
    home, libraries, release, missing = _find(rctx)
    if missing:
        print("The CUDA code is left out: " + missing)  # buildifier: disable=print
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    rctx.template(
        "BUILD.bazel",
        rctx.attr._absent if missing else rctx.attr._present,
        {"%{HOME}": home, "%{LIBRARIES}": libraries},
    )

    # The release is part of every compilation, so that an upgrade compiles again.
    rctx.file("cuda.bzl", "\n".join([
        "HAVE_CUDA = %s" % (not missing),
        "WHY_NO_CUDA = %s" % repr(missing),
        "CUDA_HOME = %s" % repr(home),
        "CUDA_RELEASE = %s" % repr(release),
        "",
    ]))

system_cuda = repository_rule(
    implementation = _system_cuda_impl,
    local = True,
    environ = ["CUDA_HOME"],
    attrs = {
        "_absent": attr.label(default = "//third_party/cuda:absent.BUILD", allow_single_file = True),
        "_present": attr.label(default = "//third_party/cuda:present.BUILD", allow_single_file = True),
    },
)
