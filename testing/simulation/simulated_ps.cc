#include "testing/simulation/simulated_ps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace millrace::simulation {
namespace {

constexpr absl::Duration kQuickDisk = absl::Microseconds(100);
constexpr absl::Duration kSlowDisk = absl::Seconds(2);
// More than the common one.
constexpr size_t kNewerCuts = 2;

absl::Status NotFound() { return absl::NotFoundError("there is no such shard here"); }

// A shard's: it is retired only where the disk says so, or is about to.
ps::ShardTerm TermToStore(const ps::Shard& shard, bool retirement) {
  const ps::ShardTerm term = shard.term();
  if (retirement || shard.RetirementIsStored()) return term;
  return {term.generation, term.epoch, term.stepped_back_to};
}

}  // namespace

// Of a process that was killed it leaves everything as it is.
class SimulatedPs::Root final : public ps::ShardRoot {
 public:
  Root(SimulatedPs* ps, std::weak_ptr<const void> process)
      : ps_(ps), process_(std::move(process)) {}
  ~Root() override {
    if (!process_.expired()) ps_->arena_.reset();
  }

  void Write(const ps::RootContents& contents) override {
    if (!ps_->has_arena_ || process_.expired()) return;
    ps_->CheckState(*contents.state);
    ps_->arena_ = contents;
  }
  void NoteMoreAcknowledged() override {
    if (ps_->has_arena_ && !process_.expired()) ps_->arena_->more_acknowledged = true;
  }

 private:
  SimulatedPs* const ps_;
  const std::weak_ptr<const void> process_;
};

std::string SimulatedPs::directory_id() const { return absl::StrCat(name_, "/", directory_); }

void SimulatedPs::CheckState(const ps::ShardState& state) {
  if (state.blocks.empty()) return;  // Of a retired shard, on the disk.
  const std::string wrong = oracle_->Check(number_, Copy(state));
  if (!wrong.empty()) world_->Fail(wrong);
}

void SimulatedPs::Start(bool with_arena) {
  has_arena_ = with_arena;
  if (!has_arena_) arena_.reset();  // Or a later life would find an older one.
  process_ = std::make_shared<Process>();
  process_->to_come = std::make_shared<ps::ShardsToCome>(world_->clock());
  ++incarnation_;
  const bool whole = disk_.TakeStopMark();
  if (disk_.has_shard()) {
    const ps::ShardTerm& term = disk_.term();
    ShardPtr shard = FromArena(term);
    if (shard == nullptr) shard = FromDisk(term, whole);
    process_->shard = std::move(shard);
    Report(process_->shard);
    const ShardStatus status = process_->shard->Status();
    world_->Note(absl::StrCat(name(), " starts at version ", status.version(), " of epoch ",
                              status.epoch(), ", generation ", status.generation(), ", from ",
                              ShardStatus::Origin_Name(status.origin()),
                              status.closed() ? ", closed" : ""));
  } else {
    world_->Note(absl::StrCat(name(), " starts without a shard"));
    arena_.reset();
  }
  KeepCuts();
  KeepTime();
}

SimulatedPs::ShardPtr SimulatedPs::MakeShard(const ShardSpec& spec, uint64_t generation,
                                             ps::ShardContents contents) {
  ps::ShardPlan plan = Plan(spec);
  if (contents.state == nullptr) contents.state = *ps::MakeInitialState(plan, &pool_);
  CheckState(*contents.state);
  return std::make_shared<ps::Shard>(std::move(plan), generation, std::move(contents), &pool_,
                                     std::make_unique<Root>(this, process_));
}

// See ps/store/arena_recovery.cc.
SimulatedPs::ShardPtr SimulatedPs::FromArena(const ps::ShardTerm& term) {
  if (term.retired || !arena_.has_value() || arena_->generation < term.generation ||
      arena_->epoch != term.epoch || arena_->state->version < disk_.NewestVersion()) {
    return nullptr;
  }
  ps::ShardContents contents;
  contents.state = arena_->state;
  contents.previous = arena_->previous;
  contents.epoch = term.epoch;
  contents.stepped_back_to = term.stepped_back_to;
  contents.origin = ShardStatus::ARENA;
  contents.more_acknowledged = arena_->more_acknowledged;
  if (contents.more_acknowledged) ++losses_;
  const ShardPtr shard = MakeShard(disk_.spec(), arena_->generation, std::move(contents));
  shard->SetStored(term);
  world_->Count("shards from arenas");
  return shard;
}

