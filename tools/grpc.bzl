"""cc_grpc_library: gRPC C++ stubs made by Debian's protoc and grpc_cpp_plugin."""

def _grpc_sources_impl(ctx):
    info = ctx.attr.proto[ProtoInfo]
    headers = []
    sources = []
    for src in info.direct_sources:
        base = src.basename[:-len(".proto")]
        headers.append(ctx.actions.declare_file(base + ".grpc.pb.h"))
        sources.append(ctx.actions.declare_file(base + ".grpc.pb.cc"))
    args = ctx.actions.args()
    args.add("--plugin=protoc-gen-grpc=" + ctx.executable._plugin.path)
    args.add("--grpc_out=" + ctx.bin_dir.path)
    args.add_all(info.transitive_proto_path, format_each = "-I%s")
    args.add_all(info.direct_sources)
    ctx.actions.run(
        executable = ctx.executable._protoc,
        tools = [ctx.executable._plugin],
        inputs = info.transitive_sources,
        outputs = headers + sources,
        arguments = [args],
        mnemonic = "GrpcCppGen",
        progress_message = "Generating gRPC C++ for " + str(ctx.label),
    )
    return [
        DefaultInfo(files = depset(headers + sources)),
        OutputGroupInfo(headers = depset(headers)),
    ]

_grpc_sources = rule(
    implementation = _grpc_sources_impl,
    attrs = {
        "proto": attr.label(providers = [ProtoInfo], mandatory = True),
        "_protoc": attr.label(default = "@com_google_protobuf//:protoc", executable = True, cfg = "exec"),
        "_plugin": attr.label(default = "//tools:grpc_cpp_plugin", executable = True, cfg = "exec"),
    },
)

def cc_grpc_library(name, proto, cc_proto, **kwargs):
    """The stubs and service bases of the services in `proto`.

    Args:
      name: the cc_library's name.
      proto: a proto_library.
      cc_proto: the cc_proto_library over it.
      **kwargs: passed to the cc_library.
    """
    _grpc_sources(name = name + "_sources", proto = proto)
    native.filegroup(
        name = name + "_headers",
        srcs = [name + "_sources"],
        output_group = "headers",
    )
    native.cc_library(
        name = name,
        srcs = [name + "_sources"],
        hdrs = [name + "_headers"],
        deps = [cc_proto, "@system//:grpc++"],
        **kwargs
    )
