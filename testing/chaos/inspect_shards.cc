// Prints what ps servers say of a job's shards: a ShardStatus in JSON on each line. Servers that do
// not answer soon are left out, and named on standard error.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/net/channel.h"
#include "google/protobuf/util/json_util.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace::chaos {
namespace {

// Returns whether the server has answered.
bool PrintShard(ParameterServerAdmin::Stub& stub, const std::string& job_id, uint32_t shard) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  GetShardRequest request;
  request.set_job_id(job_id);
  request.set_shard(shard);
  ShardStatus status;
  const grpc::Status called = stub.GetShard(&context, request, &status);
  if (called.error_code() == grpc::StatusCode::NOT_FOUND) {
    return true;  // Another server has it.
  }
  if (!called.ok()) {
    std::fprintf(stderr, "%s\n", called.error_message().c_str());
    return false;
  }
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(status, &json, options).ok()) return false;
  std::printf("%s\n", json.c_str());
  return true;
}

int Main(int argc, char** argv) {
  CLI::App app("Prints what ps servers say of a job's shards.");
  std::vector<std::string> addresses;
  std::string job_id;
  uint32_t shards = 1;
  app.add_option("--ps", addresses, "HOST:PORT of a ps server; may be repeated");
  app.add_option("--job", job_id, "The job's id")->required();
  app.add_option("--shards", shards, "How many shards it has");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& address : addresses) {
    const auto stub = ParameterServerAdmin::NewStub(CreateChannel(address));
    for (uint32_t shard = 0; shard < shards && PrintShard(*stub, job_id, shard); ++shard) {
    }
  }
  return 0;
}

}  // namespace
}  // namespace millrace::chaos

int main(int argc, char** argv) {
  millrace::ConfigureGrpcEnvironment();
  return millrace::chaos::Main(argc, argv);
}