SimulatedPs::ShardPtr SimulatedPs::FromDisk(const ps::ShardTerm& term, bool whole) {
  arena_.reset();
  ps::ShardContents contents = disk_.ReadShard();
  contents.epoch = term.epoch;
  contents.stepped_back_to = term.stepped_back_to;
  contents.origin = contents.state == nullptr ? ShardStatus::INITIAL_VALUES : ShardStatus::CUT;
  contents.retired = term.retired;
  const ps::ShardPlan plan = Plan(disk_.spec());
  const bool from_files = ps::StartsFromFiles(plan.spec);
  if (contents.state == nullptr && from_files) {
    world_->Fail(absl::StrCat(name(), " has lost the first cut of a shard that was made again"));
  }
  if (contents.state == nullptr) contents.state = *ps::MakeInitialState(plan, &pool_);
  if (synchronous() && contents.state->version == 1 && !from_files) {
    contents.previous = *ps::MakeInitialState(plan, &pool_);
  }
  contents.more_acknowledged =
      !term.retired && !whole && contents.state->applied.watermark() < plan.spec.total_steps();
  if (contents.more_acknowledged) ++losses_;
  const ShardPtr shard = MakeShard(disk_.spec(), term.generation, std::move(contents));
  shard->SetStored(term);
  return shard;
}

void SimulatedPs::Kill() {
  if (process_ == nullptr) return;
  world_->Note(absl::StrCat(name(), " is killed"));
  const ShardPtr shard = process_->shard;
  process_.reset();  // First: so the root sees that it was killed.
}

void SimulatedPs::PutDiskBack(const SimulatedDisk& copy) {
  world_->Note(
      absl::StrCat(name(), " has its disk of generation ", copy.term().generation, " again"));
  disk_ = copy;
  ++disks_;
  world_->Count("disks put back");
  ++losses_;
}

void SimulatedPs::ReplaceDirectory(bool back) {
  const size_t chosen = back ? drawers_.size() - 1 : world_->Below(drawers_.size() + 1);
  drawers_.push_back({directory_, std::exchange(disk_, {})});
  arena_.reset();
  ++losses_;
  if (chosen + 1 == drawers_.size()) {
    directory_ = ++directories_;
    world_->Count("disks lost");
  } else {
    directory_ = drawers_[chosen].number;
    disk_ = drawers_[chosen].disk;
    drawers_.erase(drawers_.begin() + static_cast<std::ptrdiff_t>(chosen));
    world_->Count("disks found again");
  }
  world_->Note(absl::StrCat(name(), " has the directory ", directory_id(), " now"));
}

void SimulatedPs::Stop() {
  world_->Note(absl::StrCat(name(), " stops"));
  absl::Status written;
  const ShardPtr shard = process_->shard;
  if (shard != nullptr) {
    shard->Refuse(absl::UnavailableError("the ps server stops"));
    written = WriteForStop();
  }
  if (written.ok() && (shard == nullptr || !shard->Status().closed())) disk_.MarkStopped();
  Kill();
  if (written.ok()) arena_.reset();
}

bool SimulatedPs::HasRegularCut(uint64_t epoch, uint64_t version) const {
  const std::vector<CutName> names = disk_.Names();  // Without cuts of stops, which go.
  return std::any_of(names.begin(), names.end(), [&](const CutName& name) {
    return name.epoch() == epoch && name.version() == version;
  });
}

// See Flusher::WriteForStop. What waits for the disk is written first.
absl::Status SimulatedPs::WriteForStop() {
  const ShardPtr shard = process_->shard;
  if (shard->RetirementIsStored()) return absl::OkStatus();
  if (DiskFails()) return absl::UnavailableError("the disk is full");
  disk_.WriteRecord(shard->plan().spec, TermToStore(*shard, /*retirement=*/false));
  const auto is_needed = [this](uint64_t epoch, const ps::ShardState& state) {
    return state.version > 0 && !HasRegularCut(epoch, state.version);
  };
  const auto write = [this](SimulatedCut cut) {
    cut.number = disk_.BeginCut();
    return disk_.CommitCut(std::move(cut));
  };
  const auto captured = shard->TakeCapturedCut();
  if (captured.has_value() && is_needed(captured->epoch, *captured->state)) {
    write({.epoch = captured->epoch, .state = captured->state}).IgnoreError();
  }
  const ps::ShardContents contents = shard->Contents();
  const uint64_t first_of_stop = disk_.NextNumber();
  absl::Status written;
  if (contents.previous != nullptr && is_needed(contents.epoch, *contents.previous)) {
    written.Update(write({.epoch = contents.epoch, .state = contents.previous, .of_stop = true}));
  }
  if (is_needed(contents.epoch, *contents.state) || !contents.held.empty()) {
    if (!contents.held.empty()) world_->Count("stops with held contributions");
    written.Update(write({.epoch = contents.epoch,
                          .state = contents.state,
                          .held = contents.held,
                          .of_stop = synchronous()}));
  }
  if (written.ok()) disk_.Prune(synchronous(), process_->common, first_of_stop);
  return written;
}

std::shared_ptr<ps::Shard> SimulatedPs::shard() const {
  return process_ == nullptr ? nullptr : process_->shard;
}

