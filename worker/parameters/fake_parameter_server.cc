#include "worker/parameters/fake_parameter_server.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/wire/piece_elements.h"
#include "common/wire/tensor_codec.h"
#include "glog/logging.h"

namespace millrace::testing {

// Reads requests and writes queued answers until either end has enough.
template <typename Request, typename Response>
class QueueReactor : public grpc::ServerBidiReactor<Request, Response> {
 protected:
  void Begin() { this->StartRead(&request_); }

  virtual void Handle(const Request& request) = 0;
  // The stream is over; the client hears of it after this.
  virtual void Ended() {}

  // gRPC's operations are started under the lock, so that none comes after Finish; gRPC never calls
  // back from within them.
  void Answer(Response response) {
    MutexLock lock(&mutex_);
    if (finished_) return;
    queue_.push_back(std::move(response));
    if (queue_.size() == 1) this->StartWrite(&queue_.front());
  }

  void End(const grpc::Status& status) {
    {
      MutexLock lock(&mutex_);
      if (finished_) return;
      finished_ = true;
    }
    Ended();
    this->Finish(status);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    Handle(request_);
    MutexLock lock(&mutex_);
    if (!finished_) this->StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    if (!ok || finished_) return;
    queue_.pop_front();
    if (!queue_.empty()) this->StartWrite(&queue_.front());
  }

  Request request_;
  Mutex mutex_;
  std::deque<Response> queue_ ABSL_GUARDED_BY(mutex_);  // The first is being written.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

namespace {

constexpr uint64_t kGeneration = 1;

grpc::Status StatusOf(const Verdict& verdict) {
  return grpc::Status(static_cast<grpc::StatusCode>(verdict.code), verdict.message);
}

void Fill(absl::Span<const float> values, Encoding::Kind encoding, Piece* piece) {
  std::string bytes(values.size() * WidthOf(encoding), '\0');
  if (encoding == Encoding::FLOAT32) {
    std::memcpy(&bytes[0], values.data(), bytes.size());
  } else {
    CHECK_EQ(Narrow(values, encoding, &bytes[0]), values.size());
  }
  SetElements(encoding, std::move(bytes), piece);
}

}  // namespace

class FakeParameterServer::PushReactor final : public QueueReactor<PushRequest, PushResponse> {
 public:
  explicit PushReactor(FakeParameterServer* server) : server_(server) { Begin(); }

 private:
  void Handle(const PushRequest& request) override {
    const Verdict verdict = server_->JudgePush(request);
    PushResponse response;
    response.set_push_id(request.push_id());
    switch (verdict.kind) {
      case Verdict::kIgnore:
        return;
      case Verdict::kBreakStream:
        return End(StatusOf(verdict));
      case Verdict::kRefuse:
        response.set_code(verdict.code);
        response.set_message(verdict.message);
        return Answer(std::move(response));
      default:
        if (!server_->TakePush(request, this, &response)) return;
        if (verdict.kind == Verdict::kLoseAnswer) return;
        if (verdict.kind == Verdict::kRepeat) Answer(response);
        Answer(std::move(response));
    }
  }

  void Ended() override { server_->ForgetStream(this); }
  void OnDone() override { delete this; }

  FakeParameterServer* const server_;
};

class FakeParameterServer::PullReactor final : public QueueReactor<PullRequest, PullResponse> {
 public:
  explicit PullReactor(FakeParameterServer* server) : server_(server) { Begin(); }

 private:
  void Handle(const PullRequest& request) override {
    const Verdict verdict = server_->JudgePull(request);
    PullResponse refusal;
    switch (verdict.kind) {
      case Verdict::kIgnore:
        return;
      case Verdict::kBreakStream:
        return End(StatusOf(verdict));
      case Verdict::kRefuse:
        refusal.set_pull_id(request.pull_id());
        refusal.set_last(true);
        refusal.set_code(verdict.code);
        refusal.set_message(verdict.message);
        return Answer(std::move(refusal));
      case Verdict::kServeHalf:
        Answer(server_->AnswerPull(request).front());
        return End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "half"));
      default:
        Serve(request, verdict.kind);
    }
  }

