#include "ps/cut/flusher.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

// More than the common one, of a synchronous shard.
constexpr ptrdiff_t kNewerCuts = 2;
// From one line in the log about a shard's trouble to the next.
constexpr int kTroubleLogSeconds = 60;
constexpr absl::Duration kLogPause = absl::Seconds(kTroubleLogSeconds);

bool Has(const std::vector<CutName>& cuts, uint64_t epoch, uint64_t version) {
  return std::any_of(cuts.begin(), cuts.end(), [&](const CutName& cut) {
    return cut.epoch() == epoch && cut.version() == version;
  });
}

std::vector<CutName> Names(const CutStore& store, const Shard& shard) {
  return store.Names(shard.plan().spec.job_id(), shard.plan().spec.shard());
}

}  // namespace

Flusher::Flusher(CutStore* store, Clock* clock)
    : store_(store), clock_(clock), records_(clock), cuts_(clock), thread_([this] { Loop(); }) {}

Flusher::~Flusher() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.join();
}

void Flusher::Watch(const std::shared_ptr<Shard>& shard) {
  shard->SetCutListener([this, key = shard.get()] { Changed(key); });
  {
    MutexLock lock(&mutex_);
    Watched watched = {shard, shard.get(), CutPace(shard->plan().cut_period)};
    watched.wants_room = IsSynchronous(*shard);
    watched_.push_back(std::move(watched));
  }
  Report(shard.get());
  if (!IsSynchronous(*shard) && shard->ListenForChange(shard->Status().flushed_version())) {
    Changed(shard.get());
  }
  changed_.SignalAll();
}

void Flusher::Forget(const Shard* shard) {
  MutexLock lock(&mutex_);
  watched_.erase(std::remove_if(watched_.begin(), watched_.end(),
                                [shard](const Watched& watched) { return watched.key == shard; }),
                 watched_.end());
}

Flusher::Watched* Flusher::Find(const Shard* key) {
  for (Watched& watched : watched_) {
    if (watched.key == key) return &watched;
  }
  return nullptr;
}

void Flusher::Changed(const Shard* key) {
  {
    MutexLock lock(&mutex_);
    Watched* const watched = Find(key);
    if (watched == nullptr) return;
    watched->pace.Changed(clock_->Now());
  }
  changed_.SignalAll();
}

absl::Status Flusher::Call(std::string what, absl::Time deadline,
                           std::function<absl::Status()> call) {
  return records_.Call(std::move(what), deadline, std::move(call));
}

void Flusher::Post(std::string what, std::function<absl::Status()> call) {
  records_.Post(std::move(what), std::move(call));
}

void Flusher::SetCommon(const std::shared_ptr<Shard>& shard, const CutName& common) {
  {
    MutexLock lock(&mutex_);
    Watched* const watched = Find(shard.get());
    if (watched == nullptr) return;
    const bool initial_values = common.version() == 0 && !StartsFromFiles(shard->plan().spec);
    if (!initial_values && !Has(Names(*store_, *shard), common.epoch(), common.version())) return;
    if (watched->common.has_value() && watched->common->epoch() == common.epoch() &&
        watched->common->version() == common.version()) {
      return;
    }
    watched->common = common;
  }
  Post(absl::StrCat("removing old cuts of ", shard->name()), [this, shard] {
    Prune(shard);
    return absl::OkStatus();
  });
}

// On the lane of short work.
void Flusher::Prune(const std::shared_ptr<Shard>& shard, uint64_t stops_before) {
  absl::optional<CutName> common;
  {
    MutexLock lock(&mutex_);
    const Watched* const watched = Find(shard.get());
    if (watched == nullptr) return;
    common = watched->common;
  }
  const absl::Status status = store_->Prune(shard->plan(), common, stops_before);
  if (!status.ok()) {
    LOG_EVERY_T(WARNING, kTroubleLogSeconds)
        << shard->name() << " keeps old cuts for now: " << status;
  }
  Report(shard.get());
}

