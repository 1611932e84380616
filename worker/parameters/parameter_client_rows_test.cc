// Pulls and pushes of some rows of variables, against fake servers, on loopback.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/wire/encoding.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/parameters/fake_parameter_server.h"
#include "worker/parameters/parameter_client.h"
#include "worker/parameters/test_cluster.h"

namespace millrace::worker {
namespace {

// What is given, or wanted, of each variable.
using RowsOfAll = std::vector<VariableRows>;

// Widths that divide neither blocks nor shards; a variable that is dense, and one without rows.
const std::vector<uint64_t> kTables = {7 * 120'000, 1000, 1001 * 600, 64 * 10'000};

RowsOfAll SomeRows() {
  RowsOfAll rows = {{7}, {0}, {1001}, {64}};
  for (uint64_t row = 5; row < 120'000; row += 997) rows[0].rows.push_back(row);
  // Those at the borders of the first two blocks, and rows that follow one another.
  for (const uint64_t row : {261, 262, 263, 523, 599}) rows[2].rows.push_back(row);
  return rows;
}

bool IsGiven(const VariableRows& rows, size_t element) {
  return rows.width == 0 ||
         std::binary_search(rows.rows.begin(), rows.rows.end(), element / rows.width);
}

// The rows of `values`, and `other` at the other places.
testing::Values InRows(testing::Values values, const RowsOfAll& rows, float other) {
  for (size_t variable = 0; variable < values.size(); ++variable) {
    for (size_t i = 0; i < values[variable].size(); ++i) {
      if (!IsGiven(rows[variable], i)) values[variable][i] = other;
    }
  }
  return values;
}

uint64_t ElementsIn(const testing::Values& values, const RowsOfAll& rows) {
  uint64_t elements = 0;
  for (size_t variable = 0; variable < values.size(); ++variable) {
    elements += rows[variable].width == 0 ? values[variable].size()
                                          : rows[variable].rows.size() * rows[variable].width;
  }
  return elements;
}

// What is left of `values` when the rows of `gradients` are subtracted.
testing::Values Less(testing::Values values, const testing::Values& gradients,
                     const RowsOfAll& rows) {
  const testing::Values in_rows = InRows(gradients, rows, 0);
  for (size_t variable = 0; variable < values.size(); ++variable) {
    for (size_t i = 0; i < values[variable].size(); ++i) {
      values[variable][i] -= in_rows[variable][i];
    }
  }
  return values;
}

// Lets `verdict` befall the first `times` messages.
template <typename Request>
std::function<testing::Verdict(const Request&)> FirstTimes(int times, testing::Verdict verdict) {
  return [verdict, left = std::make_shared<std::atomic<int>>(times)](const Request&) {
    return left->fetch_sub(1) > 0 ? verdict : testing::Verdict();
  };
}

// On which the pauses before a call is made again take no time.
class HurriedClock final : public Clock {
 public:
  absl::Time Now() override { return Clock::Real()->Now() + absl::Nanoseconds(ahead_.load()); }

  bool WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const absl::Duration pause = deadline - Now();
    if (pause > absl::Seconds(2)) {
      return Clock::Real()->WaitUntil(condition, mutex, Clock::Real()->Now() + pause);
    }
    ahead_ += absl::ToInt64Nanoseconds(pause);
    return true;
  }

 private:
  std::atomic<int64_t> ahead_{0};
};

class ParameterClientRowsTest : public ::testing::Test {
 protected:
  using PullOptions = ParameterClient::PullOptions;
  using Counters = testing::FakeParameterServer::Counters;
  using TestCluster = testing::TestCluster;
  using Values = testing::Values;
  using Verdict = testing::Verdict;

  static absl::Time Deadline() { return Clock::Real()->Now() + absl::Seconds(120); }

  static PullOptions Wanting(RowsOfAll rows) {
    PullOptions options;
    options.deadline = Deadline();
    options.rows = std::move(rows);
    return options;
  }

  // Into values that were -1 before.
  static absl::Status PullOver(TestCluster* cluster, ParameterClient* client,
                               const PullOptions& options, Values* values) {
    *values = cluster->Zeros();
    for (auto& variable : *values) std::fill(variable.begin(), variable.end(), -1.0f);
    return client->Pull(options, TestCluster::Spans(values));
  }

