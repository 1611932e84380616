// A small ps server for tests, made of generated protobuf classes only: it subtracts gradients from
// values, and can be told to misbehave. What it has of the data plane it does as a real server does
// (testing/contract runs one test against both): it is asynchronous, has no versions to wait for,
// no pinned cuts and no limits, and takes any step.
#ifndef MILLRACE_WORKER_PARAMETERS_FAKE_PARAMETER_SERVER_H_
#define MILLRACE_WORKER_PARAMETERS_FAKE_PARAMETER_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/mutex.h"
#include "common/net/server.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace::testing {

// What to do with a message.
struct Verdict {
  enum Kind {
    kServe,
    kIgnore,       // No answer, ever.
    kRefuse,       // Answer with `code` and `message`.
    kBreakStream,  // End the stream with `code` and `message`.
    kServeHalf,    // Pulls: send the first block, then end the stream.
    kLoseAnswer,   // Serve it, but lose the answer; of a pull the first message.
    kRepeat,       // Serve it, and send each answer twice.
  };
  Kind kind = kServe;
  int code = 0;
  std::string message = {};
};

// Thread-safe.
class FakeParameterServer {
 public:
  using PushRule = std::function<Verdict(const PushRequest&)>;
  using PullRule = std::function<Verdict(const PullRequest&)>;
  using AnswerChange = std::function<void(PullResponse*)>;

  // Numbers that only grow, except `unfinished_pushes`.
  struct Counters {
    int push_messages = 0;
    int pull_requests = 0;
    int push_streams = 0;
    int pull_streams = 0;
    int applied = 0;
    int unfinished_pushes = 0;
    size_t largest_push = 0;  // Bytes of a message.
  };

  // `shards`: the number of elements of each slice of each shard of job "job", at generation 1;
  // values start at 0.
  explicit FakeParameterServer(const std::map<uint32_t, std::vector<uint64_t>>& shards);
  ~FakeParameterServer();

  const std::string& address() const { return address_; }

  // Ends all streams and stops listening; keeps the shards. Restart listens on the same port again.
  void Stop();
  void Restart();

  // Called for each message before anything is done with it, on gRPC's threads, maybe several at a
  // time. To be set while no request is under way.
  void SetPushRule(PushRule rule);
  void SetPullRule(PullRule rule);

  // Called for each message of an answer to a pull, under a lock, before it is sent. To be set
  // while no pull is under way.
  void SetAnswerChange(AnswerChange change);

  // From now on it sends FLOAT32 whatever it is asked for, as servers did that knew nothing else.
  void ForgetEncodings();

  // From now on it sends all elements whatever rows are wanted, does not say that it knows rows,
  // and takes pieces with rows for pieces without data, as servers did that knew nothing of rows.
  void ForgetRows();

  // Where the slice begins in its variable, whose rows may be asked for; 0 if nobody says so. To be
  // called while no request is under way.
  void Place(uint32_t shard, size_t slice, uint64_t offset);

  // Nothing of the slice is pushed. To be called while no push is under way.
  void Freeze(uint32_t shard, size_t slice);

  // The slice takes pieces in no other encoding. To be called while no push is under way.
  void TakeOnly(uint32_t shard, size_t slice, Encoding::Kind encoding);

  std::vector<float> values(uint32_t shard, size_t slice);
  void SetValues(uint32_t shard, size_t slice, std::vector<float> values);
  Counters counters();

  // Blocks until the counters satisfy `condition`.
  void Await(const std::function<bool(const Counters&)>& condition);

 private:
  class PushReactor;
  class PullReactor;
  class Service;

  struct Shard {
    std::vector<std::vector<float>> slices;
    std::map<size_t, uint64_t> offsets;      // In the variable, by slice; of others 0.
    std::set<size_t> frozen;                 // Of those.
    std::map<size_t, Encoding::Kind> wires;  // By slice; of others any.
    std::set<uint64_t> applied;
    uint64_t elements = 0;  // That are pushed.

    uint64_t offset(size_t slice) const {
      const auto found = offsets.find(slice);
      return found == offsets.end() ? 0 : found->second;
    }
  };

  // A push that is not complete.
  struct Assembly {
    std::vector<std::vector<float>> gradients;
    std::vector<std::vector<bool>> arrived;
    uint64_t elements = 0;
    std::set<const void*> streams;
  };

  // Adds a message to its push. Returns true when there is an answer to send.
  bool TakePush(const PushRequest& request, const void* stream, PushResponse* response);
  // The first part of it, up to a complete push. An error refuses the message.
  grpc::Status Assemble(const PushRequest& request, const void* stream, Assembly** assembly)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::Status AddPiece(const Shard& shard, const Piece& piece, Assembly* assembly)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::Status CheckPiece(const Shard& shard, const Piece& piece) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static grpc::Status CheckRowsOfPiece(const Shard& shard, const Piece& piece);
  // The piece's elements that are given, counted from its first. REQUIRES: it is in its slice.
  static std::vector<uint64_t> GivenElements(const Shard& shard, const Piece& piece);
  // NOT_FOUND, FAILED_PRECONDITION: as in the .proto.
  template <typename Request>
  grpc::Status CheckShard(const Request& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Apply(const PushRequest& request, const Assembly& assembly, PushResponse* response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetStream(const void* stream);
  std::vector<PullResponse> AnswerPull(const PullRequest& request);
  grpc::Status CheckPull(const PullRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static grpc::Status CheckWantedRows(const Shard& shard, const PullRequest& request);
  // A message for each block of the shard; without a piece where none of it is wanted.
  std::vector<PullResponse> AnswerBlocks(const PullRequest& request, Encoding::Kind encoding)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Verdict JudgePush(const PushRequest& request);
  Verdict JudgePull(const PullRequest& request);

  std::string address_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<RpcServer> server_;

  Mutex mutex_;
  CondVar changed_;
  PushRule push_rule_ ABSL_GUARDED_BY(mutex_);
  PullRule pull_rule_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Shard> shards_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Assembly> assemblies_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> voided_ ABSL_GUARDED_BY(mutex_);  // Pushes that are not taken up again.
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  AnswerChange answer_change_ ABSL_GUARDED_BY(mutex_);
  bool knows_encodings_ ABSL_GUARDED_BY(mutex_) = true;
  bool knows_rows_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace millrace::testing

#endif  // MILLRACE_WORKER_PARAMETERS_FAKE_PARAMETER_SERVER_H_