void Flusher::Report(Shard* shard) {
  CutReport report;
  report.cuts = Names(*store_, *shard);
  report.flushed_version =
      store_->NewestVersion(shard->plan().spec.job_id(), shard->plan().spec.shard());
  {
    MutexLock lock(&mutex_);
    if (Watched* const watched = Find(shard)) {
      report.trouble = watched->trouble;
      report.took = watched->took;
      watched->wants_room = IsSynchronous(*shard);  // There may be some now.
    }
  }
  shard->SetCutReport(std::move(report));
  changed_.SignalAll();
}

std::shared_ptr<Shard> Flusher::FindDue(absl::Time* until) {
  *until = absl::InfiniteFuture();
  std::shared_ptr<Shard> first;
  for (auto it = watched_.begin(); it != watched_.end();) {
    std::shared_ptr<Shard> shard = it->shard.lock();
    if (shard == nullptr) {
      it = watched_.erase(it);
      continue;
    }
    absl::Time due = it->pace.due();
    if (IsSynchronous(*shard)) {
      // What it captured is written at once; when it may capture is a matter of pace.
      const bool captured = due != absl::InfiniteFuture();
      if (it->wants_room) due = it->pace.allowed();
      if (captured) due = absl::InfinitePast();
    }
    if (due < *until) {
      *until = due;
      first = std::move(shard);
    }
    ++it;
  }
  return first;
}

std::shared_ptr<Shard> Flusher::WaitForDue() {
  std::shared_ptr<Shard> shard;
  MutexLock lock(&mutex_);
  while (!stopping_) {
    absl::Time until;
    shard = FindDue(&until);
    if (shard != nullptr && until <= clock_->Now()) return shard;
    shard.reset();
    clock_->WaitUntil(&changed_, &mutex_, until);
  }
  return nullptr;
}

void Flusher::Loop() {
  while (const std::shared_ptr<Shard> shard = WaitForDue()) WriteDue(shard);
}

absl::optional<CutContents> Flusher::Take(const std::shared_ptr<Shard>& shard) {
  {
    // First: what changes after this is told again.
    MutexLock lock(&mutex_);
    if (Watched* const watched = Find(shard.get())) watched->pace.Taken();
  }
  if (IsSynchronous(*shard)) {
    absl::optional<CapturedCut> captured = shard->TakeCapturedCut();
    if (!captured.has_value()) return absl::nullopt;
    return CutContents{captured->epoch, std::move(captured->state), {}};
  }
  ShardContents newest = shard->Contents();
  return CutContents{newest.epoch, std::move(newest.state), {}};
}

void Flusher::WriteDue(const std::shared_ptr<Shard>& shard) {
  // What goes wrong is in the shard's status, and in the log.
  cuts_
      .Call(absl::StrCat("writing a cut of ", shard->name()), absl::InfiniteFuture(),
            [this, shard] { return TakeAndWrite(shard); })
      .IgnoreError();
}

// On the lane of cuts. What is written is taken here, so that nobody writes something newer between
// the two.
absl::Status Flusher::TakeAndWrite(const std::shared_ptr<Shard>& shard) {
  const absl::optional<CutContents> contents = Take(shard);
  if (!contents.has_value()) {
    MakeRoom(shard);
    return absl::OkStatus();
  }
  const absl::Status status = WriteCut(shard, *contents);
  if (!IsSynchronous(*shard) && shard->ListenForChange(contents->state->version)) {
    Changed(shard.get());
  }
  return status;
}