  // Pulls, and expects the rows to have come, and nothing else to have been written.
  static void ExpectRowsCome(TestCluster* cluster, ParameterClient* client, const RowsOfAll& rows) {
    Values values;
    ASSERT_EQ(PullOver(cluster, client, Wanting(rows), &values), absl::OkStatus());
    EXPECT_EQ(values, InRows(cluster->Stored(), rows, -1));
  }

  // Nothing is wanted: the client learns of each server whether it knows rows.
  static void Learn(TestCluster* cluster, ParameterClient* client) {
    ExpectRowsCome(cluster, client, RowsOfAll(cluster->Zeros().size(), {1}));
  }

  // The rows of the gradients, and all of dense variables.
  static void Add(const Values& gradients, const RowsOfAll& rows, Encoding::Kind encoding,
                  ParameterClient::Push* push) {
    for (size_t variable = gradients.size(); variable-- > 0;) {
      const VariableRows& of_variable = rows[variable];
      const auto given = std::make_shared<std::vector<float>>();
      for (size_t i = 0; i < gradients[variable].size(); ++i) {
        if (IsGiven(of_variable, i)) given->push_back(gradients[variable][i]);
      }
      const size_t size = given->size();
      if (encoding != Encoding::FLOAT32) NarrowFinite(*given, encoding, given->data());
      const EncodedNumbers numbers(encoding, given->data(), size);
      if (of_variable.width == 0) {
        push->Add(variable, numbers, given);
      } else {
        push->AddRows(variable, std::make_shared<const VariableRows>(of_variable), numbers, given);
      }
    }
  }