  void Serve(const PullRequest& request, Verdict::Kind kind) {
    bool lose = kind == Verdict::kLoseAnswer;
    for (PullResponse& response : server_->AnswerPull(request)) {
      if (std::exchange(lose, false)) continue;
      if (kind == Verdict::kRepeat) Answer(response);
      Answer(std::move(response));
    }
  }

  void OnDone() override { delete this; }

  FakeParameterServer* const server_;
};

class FakeParameterServer::Service final : public ParameterServer::CallbackService {
 public:
  explicit Service(FakeParameterServer* server) : server_(server) {}

  grpc::ServerBidiReactor<PushRequest, PushResponse>* Push(grpc::CallbackServerContext*) override {
    MutexLock lock(&server_->mutex_);
    ++server_->counters_.push_streams;
    return new PushReactor(server_);
  }

  grpc::ServerBidiReactor<PullRequest, PullResponse>* Pull(grpc::CallbackServerContext*) override {
    MutexLock lock(&server_->mutex_);
    ++server_->counters_.pull_streams;
    return new PullReactor(server_);
  }

 private:
  FakeParameterServer* const server_;
};

FakeParameterServer::FakeParameterServer(const std::map<uint32_t, std::vector<uint64_t>>& shards)
    : address_("127.0.0.1:0"), service_(std::make_unique<Service>(this)) {
  {
    // Nobody else is there yet, but gRPC's threads, through whose locks ThreadSanitizer does not
    // see, are to take over by this one: each element they read would be a race to it.
    MutexLock lock(&mutex_);
    for (const auto& [number, lengths] : shards) {
      Shard& shard = shards_[number];
      for (uint64_t length : lengths) {
        shard.slices.emplace_back(length);
        shard.elements += length;
      }
    }
  }
  Restart();
}

FakeParameterServer::~FakeParameterServer() { Stop(); }

void FakeParameterServer::Stop() { server_.reset(); }

void FakeParameterServer::Restart() {
  auto server = RpcServer::Start({.listen = address_}, {service_.get()});
  CHECK(server.ok()) << server.status();
  server_ = *std::move(server);
  address_ = server_->address();
}

void FakeParameterServer::SetPushRule(PushRule rule) {
  MutexLock lock(&mutex_);
  push_rule_ = std::move(rule);
}

void FakeParameterServer::SetPullRule(PullRule rule) {
  MutexLock lock(&mutex_);
  pull_rule_ = std::move(rule);
}

void FakeParameterServer::ForgetEncodings() {
  MutexLock lock(&mutex_);
  knows_encodings_ = false;
}

void FakeParameterServer::Freeze(uint32_t number, size_t slice) {
  MutexLock lock(&mutex_);
  Shard& shard = shards_.at(number);
  if (shard.frozen.insert(slice).second) shard.elements -= shard.slices.at(slice).size();
}

void FakeParameterServer::TakeOnly(uint32_t number, size_t slice, Encoding::Kind encoding) {
  MutexLock lock(&mutex_);
  shards_.at(number).wires[slice] = encoding;
}

std::vector<float> FakeParameterServer::values(uint32_t shard, size_t slice) {
  MutexLock lock(&mutex_);
  return shards_.at(shard).slices.at(slice);
}

void FakeParameterServer::SetValues(uint32_t shard, size_t slice, std::vector<float> values) {
  MutexLock lock(&mutex_);
  shards_.at(shard).slices.at(slice) = std::move(values);
}

FakeParameterServer::Counters FakeParameterServer::counters() {
  MutexLock lock(&mutex_);
  return counters_;
}

void FakeParameterServer::Await(const std::function<bool(const Counters&)>& condition) {
  MutexLock lock(&mutex_);
  while (!condition(counters_)) {
    CHECK(!changed_.WaitWithTimeout(&mutex_, absl::Seconds(60)))
        << "the fake parameter server waits in vain: " << counters_.push_messages
        << " push messages, " << counters_.pull_requests << " pull requests, "
        << counters_.unfinished_pushes << " unfinished pushes";
  }
}