void Flusher::MakeRoom(const std::shared_ptr<Shard>& shard) {
  const std::vector<CutName> cuts = Names(*store_, *shard);
  bool room = false;
  {
    MutexLock lock(&mutex_);
    Watched* const watched = Find(shard.get());
    if (watched == nullptr) return;
    const CutName common = watched->common.value_or(CutName());
    const auto newer = [&common](const CutName& cut) {
      return std::make_pair(cut.epoch(), cut.version()) >
             std::make_pair(common.epoch(), common.version());
    };
    room = std::count_if(cuts.begin(), cuts.end(), newer) < kNewerCuts;
    watched->wants_room = false;
  }
  shard->AllowCuts(room);
}

absl::Status Flusher::StageAndCommit(const std::shared_ptr<Shard>& shard,
                                     const CutContents& contents) {
  if (const ShardSpec& spec = shard->plan().spec; store_->HasLeftovers(spec)) {
    // Where they stay, there may yet be room.
    Call(absl::StrCat("removing old cuts of ", shard->name()), absl::InfiniteFuture(),
         [this, shard, &spec] { return store_->RemoveLeftovers(spec); })
        .IgnoreError();
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CutStore::StagedCut> staged,
                            store_->StageCut(shard->plan(), contents));
  const auto cut = std::make_shared<std::unique_ptr<CutStore::StagedCut>>(std::move(staged));
  return Call(absl::StrCat("committing a cut of ", shard->name()), absl::InfiniteFuture(),
              [this, shard, cut]() -> absl::Status {
                // Shards are dropped on this lane. Another one may have its name by now.
                if (shard->WasDropped()) {
                  return absl::CancelledError(absl::StrCat(shard->name(), " was dropped"));
                }
                MILLRACE_RETURN_IF_ERROR(store_->CommitCut(std::move(*cut)));
                Prune(shard);
                return absl::OkStatus();
              });
}

absl::Status Flusher::WriteCut(const std::shared_ptr<Shard>& shard, const CutContents& contents) {
  // A retired shard may have given up its values, which are in the database.
  if (contents.state->blocks.empty()) return absl::OkStatus();
  if (!contents.of_stop && Has(Names(*store_, *shard), contents.epoch, contents.state->version)) {
    Report(shard.get());
    return absl::OkStatus();
  }
  const absl::Time begin = clock_->Now();
  const absl::Status status = StageAndCommit(shard, contents);
  if (status.ok()) {
    Wrote(shard, begin, clock_->Now());
  } else {
    Failed(shard, status);
  }
  Report(shard.get());
  return status;
}

void Flusher::Wrote(const std::shared_ptr<Shard>& shard, absl::Time begin, absl::Time end) {
  const absl::Duration took = end - begin;
  const absl::Duration period = shard->plan().cut_period;
  MutexLock lock(&mutex_);
  Watched* const watched = Find(shard.get());
  if (watched == nullptr) return;
  LOG_IF(INFO, watched->took == absl::ZeroDuration())
      << "the first cut of " << shard->name() << " took " << took;
  LOG_IF(INFO, !watched->trouble.empty()) << shard->name() << " has a new cut: all works again";
  watched->pace.Wrote(begin, end);
  watched->took = took;
  watched->trouble.clear();
  if (10 * took <= period || end < watched->next_log) return;
  watched->next_log = end + kLogPause;
  LOG(WARNING) << "writing a cut of " << shard->name() << " took " << took
               << ", so there is one in " << 10 * took << " instead of " << period
               << ": after a crash more steps run again than wanted; use a faster disk or more ps "
                  "servers";
}

void Flusher::Failed(const std::shared_ptr<Shard>& shard, const absl::Status& status) {
  const absl::Time now = clock_->Now();
  MutexLock lock(&mutex_);
  Watched* const watched = Find(shard.get());
  if (watched == nullptr) return;
  // The disk is none the worse for a cut that was of no more use.
  if (absl::IsCancelled(status)) return;
  watched->pace.Failed(now);
  if (!IsSynchronous(*shard)) watched->pace.Changed(now);
  watched->trouble = absl::StrCat("cuts cannot be written: ", std::string(status.message()));
  if (now < watched->next_log) return;
  watched->next_log = now + kLogPause;
  LOG(ERROR) << shard->name() << ": " << watched->trouble << "; it is tried again";
}