void SimulatedPs::Do(Lane& lane, std::function<void()> work) {
  lane.free = std::max(lane.free, world_->Now()) + world_->Between(kQuickDisk, kSlowDisk);
  world_->After(lane.free - world_->Now(), process_, std::move(work));
}

void SimulatedPs::Report(const ShardPtr& shard) {
  ps::CutReport report;
  report.cuts = disk_.Names();
  report.flushed_version = disk_.NewestVersion();
  report.took = absl::Milliseconds(5);
  shard->SetCutReport(std::move(report));
}

void SimulatedPs::SetGeneration(const SetGenerationRequest& request, Answer answer) {
  if (request.directory_id() == directory_id()) return Advance(request.generation(), answer);
  answer(absl::UnavailableError("the server has another data directory"));
}

void SimulatedPs::Advance(uint64_t generation, Answer answer) {
  const ShardPtr shard = process_->shard;
  if (shard == nullptr) return answer(NotFound());
  const absl::Status set = shard->SetGeneration(generation);
  if (!set.ok()) return answer(set);
  StoreTerm(shard, /*retirement=*/false, std::move(answer));
}

void SimulatedPs::StoreTerm(const ShardPtr& shard, bool retirement, Answer answer) {
  if (shard->IsStored(TermToStore(*shard, retirement))) return answer(shard->Status());
  Do(process_->records, [this, shard, retirement, answer = std::move(answer)] {
    if (process_->shard != shard) return answer(shard->Status());  // Dropped meanwhile.
    if (DiskFails()) return answer(absl::UnavailableError("the disk is full"));
    const ps::ShardTerm newest = TermToStore(*shard, retirement);
    disk_.WriteRecord(shard->plan().spec, newest);
    shard->SetStored(newest);
    Report(shard);
    answer(shard->Status());
  });
}

void SimulatedPs::Get(Answer answer) {
  answer(process_->shard == nullptr ? absl::StatusOr<ShardStatus>(NotFound())
                                    : process_->shard->Status());
}

void SimulatedPs::PlanCuts(const PlanCutsRequest& request, Answer answer) {
  const ShardPtr shard = process_->shard;
  if (shard == nullptr) return answer(NotFound());
  const absl::Status planned =
      shard->PlanCuts(request.generation(), request.every_versions(), request.also_at());
  if (!planned.ok()) return answer(planned);
  const CutName& common = request.common();
  const bool is_initial = common.version() == 0 && !ps::StartsFromFiles(shard->plan().spec);
  const bool is_there = is_initial || HasRegularCut(common.epoch(), common.version());
  if (synchronous() && is_there) {
    process_->common = common;
    Do(process_->records, [this, shard] {
      if (process_->shard != shard) return;
      disk_.Prune(synchronous(), process_->common);
      Report(shard);
    });
  }
  answer(shard->Status());
}

void SimulatedPs::StepBack(const StepBackRequest& request, Answer answer) {
  const ShardPtr shard = process_->shard;
  if (shard == nullptr) return answer(NotFound());
  const auto done = shard->SteppedBack(request.generation(), request.cut(), request.epoch());
  if (!done.ok()) return answer(done.status());
  if (*done) return StoreTerm(shard, /*retirement=*/false, std::move(answer));
  // Reading takes a while, beside everything else.
  const absl::StatusOr<absl::optional<ps::StatePtr>> read = disk_.ReadCut(request.cut());
  world_->After(
      world_->Between(kQuickDisk, kSlowDisk), process_,
      [this, shard, request, read, answer = std::move(answer)] {
        if (!read.ok()) return answer(read.status());
        ps::ShardContents contents;
        contents.state = read->has_value() ? **read : *ps::MakeInitialState(shard->plan(), &pool_);
        contents.epoch = request.epoch();
        contents.stepped_back_to = request.cut();
        const absl::Status stepped = shard->StepBack(request.generation(), std::move(contents));
        if (!stepped.ok()) return answer(stepped);
        world_->Note(absl::StrCat(name(), " steps back to version ", request.cut().version(),
                                  ", epoch ", request.epoch()));
        StoreTerm(shard, /*retirement=*/false, answer);
      });
}

void SimulatedPs::PinCut(uint64_t generation, const std::string& cut_id, Answer answer) {
  answer(process_->shard == nullptr ? absl::StatusOr<ShardStatus>(NotFound())
                                    : process_->shard->PinCut(generation, cut_id));
}

void SimulatedPs::UnpinCut(uint64_t generation, const std::string& cut_id, Answer answer) {
  if (process_->shard == nullptr) return answer(NotFound());
  const absl::Status status = process_->shard->UnpinCut(generation, cut_id);
  answer(status.ok() ? absl::StatusOr<ShardStatus>(process_->shard->Status()) : status);
}

