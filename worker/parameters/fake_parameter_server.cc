#include "worker/parameters/fake_parameter_server.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/wire/piece_elements.h"
#include "common/wire/tensor_codec.h"
#include "glog/logging.h"
#include "worker/parameters/fake_rows.h"

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

// Of a message.
constexpr size_t kMostRows = size_t{1} << 18;

grpc::Status Invalid(const std::string& what) {
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, what);
}

grpc::Status StatusOf(const Verdict& verdict) {
  return grpc::Status(static_cast<grpc::StatusCode>(verdict.code), verdict.message);
}

std::string Encoded(absl::Span<const float> values, Encoding::Kind encoding) {
  std::string bytes(values.size() * WidthOf(encoding), '\0');
  if (encoding == Encoding::FLOAT32) {
    std::memcpy(&bytes[0], values.data(), bytes.size());
  } else {
    CHECK_EQ(Narrow(values, encoding, &bytes[0]), values.size());
  }
  return bytes;
}

void Fill(absl::Span<const float> values, Encoding::Kind encoding, Piece* piece) {
  SetElements(encoding, Encoded(values, encoding), piece);
}

// How many elements a piece stands for.
size_t CountOf(const Piece& piece) {
  return piece.has_rows() ? piece.rows().count()
                          : ElementsOf(piece).size() / WidthOf(EncodingOf(piece));
}

