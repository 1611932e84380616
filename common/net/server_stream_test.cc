// Streams of a real server on loopback.
#include "common/net/server_stream.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/net/byte_buffer.h"
#include "common/net/channel.h"
#include "common/net/server.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/slice.h"
#include "grpcpp/support/sync_stream.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace {
namespace {

constexpr size_t kMiB = 1 << 20;  // More than is sent ahead to a client that does not read.

grpc::ByteBuffer Answer(uint64_t id, size_t bytes = 0) {
  PushResponse response;
  response.set_push_id(id);
  response.set_message(std::string(bytes, 'x'));
  return ToByteBuffer(response);
}

uint64_t IdOf(const grpc::ByteBuffer& message) {
  PushRequest request;
  EXPECT_TRUE(FromByteBuffer(message, &request));
  return request.push_id();
}

// Counts up, and lets a test wait.
class Counter {
 public:
  void Add() {
    MutexLock lock(&mutex_);
    ++count_;
    changed_.SignalAll();
  }
  void Await(int count) {
    const absl::Time deadline = Clock::Real()->Now() + absl::Minutes(1);
    MutexLock lock(&mutex_);
    while (count_ < count) {
      ASSERT_FALSE(Clock::Real()->WaitUntil(&changed_, &mutex_, deadline))
          << count_ << " of " << count;
    }
  }
  int count() {
    MutexLock lock(&mutex_);
    return count_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What streams have come to.
struct Counters {
  Counter last_messages;
  Counter endings;
  Counter ends;
  Counter gone;  // Destroyed.
};

struct Answers {
  int count = 1;  // For each message.
  size_t bytes = 0;
};

// Answers each message with its id, and does what else a test wants.
class EchoStream : public ServerStream {
 public:
  explicit EchoStream(Counters* counters, Answers answers = {})
      : answers_(answers), counters_(counters) {}
  ~EchoStream() override { counters_->gone.Add(); }

  // Ends in good order.
  void Complete() { EndWhenWritten(); }

  // The most messages that have waited.
  size_t longest() {
    MutexLock lock(&longest_mutex_);
    return longest_;
  }

 protected:
  void OnMessage(const grpc::ByteBuffer& message) override {
    const uint64_t id = IdOf(message);
    for (int i = 0; i < answers_.count; ++i) {
      const size_t waiting = Send(Answer(id, answers_.bytes));
      MutexLock lock(&longest_mutex_);
      longest_ = std::max(longest_, waiting);
    }
    ReadNextWhenWritten();
  }
  void OnLastMessage() override {
    counters_->last_messages.Add();
    EndWhenWritten();
  }
  void OnEnding() override {
    counters_->endings.Add();
    EXPECT_FALSE(ending_) << "called once at most";
    ending_ = true;
    // What is sent and ended from here is too late.
    EXPECT_EQ(Send(Answer(0)), 0u);
    End(absl::InternalError("the second end"));
    EXPECT_FALSE(ended_);
  }
  void OnEnded() override {
    ended_ = true;
    counters_->ends.Add();
  }

  Counters* counters() { return counters_; }

 private:
  const Answers answers_;
  Counters* const counters_;
  bool ending_ = false;
  bool ended_ = false;  // OnEnding comes before OnEnded.
  Mutex longest_mutex_;
  size_t longest_ ABSL_GUARDED_BY(longest_mutex_) = 0;
};

class ServerStreamTest : public testing::Test {
 protected:
  using Call = grpc::ClientReaderWriter<PushRequest, PushResponse>;

  ~ServerStreamTest() override {
    registry_.Stop();
    server_->Shutdown(absl::Seconds(30));
    MutexLock lock(&mutex_);
    EXPECT_EQ(counters_.ends.count(), started_);
    EXPECT_EQ(counters_.gone.count(), started_) << "a stream outlives its end";
  }

  // Each stream that is opened is one that `make` makes.
  void Serve(std::function<std::shared_ptr<EchoStream>()> make) {
    service_.start = [this, make = std::move(make)] {
      std::shared_ptr<EchoStream> stream = make();
      {
        MutexLock lock(&mutex_);
        ++started_;
        newest_ = stream;
      }
      return ServerStream::Start(std::move(stream), &registry_);
    };
    auto server = RpcServer::Start({}, {&service_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = ParameterServer::NewStub(CreateChannel(server_->address()));
  }

  void ServeEcho(Answers answers = {}) {
    Serve([this, answers] { return std::make_shared<EchoStream>(&counters_, answers); });
  }

  std::unique_ptr<Call> Open(grpc::ClientContext* context) { return stub_->Push(context); }

  static bool Write(Call* call, uint64_t id) {
    PushRequest request;
    request.set_push_id(id);
    return call->Write(request);
  }

  // Has one message answered. Returns the server's end of the call; REQUIRES: it was opened last.
  std::shared_ptr<EchoStream> Exchange(Call* call) {
    PushResponse answer;
    EXPECT_TRUE(Write(call, 0));
    EXPECT_TRUE(call->Read(&answer));
    return Newest();
  }

  // The server's end of the call that was opened last. REQUIRES: it has not ended.
  std::shared_ptr<EchoStream> Newest() {
    MutexLock lock(&mutex_);
    return newest_.lock();
  }

  // Reads what there is; returns how many messages.
  static int ReadAll(Call* call) {
    PushResponse answer;
    int messages = 0;
    while (call->Read(&answer)) ++messages;
    return messages;
  }

  Counters counters_;
  StreamRegistry registry_{absl::UnavailableError("the test stops")};

 private:
  class Service final
      : public ParameterServer::WithRawCallbackMethod_Push<ParameterServer::Service> {
   public:
    ServerStream::Reactor* Push(grpc::CallbackServerContext*) override { return start(); }
    std::function<ServerStream::Reactor*()> start;
  };

  Mutex mutex_;
  int started_ ABSL_GUARDED_BY(mutex_) = 0;
  std::weak_ptr<EchoStream> newest_ ABSL_GUARDED_BY(mutex_);
  Service service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<ParameterServer::Stub> stub_;
};

TEST_F(ServerStreamTest, MessagesAreAnsweredInOrderUntilTheClientHasNoMore) {
  ServeEcho();
  grpc::ClientContext context;
  const auto call = Open(&context);
  for (uint64_t id = 0; id < 100; ++id) ASSERT_TRUE(Write(call.get(), id));
  call->WritesDone();
  PushResponse answer;
  for (uint64_t id = 0; id < 100; ++id) {
    ASSERT_TRUE(call->Read(&answer));
    EXPECT_EQ(answer.push_id(), id);
  }
  EXPECT_FALSE(call->Read(&answer));
  EXPECT_TRUE(call->Finish().ok());
  counters_.gone.Await(1);
  EXPECT_EQ(counters_.endings.count(), 0) << "it was ended early";
}

TEST_F(ServerStreamTest, ClientThatHasNoMoreMessagesStillGetsItsAnswers) {
  class Patient final : public EchoStream {
   public:
    using EchoStream::EchoStream;
    void OnLastMessage() override { counters()->last_messages.Add(); }
  };
  Serve([this] { return std::make_shared<Patient>(&counters_); });
  grpc::ClientContext context;
  const auto call = Open(&context);
  const std::shared_ptr<EchoStream> stream = Exchange(call.get());
  call->WritesDone();
  counters_.last_messages.Await(1);
  for (uint64_t id = 1; id <= 10; ++id) stream->Send(Answer(id, kMiB));
  stream->Complete();
  PushResponse answer;
  for (uint64_t id = 1; id <= 10; ++id) {
    ASSERT_TRUE(call->Read(&answer));
    EXPECT_EQ(answer.push_id(), id);
  }
  EXPECT_FALSE(call->Read(&answer));
  EXPECT_TRUE(call->Finish().ok());
}

// As values of a pull are sent, one message after the other.
TEST_F(ServerStreamTest, MessagesCanBeSentAsThoseBeforeAreWritten) {
  class Countdown final : public EchoStream {
   public:
    using EchoStream::EchoStream;
    void OnMessage(const grpc::ByteBuffer& message) override {
      left_ = IdOf(message);
      Send(Answer(left_));
    }
    void OnIdle() override {
      if (left_ == 0) return ReadNext();
      Send(Answer(--left_));
    }

   private:
    uint64_t left_ = 0;
  };
  Serve([this] { return std::make_shared<Countdown>(&counters_); });
  grpc::ClientContext context;
  const auto call = Open(&context);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Write(call.get(), i));
    for (int left = i; left >= 0; --left) {
      PushResponse answer;
      ASSERT_TRUE(call->Read(&answer));
      EXPECT_EQ(answer.push_id(), static_cast<uint64_t>(left));
    }
  }
  call->WritesDone();
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(ServerStreamTest, ClientThatDoesNotReadIsNotReadEither) {
  constexpr int kAnswers = 500;
  constexpr int kRequests = 60;
  ServeEcho({kAnswers, /*bytes=*/512});
  grpc::ClientContext context;
  const auto call = Open(&context);
  for (uint64_t id = 0; id < kRequests; ++id) ASSERT_TRUE(Write(call.get(), id));
  call->WritesDone();
  PushResponse answer;
  ASSERT_TRUE(call->Read(&answer));
  const std::shared_ptr<EchoStream> stream = Newest();
  std::vector<int> answers(kRequests);
  do {
    ++answers[answer.push_id()];
  } while (call->Read(&answer));
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_EQ(answers, std::vector<int>(kRequests, kAnswers));
  EXPECT_LT(stream->longest(), ServerStream::kManyMessages + kAnswers);
}

TEST_F(ServerStreamTest, EndComesAtOnceWhereMessagesWait) {
  constexpr int kMessages = 40;
  ServeEcho();
  grpc::ClientContext context;
  const auto call = Open(&context);
  const std::shared_ptr<EchoStream> stream = Exchange(call.get());
  for (int i = 0; i < kMessages; ++i) stream->Send(Answer(i, kMiB));
  stream->End(absl::AbortedError("enough"));
  stream->End(absl::InternalError("the second end"));
  EXPECT_LT(ReadAll(call.get()), kMessages);
  const grpc::Status end = call->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(end.error_message(), "enough");
  EXPECT_EQ(counters_.endings.count(), 1);
}

TEST_F(ServerStreamTest, QueueThatGrowsCanEndTheStream) {
  class Flood final : public EchoStream {
   public:
    using EchoStream::EchoStream;
    void OnMessage(const grpc::ByteBuffer&) override {
      while (Send(Answer(0, kMiB)) < 10) {
      }
      End(absl::ResourceExhaustedError("it does not read"));
    }
  };
  Serve([this] { return std::make_shared<Flood>(&counters_); });
  grpc::ClientContext context;
  const auto call = Open(&context);
  ASSERT_TRUE(Write(call.get(), 0));
  counters_.endings.Await(1);
  ReadAll(call.get());
  EXPECT_EQ(call->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ServerStreamTest, StopEndsStreamsThatAreOpenAndThoseThatCome) {
  ServeEcho();
  grpc::ClientContext context;
  const auto call = Open(&context);
  Exchange(call.get());
  registry_.Stop();
  EXPECT_EQ(ReadAll(call.get()), 0);
  const grpc::Status end = call->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(end.error_message(), "the test stops");
  grpc::ClientContext late_context;
  EXPECT_EQ(Open(&late_context)->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  counters_.gone.Await(2);
}

TEST_F(ServerStreamTest, StreamOfAClientThatGoesIsLetGoOf) {
  ServeEcho();
  {
    grpc::ClientContext context;
    const auto call = Open(&context);
    Exchange(call.get());
    context.TryCancel();
    counters_.gone.Await(1);
    EXPECT_EQ(call->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  grpc::ClientContext context;
  const auto call = Open(&context);
  std::shared_ptr<EchoStream> stream = Exchange(call.get());
  const int endings = counters_.endings.count();
  for (int i = 0; i < 40; ++i) stream->Send(Answer(i, kMiB));
  context.TryCancel();
  counters_.ends.Await(2);
  EXPECT_EQ(counters_.endings.count(), endings + 1);
  // Who still holds it may use it.
  EXPECT_EQ(stream->Send(Answer(0)), 0u);
  stream->End(absl::AbortedError("late"));
  stream->Complete();
  stream.reset();
  counters_.gone.Await(2);
  call->Finish();
}

TEST_F(ServerStreamTest, EitherSideMayEndAtAnyMoment) {
  constexpr int kStreams = 200;
  ServeEcho({/*count=*/3, /*bytes=*/0});
  for (int i = 0; i < kStreams; ++i) {
    grpc::ClientContext context;
    const auto call = Open(&context);
    std::shared_ptr<EchoStream> stream = Exchange(call.get());
    ASSERT_NE(stream, nullptr);
    std::thread writer([&] {
      for (uint64_t id = 1; id < 50 && Write(call.get(), id); ++id) {
      }
    });
    std::thread sender([&] {
      for (int n = 0; n < 50; ++n) stream->Send(Answer(n));
    });
    PushResponse answer;
    for (int n = 0; n < i % 20 && call->Read(&answer); ++n) {
    }
    if (i % 2 == 0) context.TryCancel();
    if (i % 3 != 1) stream->End(absl::AbortedError("enough"));
    if (i % 6 == 1) context.TryCancel();
    writer.join();
    sender.join();
    ReadAll(call.get());
    EXPECT_FALSE(call->Finish().ok());
    stream.reset();
    counters_.gone.Await(i + 1);
  }
}

TEST_F(ServerStreamTest, StopMayComeWhileStreamsAreOpened) {
  ServeEcho();
  std::vector<std::thread> clients;
  Counter answered;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      for (;;) {
        grpc::ClientContext context;
        const auto call = Open(&context);
        PushResponse answer;
        const bool open = Write(call.get(), 0) && call->Read(&answer);
        answered.Add();
        call->WritesDone();
        const grpc::Status end = call->Finish();
        if (open && end.ok()) continue;
        EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE) << end.error_message();
        return;
      }
    });
  }
  answered.Await(100);
  registry_.Stop();
  for (std::thread& client : clients) client.join();
}

TEST_F(ServerStreamTest, ManyThreadsSendAndEachOnesMessagesKeepTheirOrder) {
  constexpr int kThreads = 4;
  constexpr uint64_t kMessages = 2000;
  ServeEcho();
  grpc::ClientContext context;
  const auto call = Open(&context);
  const std::shared_ptr<EchoStream> stream = Exchange(call.get());
  std::vector<std::thread> senders;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    senders.emplace_back([&, thread] {
      for (uint64_t i = 0; i < kMessages; ++i) stream->Send(Answer(thread * kMessages + i));
    });
  }
  std::vector<uint64_t> next(kThreads);
  PushResponse answer;
  for (uint64_t n = 0; n < kThreads * kMessages && call->Read(&answer); ++n) {
    EXPECT_EQ(answer.push_id() % kMessages, next[answer.push_id() / kMessages]++);
  }
  EXPECT_EQ(next, std::vector<uint64_t>(kThreads, kMessages));
  for (std::thread& sender : senders) sender.join();
  call->WritesDone();
  EXPECT_TRUE(call->Finish().ok());
}

// A value's owner may take any lock when it is freed; here, that of the stream itself.
TEST_F(ServerStreamTest, NoMessageIsFreedUnderTheStreamsLock) {
  constexpr int kMessages = 40;
  struct Value {
    std::weak_ptr<EchoStream> stream;
    Counter* freed;
    std::string bytes;
  };
  Counter freed;
  ServeEcho();
  grpc::ClientContext context;
  const auto call = Open(&context);
  std::shared_ptr<EchoStream> stream = Exchange(call.get());
  for (int i = 0; i < kMessages; ++i) {
    PushResponse response;
    response.set_message(std::string(kMiB, 'x'));
    auto* const value = new Value{stream, &freed, response.SerializeAsString()};
    const auto free = [](void* raw) {
      const std::unique_ptr<Value> owned(static_cast<Value*>(raw));
      if (const auto there = owned->stream.lock()) there->Send(Answer(0));
      owned->freed->Add();
    };
    const grpc::Slice slice(value->bytes.data(), value->bytes.size(), free, value);
    stream->Send(grpc::ByteBuffer(&slice, 1));
  }
  PushResponse answer;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(call->Read(&answer));
  stream->End(absl::AbortedError("frees those that wait"));
  ReadAll(call.get());
  EXPECT_EQ(call->Finish().error_code(), grpc::StatusCode::ABORTED);
  freed.Await(kMessages);
}

}  // namespace
}  // namespace millrace