void SimulatedPs::Flush(uint64_t generation, Answer answer) {
  const ShardPtr shard = process_->shard;
  if (shard == nullptr) return answer(NotFound());
  const absl::Status serves = shard->CheckServes(generation);
  if (!serves.ok()) return answer(serves);
  if (shard->RetirementIsStored()) return answer(shard->Status());
  FlushNow(shard, [shard, generation, answer = std::move(answer)](auto flushed) {
    const absl::Status still = shard->CheckServes(generation);
    answer(still.ok() ? flushed : still);
  });
}

void SimulatedPs::FlushNow(const ShardPtr& shard, Answer answer) {
  Do(process_->cuts, [this, shard, answer = std::move(answer)] {
    const ps::ShardContents newest = shard->Contents();
    const ps::StatePtr state = newest.state;
    if (disk_.Has(newest.epoch, state->version)) return answer(shard->StatusAt(*state));
    WriteCut(shard, {disk_.BeginCut(), newest.epoch, state},
             [shard, state, answer](const absl::Status& status) {
               if (status.ok()) return answer(shard->StatusAt(*state));
               answer(absl::IsCancelled(status) ? absl::FailedPreconditionError(status.message())
                                                : status);
             });
  });
}

void SimulatedPs::WriteCut(const ShardPtr& shard, SimulatedCut cut,
                           std::function<void(absl::Status)> done) {
  Do(process_->records, [this, shard, cut = std::move(cut), done = std::move(done)] {
    absl::Status status;
    if (process_->shard != shard) {
      status = absl::CancelledError("the shard was dropped");
    } else if (DiskFails()) {
      status = absl::UnavailableError("the disk is full");
    } else if (!HasRegularCut(cut.epoch, cut.state->version)) {
      status = disk_.CommitCut(cut);
    }
    if (status.ok()) disk_.Prune(synchronous(), process_->common);
    Report(shard);
    done(status);
  });
}

void SimulatedPs::Retire(uint64_t generation, Answer answer) {
  const ShardPtr shard = process_->shard;
  if (shard == nullptr) return answer(NotFound());
  const absl::Status retired = shard->Retire(generation);
  if (!retired.ok()) return answer(retired);
  const auto end = [this, shard, answer = std::move(answer)](absl::StatusOr<ShardStatus> stored) {
    if (stored.ok()) shard->ForgetRoot();
    answer(std::move(stored));
  };
  if (shard->IsStored(shard->term())) return end(shard->Status());
  FlushNow(shard, [this, shard, end](const absl::StatusOr<ShardStatus>& flushed) {
    if (!flushed.ok()) return end(flushed);
    StoreTerm(shard, /*retirement=*/true, end);
  });
}

void SimulatedPs::MeasureVersion(const MeasureVersionRequest& request,
                                 simulation::Answer<MeasureVersionResponse> answer) {
  if (process_->shard == nullptr) return answer(NotFound());
  answer(process_->shard->MeasureVersion(request));
}

void SimulatedPs::ApplyVersion(const ApplyVersionRequest& request,
                               simulation::Answer<ApplyVersionResponse> answer) {
  if (process_->shard == nullptr) return answer(NotFound());
  answer(process_->shard->ApplyVersion(request));
}

// See Flusher: of an asynchronous shard the newest state every now and then, of a synchronous one
// what it has captured, while there is room.
void SimulatedPs::KeepCuts() {
  world_->After(world_->Between(absl::Milliseconds(20), absl::Seconds(3)), process_, [this] {
    KeepCuts();
    const ShardPtr shard = process_->shard;
    if (shard == nullptr || shard->retired()) return;
    Do(process_->cuts, [this, shard] {
      const auto write = [this, shard](uint64_t epoch, const ps::StatePtr& state) {
        if (HasRegularCut(epoch, state->version)) return;
        WriteCut(shard, {disk_.BeginCut(), epoch, state}, [](const absl::Status& /*status*/) {});
      };
      if (!synchronous()) {
        const ps::ShardContents newest = shard->Contents();
        return write(newest.epoch, newest.state);
      }
      if (const auto captured = shard->TakeCapturedCut(); captured.has_value()) {
        return write(captured->epoch, captured->state);
      }
      const CutName common = process_->common.value_or(CutName());
      size_t newer = 0;
      for (const CutName& cut : disk_.Names()) {
        newer += std::make_pair(cut.epoch(), cut.version()) >
                 std::make_pair(common.epoch(), common.version());
      }
      shard->AllowCuts(newer < kNewerCuts);
    });
  });
}

// As the server does once a second.
void SimulatedPs::KeepTime() {
  world_->After(absl::Seconds(1), process_, [this] {
    KeepTime();
    if (process_->shard != nullptr) process_->shard->Tick(world_->Now());
  });
}

}  // namespace millrace::simulation