// Of a block whose first element is `begin` of its variable. Returns false where it has no wanted
// row.
bool FillRows(absl::Span<const float> block, uint64_t begin, const WantedRows& wanted,
              Encoding::Kind encoding, Piece* piece) {
  PieceRows* const rows = piece->mutable_rows();
  rows->set_width(wanted.width());
  rows->set_count(block.size());
  rows->set_encoding(encoding);
  std::vector<float> values;
  for (const uint64_t i : ElementsInRows(wanted.rows(), wanted.width(), begin, block.size())) {
    const uint64_t row = (begin + i) / wanted.width();
    if (rows->rows().empty() || rows->rows(rows->rows_size() - 1) != row) rows->add_rows(row);
    values.push_back(block[i]);
  }
  piece->set_row_elements(Encoded(values, encoding));
  return !values.empty();
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

void FakeParameterServer::SetAnswerChange(AnswerChange change) {
  MutexLock lock(&mutex_);
  answer_change_ = std::move(change);
}

void FakeParameterServer::ForgetRows() {
  MutexLock lock(&mutex_);
  knows_rows_ = false;
}

void FakeParameterServer::Place(uint32_t shard, size_t slice, uint64_t offset) {
  MutexLock lock(&mutex_);
  shards_.at(shard).offsets[slice] = offset;
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
  size_t rows = 0;
  for (const Piece& piece : request.pieces()) {
    rows += static_cast<size_t>(piece.rows().rows_size());
    if (rows > kMostRows) return Invalid("rows: too many");
    if (grpc::Status status = AddPiece(shard, piece, *assembly); !status.ok()) return status;
  }
  return grpc::Status::OK;
}

grpc::Status FakeParameterServer::AddPiece(const Shard& shard, const Piece& piece,
                                           Assembly* assembly) {
  if (grpc::Status status = CheckPiece(shard, piece); !status.ok()) return status;
  const size_t size = shard.slices[piece.slice()].size();
  const size_t count = CountOf(piece);
  std::vector<bool>& arrived = assembly->arrived[piece.slice()];
  arrived.resize(size);
  const auto begin = arrived.begin() + piece.offset();
  if (std::find(begin, begin + count, true) != begin + count) return Invalid("an element twice");
  std::fill(begin, begin + count, true);
  std::vector<float>& gradient = assembly->gradients[piece.slice()];
  gradient.resize(size);
  const std::vector<uint64_t> given = GivenElements(shard, piece);
  std::vector<float> values(given.size());
  Widen(EncodingOf(piece), ElementsOf(piece).data(), absl::MakeSpan(values));
  for (size_t i = 0; i < given.size(); ++i) gradient[piece.offset() + given[i]] = values[i];
  assembly->elements += count;
  return grpc::Status::OK;
}

grpc::Status FakeParameterServer::CheckPiece(const Shard& shard, const Piece& piece) const {
  if (piece.slice() >= shard.slices.size()) return Invalid("no such slice");
  if (shard.frozen.count(piece.slice()) > 0) return Invalid("the slice is frozen");
  const std::string& bytes = ElementsOf(piece);
  if (piece.has_rows() ? !knows_rows_ : bytes.empty()) {
    return Invalid("a piece has no data as FLOAT32, FLOAT16 or BFLOAT16");
  }
  const Encoding::Kind encoding = EncodingOf(piece);
  if (!Encoding::Kind_IsValid(encoding)) return Invalid("rows.encoding: no such encoding");
  const size_t width = WidthOf(encoding);
  const std::string field = piece.has_rows() ? "row_elements" : FieldOf(encoding).name;
  if (bytes.size() % width != 0) {
    return Invalid(
        absl::StrCat(field, ": ", bytes.size(), " bytes; expected a multiple of ", width));
  }
  const auto wire = shard.wires.find(piece.slice());
  if (wire != shard.wires.end() && wire->second != encoding) {
    return Invalid(absl::StrCat("piece.", field, ": ", Encoding::Kind_Name(encoding), "; must be ",
                                Encoding::Kind_Name(wire->second)));
  }
  const size_t size = shard.slices[piece.slice()].size();
  if (piece.offset() > size || CountOf(piece) > size - piece.offset()) {
    return Invalid("past the slice");
  }
  return piece.has_rows() ? CheckRowsOfPiece(shard, piece) : grpc::Status::OK;
}

grpc::Status FakeParameterServer::CheckRowsOfPiece(const Shard& shard, const Piece& piece) {
  const PieceRows& rows = piece.rows();
  const uint64_t end = piece.offset() + rows.count();
  const bool whole = piece.offset() % kBlockElements == 0 &&
                     (end % kBlockElements == 0 || end == shard.slices[piece.slice()].size());
  if (rows.count() == 0 || !whole) return Invalid("rows.count: not of whole blocks");
  if (piece.elements_case() != Piece::ELEMENTS_NOT_SET) return Invalid("rows beside elements");
  const std::string why = WhyNoRows(rows.rows(), rows.width(),
                                    shard.offset(piece.slice()) + piece.offset(), rows.count());
  if (!why.empty()) return Invalid(why);
  const size_t bytes = GivenElements(shard, piece).size() * WidthOf(rows.encoding());
  if (piece.row_elements().size() == bytes) return grpc::Status::OK;
  return Invalid(
      absl::StrCat("row_elements: ", piece.row_elements().size(), " bytes; the rows have ", bytes));
}

std::vector<uint64_t> FakeParameterServer::GivenElements(const Shard& shard, const Piece& piece) {
  if (piece.has_rows()) {
    return ElementsInRows(piece.rows().rows(), piece.rows().width(),
                          shard.offset(piece.slice()) + piece.offset(), piece.rows().count());
  }
  std::vector<uint64_t> all(CountOf(piece));
  std::iota(all.begin(), all.end(), uint64_t{0});
  return all;
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

grpc::Status FakeParameterServer::CheckPull(const PullRequest& request) const {
  if (grpc::Status status = CheckShard(request); !status.ok()) return status;
  if (request.parts() > 0 && request.part() >= request.parts()) return Invalid("no such part");
  if (!Encoding::Kind_IsValid(request.encoding())) {
    return Invalid(absl::StrCat("encoding: ", static_cast<int>(request.encoding()),
                                "; must be one of FLOAT32, FLOAT16, BFLOAT16"));
  }
  return knows_rows_ ? CheckWantedRows(shards_.at(request.shard()), request) : grpc::Status::OK;
}

grpc::Status FakeParameterServer::CheckWantedRows(const Shard& shard, const PullRequest& request) {
  std::set<uint32_t> named;
  size_t rows = 0;
  for (const WantedRows& wanted : request.rows()) {
    if (wanted.slice() >= shard.slices.size()) return Invalid("rows.slice: no such slice");
    if (!named.insert(wanted.slice()).second) return Invalid("rows.slice: named twice");
    const std::string why = WhyNoRows(wanted.rows(), wanted.width(), shard.offset(wanted.slice()),
                                      shard.slices[wanted.slice()].size());
    if (!why.empty()) return Invalid(why);
    rows += static_cast<size_t>(wanted.rows_size());
  }
  return rows > kMostRows ? Invalid("rows: too many") : grpc::Status::OK;
}

std::vector<PullResponse> FakeParameterServer::AnswerBlocks(const PullRequest& request,
                                                            Encoding::Kind encoding) {
  const Shard& shard = shards_.at(request.shard());
  std::map<size_t, const WantedRows*> wanted;  // By slice.
  for (const WantedRows& rows : request.rows()) {
    if (knows_rows_) wanted[rows.slice()] = &rows;
  }
  std::vector<PullResponse> responses;
  for (size_t i = 0; i < shard.slices.size(); ++i) {
    const absl::Span<const float> slice = shard.slices[i];
    for (size_t offset = 0; offset < slice.size(); offset += kBlockElements) {
      const absl::Span<const float> block = slice.subspan(offset, kBlockElements);
      responses.emplace_back();
      Piece piece;
      piece.set_slice(static_cast<uint32_t>(i));
      piece.set_offset(offset);
      if (wanted.count(i) == 0) {
        Fill(block, encoding, &piece);
      } else if (!FillRows(block, shard.offset(i) + offset, *wanted[i], encoding, &piece)) {
        continue;
      }
      *responses.back().add_pieces() = std::move(piece);
    }
  }
  return responses;
}

std::vector<PullResponse> FakeParameterServer::AnswerPull(const PullRequest& request) {
  MutexLock lock(&mutex_);
  const grpc::Status status = CheckPull(request);
  std::vector<PullResponse> responses;
  if (!status.ok()) {
    responses.emplace_back();
    responses.back().set_pull_id(request.pull_id());
    responses.back().set_last(true);
    responses.back().set_code(status.error_code());
    responses.back().set_message(status.error_message());
    return responses;
  }
  const Encoding::Kind encoding = knows_encodings_ ? request.encoding() : Encoding::FLOAT32;
  responses = AnswerBlocks(request, encoding);
  const size_t parts = std::max<size_t>(request.parts(), 1);
  const size_t begin = responses.size() * request.part() / parts;
  const size_t end = responses.size() * (request.part() + 1) / parts;
  responses.erase(responses.begin() + end, responses.end());
  responses.erase(responses.begin(), responses.begin() + begin);
  responses.erase(std::remove_if(responses.begin(), responses.end(),
                                 [](const auto& response) { return response.pieces().empty(); }),
                  responses.end());
  if (responses.empty()) responses.emplace_back();
  responses.back().set_last(true);
  for (PullResponse& response : responses) {
    response.set_pull_id(request.pull_id());
    response.set_encoding(encoding);
    response.set_version(shards_.at(request.shard()).applied.size());
    response.set_knows_rows(knows_rows_);
    if (answer_change_) answer_change_(&response);
  }
  return responses;
}

}  // namespace millrace::testing
