// Prints what ps servers say of a job's shards: a ShardStatus in JSON on each line.
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

int PrintShard(const std::string& address, const std::string& job_id, uint32_t shard) {
  const auto stub = ParameterServerAdmin::NewStub(CreateChannel(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  context.set_wait_for_ready(true);
  GetShardRequest request;
  request.set_job_id(job_id);
  request.set_shard(shard);
  ShardStatus status;
  const grpc::Status called = stub->GetShard(&context, request, &status);
  if (called.error_code() == grpc::StatusCode::NOT_FOUND) return 0;  // Another server has it.
  if (!called.ok()) {
    std::fprintf(stderr, "%s: %s\n", address.c_str(), called.error_message().c_str());
    return 1;
  }
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(status, &json, options).ok()) return 1;
  std::printf("%s\n", json.c_str());
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Prints what ps servers say of a job's shards.");
  std::vector<std::string> addresses;
  std::string job_id;
  uint32_t shards = 1;
  app.add_option("--ps", addresses, "HOST:PORT of a ps server; may be repeated")->required();
  app.add_option("--job", job_id, "The job's id")->required();
  app.add_option("--shards", shards, "How many shards it has");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& address : addresses) {
    for (uint32_t shard = 0; shard < shards; ++shard) {
      if (const int failed = PrintShard(address, job_id, shard); failed != 0) return failed;
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