  static absl::Status PushGiven(TestCluster* cluster, ParameterClient* client, uint64_t step,
                                const RowsOfAll& rows) {
    const auto push = client->StartPush(step, 32);
    Add(cluster->MakeValues(step), rows, Encoding::FLOAT32, push.get());
    push->Commit();
    return push->Wait(Deadline());
  }
};

TEST_F(ParameterClientRowsTest, WantedRowsComeAndOtherPlacesAreUntouched) {
  for (const int shards : {1, 3, 7}) {
    for (const int connections : {1, 4}) {
      TestCluster cluster(kTables, shards, /*servers=*/2 - shards % 2);
      cluster.Store(cluster.MakeValues(1));
      const auto client = cluster.NewClient(connections);
      for (int i = 0; i < 2; ++i) ExpectRowsCome(&cluster, client.get(), SomeRows());
    }
  }
}

TEST_F(ParameterClientRowsTest, NothingElseTravelsAndIsToldOf) {
  std::atomic<uint64_t> sent = 0;
  TestCluster cluster(kTables, /*shards=*/3, /*servers=*/1);
  cluster.Store(cluster.MakeValues(1));
  std::atomic<int> requests = 0;
  cluster.server(0).SetAnswerChange([&sent](PullResponse* response) {
    for (const Piece& piece : response->pieces()) {
      sent += (piece.data().size() + piece.row_elements().size()) / sizeof(float);
    }
  });
  const auto client = cluster.NewClient();
  for (int i = 0; i < 2; ++i) {
    sent = 0;
    requests = cluster.server(0).counters().pull_requests;
    Values values;
    Values told = cluster.Zeros();
    std::atomic<uint64_t> elements = 0;
    PullOptions options = Wanting(SomeRows());
    options.arrived = [&](size_t variable, size_t first, size_t count) {
      std::copy_n(values[variable].begin() + static_cast<ptrdiff_t>(first), count,
                  told[variable].begin() + static_cast<ptrdiff_t>(first));
      elements += count;
    };
    ASSERT_EQ(PullOver(&cluster, client.get(), options, &values), absl::OkStatus());
    EXPECT_EQ(told, InRows(cluster.MakeValues(1), SomeRows(), 0));
    EXPECT_EQ(elements, ElementsIn(values, SomeRows()));
    EXPECT_EQ(sent, ElementsIn(values, SomeRows()));
  }
  EXPECT_EQ(cluster.server(0).counters().pull_requests - requests, 3)
      << "little is wanted of servers that are known to send no more";
}

TEST_F(ParameterClientRowsTest, RequestsNameRowsOfTheirOwnPart) {
  std::atomic<uint64_t> named = 0;
  std::atomic<uint64_t> requests = 0;
  TestCluster cluster({7 * 300'000}, /*shards=*/2, /*servers=*/1);
  cluster.Store(cluster.MakeValues(1));
  cluster.server(0).SetPullRule([&](const PullRequest& request) {
    ++requests;
    for (const WantedRows& rows : request.rows()) named += static_cast<uint64_t>(rows.rows_size());
    return Verdict();
  });
  RowsOfAll rows = {{7}};
  for (uint64_t row = 0; row < 300'000; ++row) rows[0].rows.push_back(row);
  const auto client = cluster.NewClient();
  ExpectRowsCome(&cluster, client.get(), rows);
  EXPECT_EQ(requests, 8u);
  EXPECT_GE(named, 300'000u);
  EXPECT_LT(named, 300'000u + requests) << "a row may be in two parts at their borders";
}

TEST_F(ParameterClientRowsTest, AllElementsComeOfWhatHasMoreRowsThanARequestMayName) {
  TestCluster cluster({2 * kMaxRows + 100, 1000}, /*shards=*/1, /*servers=*/1);
  cluster.Store(cluster.MakeValues(1));
  RowsOfAll rows = {{1}, {10, {3, 50}}};
  for (uint64_t row = 0; row < 2 * kMaxRows + 100; row += 2) rows[0].rows.push_back(row);
  const auto client = cluster.NewClient(/*connections_per_server=*/1);
  for (int i = 0; i < 2; ++i) {
    Values values;
    ASSERT_EQ(PullOver(&cluster, client.get(), Wanting(rows), &values), absl::OkStatus());
    EXPECT_EQ(values, InRows(cluster.MakeValues(1), {{0}, rows[1]}, -1));
  }
}

TEST_F(ParameterClientRowsTest, PullThatWantsNothingAsksAllServersTheSame) {
  TestCluster cluster(kTables, /*shards=*/3, /*servers=*/2);
  const auto client = cluster.NewClient();
  Learn(&cluster, client.get());
  cluster.server(1).SetPullRule(FirstTimes<PullRequest>(
      1, {Verdict::kRefuse, static_cast<int>(absl::StatusCode::kAborted), "no longer there"}));
  PullOptions options = Wanting({{7}, {1}, {1001}, {64}});
  options.version = 3;
  Values values;
  EXPECT_TRUE(absl::IsAborted(PullOver(&cluster, client.get(), options, &values)));
}

TEST_F(ParameterClientRowsTest, AnswersThatAreLostOrComeTwiceLeaveNoHole) {
  const int unavailable = static_cast<int>(absl::StatusCode::kUnavailable);
  for (const Verdict::Kind kind : {Verdict::kLoseAnswer, Verdict::kRepeat, Verdict::kServeHalf,
                                   Verdict::kBreakStream, Verdict::kIgnore}) {
    TestCluster cluster(kTables, /*shards=*/2, /*servers=*/1);
    cluster.Store(cluster.MakeValues(1));
    ParameterClientOptions options;
    options.call_timeout = absl::Milliseconds(50);
    const auto client = cluster.NewClient(options);
    Learn(&cluster, client.get());
    cluster.server(0).SetPullRule(FirstTimes<PullRequest>(2, {kind, unavailable, "test"}));
    ExpectRowsCome(&cluster, client.get(), SomeRows());
  }
}

TEST_F(ParameterClientRowsTest, RowsComeRoundedToTheEncoding) {
  TestCluster cluster(kTables, /*shards=*/3, /*servers=*/2);
  Values stored = cluster.MakeValues(1);
  for (auto& variable : stored) {
    for (float& value : variable) value = std::fmod(value, 256.0f);  // What both encodings have.
  }
  cluster.Store(stored);
  const auto client = cluster.NewClient();
  for (const auto encoding : {Encoding::FLOAT16, Encoding::BFLOAT16}) {
    PullOptions options = Wanting(SomeRows());
    options.encoding = encoding;
    Values values;
    ASSERT_EQ(PullOver(&cluster, client.get(), options, &values), absl::OkStatus());
    EXPECT_EQ(values, InRows(stored, SomeRows(), -1));
  }
}

// What a server makes of the first piece with rows that it sends.
using PieceChange = std::function<void(Piece*)>;

void SetFirstRow(uint64_t row, Piece* piece) { piece->mutable_rows()->set_rows(0, row); }

const std::pair<const char*, PieceChange> kWrongPieces[] = {
    {"a row that is not wanted", [](Piece* piece) { SetFirstRow(2, piece); }},
    {"a row twice", [](Piece* piece) { SetFirstRow(piece->rows().rows(1), piece); }},
    {"not ascending",
     [](Piece* piece) { piece->mutable_rows()->mutable_rows()->SwapElements(0, 1); }},
    {"a row of no variable", [](Piece* piece) { SetFirstRow(~uint64_t{0}, piece); }},
    {"a row whose elements overflow", [](Piece* piece) { SetFirstRow(uint64_t{1} << 62, piece); }},
    {"a row more", [](Piece* piece) { piece->mutable_rows()->add_rows(1999); }},
    {"a row less", [](Piece* piece) { piece->mutable_rows()->mutable_rows()->RemoveLast(); }},
    {"an element less",
     [](Piece* piece) { piece->mutable_row_elements()->resize(piece->row_elements().size() - 4); }},
    {"an element more", [](Piece* piece) { piece->mutable_row_elements()->append(4, '\0'); }},
    {"no elements", [](Piece* piece) { piece->clear_row_elements(); }},
    {"half an element", [](Piece* piece) { piece->mutable_row_elements()->append(2, '\0'); }},
    {"a width of 0", [](Piece* piece) { piece->mutable_rows()->set_width(0); }},
    {"another width", [](Piece* piece) { piece->mutable_rows()->set_width(4); }},
    {"the greatest width", [](Piece* piece) { piece->mutable_rows()->set_width(~uint64_t{0}); }},
    {"no count", [](Piece* piece) { piece->mutable_rows()->clear_count(); }},
    {"the greatest count", [](Piece* piece) { piece->mutable_rows()->set_count(~uint64_t{0}); }},
    {"an offset past the slice", [](Piece* piece) { piece->set_offset(10'001); }},
    {"an offset that overflows", [](Piece* piece) { piece->set_offset(~uint64_t{0}); }},
    {"no such slice", [](Piece* piece) { piece->set_slice(7); }},
    {"a slice that is wanted whole", [](Piece* piece) { piece->set_slice(1); }},
    {"no encoding",
     [](Piece* piece) { piece->mutable_rows()->set_encoding(static_cast<Encoding::Kind>(9)); }},
    {"rows beside elements", [](Piece* piece) { piece->mutable_data()->append(4, '\0'); }},
    {"all elements",
     [](Piece* piece) {
       piece->mutable_data()->resize(piece->rows().count() * sizeof(float));
       piece->clear_rows();
       piece->clear_row_elements();
     }},
    {"rows of which nothing is said",
     [](Piece* piece) {
       piece->clear_rows();
       piece->clear_row_elements();
     }},
};

TEST_F(ParameterClientRowsTest, WrongAnswersAreErrorsAndWriteNothingElsewhere) {
  for (const auto& [what, change] : kWrongPieces) {
    SCOPED_TRACE(what);
    TestCluster cluster({5 * 2000, 100}, /*shards=*/1, /*servers=*/1);
    cluster.server(0).SetAnswerChange([apply = change](PullResponse* response) {
      if (response->pieces(0).has_rows()) apply(response->mutable_pieces(0));
    });
    HurriedClock clock;
    const auto client = cluster.NewClient(/*connections_per_server=*/1, &clock);
    const RowsOfAll rows = {{5, {1, 3, 1000}}, {0}};
    Values values;
    PullOptions options = Wanting(rows);
    options.deadline = clock.Now() + absl::Seconds(120);
    const absl::Status status = PullOver(&cluster, client.get(), options, &values);
    EXPECT_TRUE(absl::IsInternal(status) || absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.ToString(), ::testing::HasSubstr("ps-0 (127.0.0.1:"));
    const Values untouched = InRows(values, rows, -1);
    EXPECT_EQ(values, untouched);
  }
}

TEST_F(ParameterClientRowsTest, ServerThatSendsRowsWithoutKnowingThemIsAnError) {
  TestCluster cluster({5 * 2000}, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetAnswerChange([](PullResponse* response) { response->clear_knows_rows(); });
  HurriedClock clock;
  const auto client = cluster.NewClient(/*connections_per_server=*/1, &clock);
  PullOptions options = Wanting({{5, {1, 3, 1000}}});
  options.deadline = clock.Now() + absl::Seconds(120);
  Values values;
  EXPECT_TRUE(absl::IsInternal(PullOver(&cluster, client.get(), options, &values)));
}

TEST_F(ParameterClientRowsTest, PushOfRowsIsThatOfAGradientWithZeros) {
  for (const int shards : {1, 3, 7}) {
    TestCluster cluster(kTables, shards, /*servers=*/2 - shards % 2);
    const auto client = cluster.NewClient();
    Learn(&cluster, client.get());
    ASSERT_EQ(PushGiven(&cluster, client.get(), 4, SomeRows()), absl::OkStatus());
    EXPECT_EQ(cluster.Stored(), Less(cluster.Zeros(), cluster.MakeValues(4), SomeRows()));
    const Counters counters = cluster.server(0).counters();
    EXPECT_LT(counters.largest_push, size_t{32} << 10) << "zeros do not travel";
    ASSERT_EQ(PushGiven(&cluster, client.get(), 5, RowsOfAll(4)), absl::OkStatus());
    const Values before = Less(cluster.Zeros(), cluster.MakeValues(4), SomeRows());
    EXPECT_EQ(cluster.Stored(), Less(before, cluster.MakeValues(5), RowsOfAll(4)));
  }
}

TEST_F(ParameterClientRowsTest, RowsInAnyEncodingArePushed) {
  for (const auto encoding : {Encoding::FLOAT16, Encoding::BFLOAT16}) {
    for (const bool known : {true, false}) {
      TestCluster cluster(kTables, /*shards=*/3, /*servers=*/2);
      const auto client = cluster.NewClient();
      if (known) Learn(&cluster, client.get());
      Values gradients = cluster.MakeValues(3);
      for (auto& variable : gradients) {
        for (float& value : variable) value = std::fmod(value, 256.0f);
      }
      const auto push = client->StartPush(3, 32);
      Add(gradients, SomeRows(), encoding, push.get());
      push->Commit();
      ASSERT_EQ(push->Wait(Deadline()), absl::OkStatus());
      EXPECT_EQ(cluster.Stored(), Less(cluster.Zeros(), gradients, SomeRows()));
    }
  }
}

// So that the server can share the work.
TEST_F(ParameterClientRowsTest, PiecesAndMessagesStandForAFewBlocks) {
  Mutex mutex;
  std::vector<uint64_t> counts;  // Of pieces,
  uint64_t largest = 0;          // and of a message.
  TestCluster cluster({40 * kBlockElements + 10}, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPushRule([&](const PushRequest& request) {
    MutexLock lock(&mutex);
    uint64_t elements = 0;
    for (const Piece& piece : request.pieces()) {
      counts.push_back(piece.rows().count());
      elements += counts.back();
    }
    largest = std::max(largest, elements);
    return Verdict();
  });
  const auto client = cluster.NewClient();
  Learn(&cluster, client.get());
  const RowsOfAll rows = {{10, {0, 1, 20 * kBlockElements / 10}}};
  ASSERT_EQ(PushGiven(&cluster, client.get(), 0, rows), absl::OkStatus());
  EXPECT_EQ(cluster.Stored(), Less(cluster.Zeros(), cluster.MakeValues(0), rows));
  MutexLock lock(&mutex);
  // Without rows: blocks 1 to 16, 17 to 19, 21 to 36, and the rest.
  const uint64_t block = kBlockElements;
  EXPECT_THAT(counts, ::testing::UnorderedElementsAre(block, 16 * block, 3 * block, block,
                                                      16 * block, 3 * block + 10));
  EXPECT_LE(largest, 16 * block);
}

TEST_F(ParameterClientRowsTest, BrokenStreamIsOpenedAndItsPushOfRowsSentAgain) {
  const int unavailable = static_cast<int>(absl::StatusCode::kUnavailable);
  for (const Verdict::Kind kind : {Verdict::kBreakStream, Verdict::kRefuse}) {
    TestCluster cluster(kTables, /*shards=*/2, /*servers=*/1);
    const auto client = cluster.NewClient();
    Learn(&cluster, client.get());
    cluster.server(0).SetPushRule(FirstTimes<PushRequest>(2, {kind, unavailable, "test"}));
    ASSERT_EQ(PushGiven(&cluster, client.get(), 4, SomeRows()), absl::OkStatus());
    EXPECT_EQ(cluster.Stored(), Less(cluster.Zeros(), cluster.MakeValues(4), SomeRows()));
    EXPECT_EQ(cluster.server(0).counters().applied, 2);
  }
}

TEST_F(ParameterClientRowsTest, NoRowsTakeEffectBeforeTheCommit) {
  TestCluster cluster(kTables, /*shards=*/2, /*servers=*/1);
  const auto client = cluster.NewClient();
  Learn(&cluster, client.get());
  {
    const auto push = client->StartPush(4, 32);
    Add(cluster.MakeValues(4), SomeRows(), Encoding::FLOAT32, push.get());
    cluster.server(0).Await([](const Counters& counters) {
      return counters.push_messages >= 2 && counters.unfinished_pushes == 2;
    });
  }
  cluster.server(0).Await([](const Counters& counters) { return counters.unfinished_pushes == 0; });
  EXPECT_EQ(cluster.server(0).counters().applied, 0);
}

// Notes whether any message has a piece with rows.
testing::FakeParameterServer::PushRule NoteRowPieces(std::atomic<bool>* any) {
  return [any](const PushRequest& request) {
    for (const Piece& piece : request.pieces()) {
      if (piece.has_rows()) *any = true;
    }
    return testing::Verdict();
  };
}

TEST_F(ParameterClientRowsTest, ServerThatDoesNotKnowRowsSendsAllAndGetsAll) {
  std::atomic<bool> any_rows = false;
  TestCluster cluster(kTables, /*shards=*/3, /*servers=*/1);
  cluster.server(0).ForgetRows();
  cluster.server(0).SetPushRule(NoteRowPieces(&any_rows));
  const auto client = cluster.NewClient();
  Values values;
  for (uint64_t step = 0; step < 2; ++step) {
    ASSERT_EQ(PushGiven(&cluster, client.get(), step, SomeRows()), absl::OkStatus());
    ASSERT_EQ(PullOver(&cluster, client.get(), Wanting(SomeRows()), &values), absl::OkStatus());
    EXPECT_EQ(values, cluster.Stored());
  }
  EXPECT_FALSE(any_rows);
  const Values before = Less(cluster.Zeros(), cluster.MakeValues(0), SomeRows());
  EXPECT_EQ(values, Less(before, cluster.MakeValues(1), SomeRows()));
}

// Nobody has said yet that it knows them.
TEST_F(ParameterClientRowsTest, ServerThatWasNotPulledFromGetsAll) {
  std::atomic<bool> any_rows = false;
  TestCluster cluster(kTables, /*shards=*/3, /*servers=*/1);
  cluster.server(0).SetPushRule(NoteRowPieces(&any_rows));
  const auto client = cluster.NewClient();
  ASSERT_EQ(PushGiven(&cluster, client.get(), 4, SomeRows()), absl::OkStatus());
  EXPECT_EQ(cluster.Stored(), Less(cluster.Zeros(), cluster.MakeValues(4), SomeRows()));
  EXPECT_FALSE(any_rows);
}

// With their numbers they take 12 bytes each, and all elements 4: a shard has room for these.
TEST_F(ParameterClientRowsTest, RowsThatTakeMoreThanAllElementsArePushedAsAllElements) {
  std::atomic<bool> any_rows = false;
  TestCluster cluster({99, 7}, /*shards=*/2, /*servers=*/1);
  cluster.server(0).SetPushRule(NoteRowPieces(&any_rows));
  const auto client = cluster.NewClient();
  Learn(&cluster, client.get());
  RowsOfAll rows = {{1}, {0}};
  for (uint64_t row = 0; row < 34; ++row) rows[0].rows.push_back(2 * row);
  ASSERT_EQ(PushGiven(&cluster, client.get(), 0, rows), absl::OkStatus());
  EXPECT_FALSE(any_rows);
  const Values expected = Less(cluster.Zeros(), cluster.MakeValues(0), rows);
  EXPECT_EQ(cluster.Stored(), expected);
  rows[0].rows.pop_back();
  ASSERT_EQ(PushGiven(&cluster, client.get(), 1, rows), absl::OkStatus());
  EXPECT_TRUE(any_rows) << "these take as much";
  EXPECT_EQ(cluster.Stored(), Less(expected, cluster.MakeValues(1), rows));
}

TEST_F(ParameterClientRowsTest, ServerThatWasReplacedByAnOlderOneGetsAllOnce) {
  for (const int shards : {1, 3}) {
    std::atomic<bool> any_rows = false;
    TestCluster cluster(kTables, shards, /*servers=*/1);
    const auto client = cluster.NewClient();
    Learn(&cluster, client.get());
    cluster.server(0).ForgetRows();
    ASSERT_EQ(PushGiven(&cluster, client.get(), 4, SomeRows()), absl::OkStatus());
    EXPECT_EQ(cluster.Stored(), Less(cluster.Zeros(), cluster.MakeValues(4), SomeRows()));
    EXPECT_EQ(cluster.server(0).counters().applied, shards);
    cluster.server(0).SetPushRule(NoteRowPieces(&any_rows));
    ASSERT_EQ(PushGiven(&cluster, client.get(), 5, SomeRows()), absl::OkStatus());
    EXPECT_FALSE(any_rows) << "that is known from then on";
  }
}

TEST_F(ParameterClientRowsTest, PushThatIsRefusedWithRowsAndWithoutIsAnError) {
  TestCluster cluster({1000}, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient();
  Learn(&cluster, client.get());
  const int invalid = static_cast<int>(absl::StatusCode::kInvalidArgument);
  cluster.server(0).SetPushRule(
      FirstTimes<PushRequest>(10, {Verdict::kRefuse, invalid, "a number that is infinite"}));
  const absl::Status status = PushGiven(&cluster, client.get(), 4, {{10, {3, 4}}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.ToString(), ::testing::HasSubstr("a number that is infinite"));
  EXPECT_EQ(cluster.server(0).counters().push_messages, 2);
}

TEST_F(ParameterClientRowsTest, EveryStepOfRowsIsAppliedOnceThoughStreamsBreak) {
  constexpr int kWorkers = 4;
  constexpr int kStepsOfEach = 5;
  TestCluster cluster(kTables, /*shards=*/3, /*servers=*/2);
  for (int i = 0; i < 2; ++i) {
    const auto break_every = [count = std::make_shared<std::atomic<int>>(0)](int period) {
      if (++*count % period != 0) return Verdict();
      return Verdict{Verdict::kBreakStream, static_cast<int>(absl::StatusCode::kUnavailable)};
    };
    cluster.server(i).SetPushRule([=](const PushRequest&) { return break_every(23); });
    cluster.server(i).SetPullRule([=](const PullRequest&) { return break_every(11); });
  }
  const auto client = cluster.NewClient();
  std::vector<std::thread> workers;
  for (int worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back([&cluster, &client, worker] {
      for (int i = 0; i < kStepsOfEach; ++i) {
        Values values;
        EXPECT_EQ(PullOver(&cluster, client.get(), Wanting(SomeRows()), &values), absl::OkStatus());
        const int step = worker * kStepsOfEach + i;
        EXPECT_EQ(PushGiven(&cluster, client.get(), step, SomeRows()), absl::OkStatus());
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  Values expected = cluster.Zeros();
  for (int step = 0; step < kWorkers * kStepsOfEach; ++step) {
    expected = Less(std::move(expected), cluster.MakeValues(step), SomeRows());
  }
  EXPECT_EQ(cluster.Stored(), expected);
}

}  // namespace
}  // namespace millrace::worker
