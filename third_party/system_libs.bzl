"""Debian's system libraries as Bazel repositories. Nothing is downloaded."""

def _run(rctx, command):
    result = rctx.execute(command)
    if result.return_code != 0:
        fail("%s failed; run tools/install_dependencies.sh: %s" % (command, result.stderr))
    return result.stdout.strip()

def _system_protobuf_impl(rctx):
    rctx.symlink("/usr/bin/protoc", "bin/protoc")
    rctx.symlink("/usr/include/google/protobuf", "src/google/protobuf")
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)

    # The version stands in the file so that an upgrade of the package rebuilds.
    rctx.template("protobuf.BUILD", rctx.attr._build)
    rctx.file("BUILD.bazel", "# %s\n%s" % (_run(rctx, ["protoc", "--version"]), rctx.read("protobuf.BUILD")))

system_protobuf = repository_rule(
    implementation = _system_protobuf_impl,
    local = True,
    attrs = {"_build": attr.label(default = "//third_party:protobuf.BUILD", allow_single_file = True)},
)

# Abseil under its upstream labels: @com_google_absl//absl/status:statusor.
_ABSL = {
    "base": ["core_headers"],
    "cleanup": ["cleanup"],
    "container": ["btree", "flat_hash_map", "flat_hash_set", "inlined_vector"],
    "functional": ["any_invocable", "function_ref"],
    "hash": ["hash"],
    "memory": ["memory"],
    "numeric": ["bits", "int128"],
    "random": ["random"],
    "status": ["status", "statusor"],
    "strings": ["cord", "str_format", "strings"],
    "time": ["time"],
    "types": ["optional", "span", "variant"],
}

# Where the pkg-config name is not "absl_" and the target's name.
_ABSL_PKG_CONFIG = {"random": "absl_random_random"}

def _system_absl_impl(rctx):
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    for package, targets in _ABSL.items():
        build = "package(default_visibility = [\"//visibility:public\"])\n"
        for target in targets:
            module = _ABSL_PKG_CONFIG.get(target, "absl_" + target)
            libs = [lib for lib in _run(rctx, ["pkg-config", "--libs", module]).split(" ") if lib]
            build += "cc_library(name = \"%s\", linkopts = %s)\n" % (target, repr(libs))
        rctx.file("absl/%s/BUILD.bazel" % package, build)

system_absl = repository_rule(implementation = _system_absl_impl, local = True)

def _grpc_plugin_impl(rctx):
    rctx.symlink("/usr/bin/grpc_cpp_plugin", "grpc_cpp_plugin")
    rctx.file("BUILD.bazel", "exports_files([\"grpc_cpp_plugin\"])\n")

_grpc_plugin = repository_rule(implementation = _grpc_plugin_impl, local = True)

# Whose headers //tools/precompiled has read, and who reads them.
_PRECOMPILED = [
    "clang-14",
    "g++-12",
    "libabsl-dev",
    "libc6-dev",
    "libgflags-dev",
    "libgmock-dev",
    "libgoogle-glog-dev",
    "libgrpc++-dev",
    "libgtest-dev",
    "libprotobuf-dev",
    "libstdc++-12-dev",
    "linux-libc-dev",
]

def _package_versions_impl(rctx):
    # What is not installed is left out; so is everything where packages are not Debian's.
    query = rctx.which("dpkg-query")
    versions = rctx.execute([query, "--show"] + _PRECOMPILED).stdout if query else ""
    rctx.file("versions.txt", versions)
    rctx.file("BUILD.bazel", "exports_files([\"versions.txt\"])\n")

_package_versions = repository_rule(implementation = _package_versions_impl, local = True)

def system_libs():
    """@system: every other library; @grpc_plugin: protoc's plugin; @package_versions: a file of them."""
    _grpc_plugin(name = "grpc_plugin")
    _package_versions(name = "package_versions")
    native.new_local_repository(
        name = "system",
        path = "third_party/system",  # any folder serves: only the BUILD file matters
        build_file = "//third_party:system_libs.BUILD",
    )
