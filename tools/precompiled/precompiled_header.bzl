"""precompiled_header: a header that the compiler has read before, once for all targets.

Whoever uses a name still includes the header that declares it. Who does not is found by
`bazel build --config=each_file //...`, which reads nothing beforehand.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    clang = toolchain.compiler == "clang"

    # The compiler takes HEADER.gch or HEADER.pch in place of the HEADER beside it.
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.run_shell(
        command = 'cat "$@" >' + header.path,
        arguments = [file.path for file in ctx.files.hdrs],
        inputs = ctx.files.hdrs,
        outputs = [header],
    )
    compiled = ctx.actions.declare_file(header.basename + (".pch" if clang else ".gch"))
    compiler = cc_common.get_tool_for_action(feature_configuration = features, action_name = ACTION_NAMES.cpp_compile)
    arguments = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = ACTION_NAMES.cpp_compile,
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            # By its name clang would look for it where it was then: in a sandbox that is gone.
            source_file = "-" if clang else header.path,
            output_file = compiled.path,
            user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts + (
                # Without the time of the file that it was made from: others have their own copies.
                ["-Xclang", "-fno-pch-timestamp"] if clang else []
            ) + ["-x", "c++-header"],
        ),
    )
    ctx.actions.run_shell(
        # As Bazel has it for C++: clang writes down where it was, which is another sandbox each time.
        command = 'PWD=/proc/self/cwd "$@" <' + header.path,
        arguments = [compiler] + arguments,
        # A compiler does not take what another version of it, or of a header, has left in a cache.
        inputs = depset([header, ctx.file._versions], transitive = [toolchain.all_files]),
        outputs = [compiled],
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling " + header.short_path,
    )
    return [CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([header, compiled]),
    ))]

precompiled_header = rule(
    implementation = _impl,
    attrs = {
        "hdrs": attr.label_list(allow_files = [".h"], mandatory = True, doc = "In this order; they include none of ours."),
        "copts": attr.string_list(doc = "Those of .bazelrc for some files (per_file_copt) that change what is defined."),
        "_versions": attr.label(default = "@package_versions//:versions.txt", allow_single_file = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    provides = [CcInfo],
)