Verdict FakeParameterServer::JudgePush(const PushRequest& request) {
  PushRule rule;
  {
    MutexLock lock(&mutex_);
    ++counters_.push_messages;
    counters_.largest_push = std::max(counters_.largest_push, request.ByteSizeLong());
    changed_.SignalAll();
    rule = push_rule_;
  }
  return rule ? rule(request) : Verdict();
}

Verdict FakeParameterServer::JudgePull(const PullRequest& request) {
  PullRule rule;
  {
    MutexLock lock(&mutex_);
    ++counters_.pull_requests;
    changed_.SignalAll();
    rule = pull_rule_;
  }
  return rule ? rule(request) : Verdict();
}

template <typename Request>
grpc::Status FakeParameterServer::CheckShard(const Request& request) const {
  if (request.job_id() != "job" || shards_.count(request.shard()) == 0) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such shard here");
  }
  if (request.generation() == kGeneration) return grpc::Status::OK;
  return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the shard is at generation 1");
}

bool FakeParameterServer::TakePush(const PushRequest& request, const void* stream,
                                   PushResponse* response) {
  MutexLock lock(&mutex_);
  Assembly* assembly = nullptr;
  const grpc::Status status = Assemble(request, stream, &assembly);
  bool answer = true;
  if (!status.ok()) {
    assemblies_.erase(request.push_id());
    voided_.insert(request.push_id());
    response->set_code(status.error_code());
    response->set_message(status.error_message());
  } else if (assembly->elements == shards_.at(request.shard()).elements) {
    Apply(request, *assembly, response);
    assemblies_.erase(request.push_id());
  } else {
    answer = false;
  }
  counters_.unfinished_pushes = static_cast<int>(assemblies_.size());
  changed_.SignalAll();
  return answer;
}

grpc::Status FakeParameterServer::Assemble(const PushRequest& request, const void* stream,
                                           Assembly** assembly) {
  if (grpc::Status status = CheckShard(request); !status.ok()) return status;
  if (voided_.count(request.push_id()) > 0) {
    return grpc::Status(grpc::StatusCode::ABORTED, "the push was voided");
  }
  const Shard& shard = shards_.at(request.shard());
  if (request.pieces().empty() && shard.elements > 0) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no pieces");
  }
  *assembly = &assemblies_[request.push_id()];
  (*assembly)->streams.insert(stream);
  (*assembly)->gradients.resize(shard.slices.size());
  (*assembly)->arrived.resize(shard.slices.size());
  for (const Piece& piece : request.pieces()) {
    if (grpc::Status status = AddPiece(shard, piece, *assembly); !status.ok()) return status;
  }
  return grpc::Status::OK;
}

grpc::Status FakeParameterServer::AddPiece(const Shard& shard, const Piece& piece,
                                           Assembly* assembly) {
  const auto invalid = [](const std::string& what) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, what);
  };
  if (piece.slice() >= shard.slices.size()) return invalid("no such slice");
  if (shard.frozen.count(piece.slice()) > 0) return invalid("the slice is frozen");
  const Encoding::Kind encoding = EncodingOf(piece);
  const std::string& bytes = ElementsOf(piece);
  if (bytes.empty()) return invalid("a piece has no data as FLOAT32, FLOAT16 or BFLOAT16");
  if (bytes.size() % WidthOf(encoding) != 0) {
    return invalid(absl::StrCat(FieldOf(encoding).name, ": ", bytes.size(), " bytes; expected a ",
                                "multiple of ", WidthOf(encoding)));
  }
  const auto wire = shard.wires.find(piece.slice());
  if (wire != shard.wires.end() && wire->second != encoding) {
    return invalid(absl::StrCat("piece.", FieldOf(encoding).name, ": ",
                                Encoding::Kind_Name(encoding), "; must be ",
                                Encoding::Kind_Name(wire->second)));
  }
  const size_t size = shard.slices[piece.slice()].size();
  const size_t count = bytes.size() / WidthOf(encoding);
  if (piece.offset() > size || count > size - piece.offset()) return invalid("past the slice");
  std::vector<bool>& arrived = assembly->arrived[piece.slice()];
  arrived.resize(size);
  const auto begin = arrived.begin() + piece.offset();
  if (std::find(begin, begin + count, true) != begin + count) return invalid("an element twice");
  std::fill(begin, begin + count, true);
  std::vector<float>& gradient = assembly->gradients[piece.slice()];
  gradient.resize(size);
  Widen(encoding, bytes.data(), absl::MakeSpan(gradient).subspan(piece.offset(), count));
  assembly->elements += count;
  return grpc::Status::OK;
}