absl::StatusOr<ShardStatus> Flusher::Flush(const std::shared_ptr<Shard>& shard, absl::Time deadline,
                                           const std::function<absl::Status()>& may_go_on) {
  {
    // Then it waits for no other shard's cut.
    const ShardContents newest = shard->Contents();
    if (store_->Has(shard->plan().spec, newest.epoch, newest.state->version)) {
      return shard->StatusAt(*newest.state);
    }
  }
  const auto written = std::make_shared<CutContents>();
  const auto write = [this, shard, written]() -> absl::Status {
    ShardContents newest = shard->Contents();
    written->epoch = newest.epoch;
    written->state = std::move(newest.state);
    if (store_->Has(shard->plan().spec, written->epoch, written->state->version)) {
      return absl::OkStatus();
    }
    return WriteCut(shard, *written);
  };
  absl::Status wanted;
  std::function<absl::Status()> ask;
  if (may_go_on) ask = [&] { return wanted = may_go_on(); };
  const absl::Status status =
      cuts_.Call(absl::StrCat("flushing ", shard->name()), deadline, write, ask);
  MILLRACE_RETURN_IF_ERROR(wanted);
  if (absl::IsCancelled(status)) return absl::FailedPreconditionError(status.message());
  MILLRACE_RETURN_IF_ERROR(status);
  return shard->StatusAt(*written->state);
}

absl::Status Flusher::FlushForStop(const std::vector<std::shared_ptr<Shard>>& shards,
                                   absl::Time deadline) {
  return cuts_.Call("writing all shards", deadline, [this, shards] {
    absl::Status first_error;
    for (const std::shared_ptr<Shard>& shard : shards) {
      const absl::Status status = WriteForStop(shard);
      if (status.ok()) continue;
      LOG(ERROR) << shard->name() << " could not be written: " << status;
      first_error.Update(status);
    }
    return first_error;
  });
}

// On the lane of cuts. A synchronous shard's newest state is a cut for itself, which no other shard
// has; it is left out where a cut of the same version is there and nothing is held. What it had
// captured is written first, and with a lower number.
absl::Status Flusher::WriteForStop(const std::shared_ptr<Shard>& shard) {
  shard->AllowCuts(false);
  if (absl::optional<CapturedCut> captured = shard->TakeCapturedCut()) {
    // Without it nothing is lost; that it failed is in the log.
    WriteCut(shard, {captured->epoch, std::move(captured->state)}).IgnoreError();
  }
  ShardContents contents = shard->Contents();
  const bool synchronous = IsSynchronous(*shard);
  const std::vector<CutName> cuts = Names(*store_, *shard);
  const auto needed = [&](const ShardState& state) {
    if (state.version == 0 && !StartsFromFiles(shard->plan().spec)) return false;
    return !Has(cuts, contents.epoch, state.version);
  };
  const uint64_t first_number = store_->NextNumber();
  if (contents.previous != nullptr && needed(*contents.previous)) {
    MILLRACE_RETURN_IF_ERROR(
        WriteCut(shard, {contents.epoch, contents.previous, {}, /*of_stop=*/true}));
  }
  if (needed(*contents.state) || !contents.held.empty()) {
    MILLRACE_RETURN_IF_ERROR(
        WriteCut(shard, {contents.epoch, contents.state, contents.held, /*of_stop=*/synchronous}));
  }
  // Contributions that were acknowledged are half added up.
  if (synchronous && contents.is_computing) {
    return absl::UnavailableError("it still adds gradients up; those are left out");
  }
  return Call(absl::StrCat("removing old cuts of ", shard->name()), absl::InfiniteFuture(),
              [this, shard, first_number] {
                Prune(shard, first_number);
                return absl::OkStatus();
              });
}

}  // namespace millrace::ps