void FakeParameterServer::Apply(const PushRequest& request, const Assembly& assembly,
                                PushResponse* response) {
  Shard& shard = shards_.at(request.shard());
  const bool applied = shard.applied.insert(request.step()).second;
  response->set_version(shard.applied.size());
  if (!applied) return response->set_outcome(PushResponse::ALREADY_APPLIED);
  for (size_t i = 0; i < shard.slices.size(); ++i) {
    if (shard.frozen.count(i) > 0) continue;
    for (size_t j = 0; j < shard.slices[i].size(); ++j) {
      shard.slices[i][j] -= assembly.gradients[i][j];
    }
  }
  ++counters_.applied;
  response->set_outcome(PushResponse::APPLIED);
}

void FakeParameterServer::ForgetStream(const void* stream) {
  MutexLock lock(&mutex_);
  for (auto it = assemblies_.begin(); it != assemblies_.end();) {
    if (it->second.streams.count(stream) > 0) {
      voided_.insert(it->first);
      it = assemblies_.erase(it);
    } else {
      ++it;
    }
  }
  counters_.unfinished_pushes = static_cast<int>(assemblies_.size());
  changed_.SignalAll();
}

std::vector<PullResponse> FakeParameterServer::AnswerPull(const PullRequest& request) {
  MutexLock lock(&mutex_);
  grpc::Status status = CheckShard(request);
  if (status.ok() && request.parts() > 0 && request.part() >= request.parts()) {
    status = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no such part");
  }
  if (status.ok() && !Encoding::Kind_IsValid(request.encoding())) {
    status = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                          absl::StrCat("encoding: ", static_cast<int>(request.encoding()),
                                       "; must be one of FLOAT32, FLOAT16, BFLOAT16"));
  }
  const Encoding::Kind encoding = knows_encodings_ ? request.encoding() : Encoding::FLOAT32;
  std::vector<PullResponse> responses;
  if (!status.ok()) {
    responses.emplace_back();
    responses.back().set_pull_id(request.pull_id());
    responses.back().set_last(true);
    responses.back().set_code(status.error_code());
    responses.back().set_message(status.error_message());
    return responses;
  }
  const Shard& shard = shards_.at(request.shard());
  for (size_t i = 0; i < shard.slices.size(); ++i) {
    const std::vector<float>& slice = shard.slices[i];
    for (size_t offset = 0; offset < slice.size(); offset += kBlockElements) {
      const size_t count = std::min(kBlockElements, slice.size() - offset);
      responses.emplace_back();
      Piece* piece = responses.back().add_pieces();
      piece->set_slice(static_cast<uint32_t>(i));
      piece->set_offset(offset);
      Fill(absl::MakeConstSpan(slice).subspan(offset, count), encoding, piece);
    }
  }
  const size_t parts = std::max<size_t>(request.parts(), 1);
  const size_t begin = responses.size() * request.part() / parts;
  const size_t end = responses.size() * (request.part() + 1) / parts;
  responses.erase(responses.begin() + end, responses.end());
  responses.erase(responses.begin(), responses.begin() + begin);
  if (responses.empty()) responses.emplace_back();
  for (PullResponse& response : responses) {
    response.set_pull_id(request.pull_id());
    response.set_encoding(encoding);
    response.set_version(shard.applied.size());
  }
  responses.back().set_last(true);
  return responses;
}

}  // namespace millrace::testing
