#include "testing/simulation/simulation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::simulation {
namespace {

// When nothing goes wrong any more, the job gets to its end in less.
constexpr absl::Duration kPatience = absl::Minutes(30);
constexpr absl::Duration kLongestTrouble = absl::Minutes(10);
constexpr absl::Duration kAfterTheEnd = absl::Minutes(1);
constexpr absl::Duration kSecondThoughts = absl::Seconds(20);

std::vector<SimulatedPs*> Pointers(const std::vector<std::unique_ptr<SimulatedPs>>& servers) {
  std::vector<SimulatedPs*> pointers;
  for (const auto& server : servers) pointers.push_back(server.get());
  return pointers;
}

}  // namespace

Simulation::Simulation(uint64_t seed)
    : world_(seed),
      shape_(ShapeOf(world_)),
      has_spares_(world_.OneIn(2)),
      evacuates_(has_spares_ && world_.OneIn(2)),
      moves_mostly_(evacuates_ && world_.OneIn(2)),
      quiet_(absl::Seconds(1 + world_.Below(moves_mostly_ ? 4 : 20))),
      ps_die_(!moves_mostly_ && !world_.OneIn(4)),
      workers_die_(!moves_mostly_ && !world_.OneIn(4)),
      coordinator_dies_(world_.OneIn(2)),
      memory_stays_(world_.OneIn(3)),
      disks_are_lost_(!world_.OneIn(3)),
      network_(&world_,
               /*one_in=*/moves_mostly_ ? 100 : 3 + world_.Below(world_.OneIn(3) ? 8 : 60)),
      oracle_(shape_) {
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    servers_.push_back(std::make_unique<SimulatedPs>(&world_, &oracle_, &checkpoints_, shard,
                                                     absl::StrCat("ps-", shard)));
    if (!has_spares_) continue;
    servers_.push_back(std::make_unique<SimulatedPs>(&world_, &oracle_, &checkpoints_, shard,
                                                     absl::StrCat("spare-", shard)));
  }
  backups_.resize(servers_.size());
  coordinator_ = std::make_unique<SimulatedCoordinator>(&world_, &network_, &shape_, &oracle_,
                                                        &checkpoints_, Pointers(servers_));
  for (const auto& server : servers_) {
    server->SetMayBeDropped([this, ps = server.get()] { return coordinator_->MayBeDropped(*ps); });
  }
  const uint64_t workers = 1 + world_.Below(4);
  for (uint64_t i = 0; i < workers; ++i) {
    workers_.push_back(std::make_unique<SimulatedWorker>(
        SimulatedWorker::Surroundings{
            .world = &world_,
            .network = &network_,
            .oracle = &oracle_,
            .shape = &shape_,
            .servers = Pointers(servers_),
            .connect = [this](SimulatedWorker* worker) { return Connect(worker); }},
        absl::StrCat("worker-", i)));
  }
}

JobShape Simulation::ShapeOf(World& world) {
  JobShape shape;
  shape.shards = static_cast<uint32_t>(1 + world.Below(3));
  shape.total_steps = 1 + world.Below(400);
  if (world.OneIn(3)) {
    shape.staleness_bound = static_cast<uint32_t>(world.Below(world.OneIn(3) ? 40 : 6));
    shape.pull_ahead = world.OneIn(2);
  } else {
    shape.replicas = static_cast<uint32_t>(1 + world.Below(4));
    shape.backup = static_cast<uint32_t>(world.Below(3));
    shape.clips = world.OneIn(3);
  }
  if (!world.OneIn(3)) shape.evaluate_every = 1 + world.Below(40);
  if (!world.OneIn(4))
    shape.checkpoint_every = absl::Seconds(1 + world.Below(world.OneIn(3) ? 60 : 8));
  shape.checkpoints_kept = static_cast<uint32_t>(1 + world.Below(3));
  shape.keeps_best = shape.checkpoint_every > absl::ZeroDuration() && world.OneIn(2);
  return shape;
}

std::string Simulation::Describe() const {
  return absl::StrCat(
      shape_.shards, " shards, ", workers_.size(), " workers, ", shape_.total_steps, " steps, ",
      shape_.replicas > 0 ? absl::StrCat(shape_.replicas, " replicas, backup ", shape_.backup,
                                         shape_.clips ? ", clipped" : "")
                          : absl::StrCat("asynchronous, staleness ", shape_.staleness_bound,
                                         shape_.pull_ahead ? ", pulls ahead" : ""),
      ", evaluated every ", shape_.evaluate_every, " steps, ",
      memory_stays_ ? "memory outlives processes" : "memory is lost", ", checkpoints every ",
      absl::FormatDuration(shape_.checkpoint_every), ", of which ", shape_.checkpoints_kept,
      " stay", shape_.keeps_best ? ", of evaluations too" : "",
      disks_are_lost_ ? ", disks are lost" : "", has_spares_ ? ", spare servers" : "",
      evacuates_ ? ", servers are evacuated" : "", moves_mostly_ ? " again and again" : "");
}

void Simulation::StartPs(size_t server) {
  servers_[server]->Start(/*with_arena=*/memory_stays_ || !world_.OneIn(4));
  TellOfPs(server);
}

// As its stream to the coordinator would.
void Simulation::TellOfPs(size_t server) {
  const SimulatedPs& ps = *servers_[server];
  SimulatedCoordinator::Registration registration;
  if (ps.running()) registration = {ps.incarnation(), ps.directory_id(), ps.shard() != nullptr};
  world_.After(world_.Between(absl::Milliseconds(1), absl::Seconds(6)),
               [this, server, registration] {
                 const SimulatedPs& now = *servers_[server];
                 const uint64_t incarnation = now.running() ? now.incarnation() : uint64_t{0};
                 if (incarnation == registration.incarnation) {
                   coordinator_->HearOfPs(server, registration);
                 }
               });
}

std::shared_ptr<Session> Simulation::Connect(SimulatedWorker* worker) {
  if (!coordinator_->running()) return nullptr;
  auto session = Session::Make(&world_, &network_);
  // The worker listens before anything can come.
  world_.After(absl::Milliseconds(1), session, [this, session, worker] {
    if (coordinator_->running()) {
      coordinator_->Join(session, worker->name());
    } else {
      session->Break();
    }
  });
  return session;
}

void Simulation::Trouble() {
  world_.After(world_.Between(quiet_ / 20, quiet_), [this] {
    if (world_.Now() >= trouble_ends_) return EndTrouble();
    Strike();
    Trouble();
  });
}

void Simulation::Strike() {
  switch (world_.Below(13)) {
    case 0:
    case 1:
    case 2:
      if (ps_die_) StrikePs(ChoosePs());
      return;
    case 3:
      if (!coordinator_dies_ || !coordinator_->running()) return;
      world_.Count("kills");
      coordinator_->Kill();
      world_.After(world_.Between(absl::Milliseconds(10), absl::Seconds(15)), [this] {
        coordinator_->Start();
        for (size_t server = 0; server < servers_.size(); ++server) TellOfPs(server);
      });
      return;
    case 4:
    case 5: {
      SimulatedWorker* const worker = workers_[world_.Below(workers_.size())].get();
      if (!workers_die_ || !worker->running()) return;
      world_.Count("kills");
      worker->Kill();
      world_.After(world_.Between(absl::Milliseconds(10), absl::Seconds(15)),
                   [worker] { worker->Start(); });
      return;
    }
    case 6:
      workers_[world_.Below(workers_.size())]->BreakStream();
      return;
    case 7:
      servers_[world_.Below(servers_.size())]->SetDiskFails(world_.OneIn(2));
      return;
    case 8:
    case 9:
    case 10:
    case 11:
      if (evacuates_) Evacuate(ChoosePs());
      return;
    default:
      network_.SetTroubled(!world_.OneIn(3));
  }
}

// Where a shard is, which is to go to its other server then; or that one is to stay empty. Often
// people think better of it soon, when calls of the first move are still under way.
void Simulation::Evacuate(size_t chosen) {
  if (std::exchange(evacuation_is_new_, true)) return;
  size_t other = chosen;
  for (size_t server = 0; server < servers_.size(); ++server) {
    if (servers_[server]->number() != servers_[chosen]->number()) continue;
    coordinator_->Evacuate(*servers_[server], server == chosen);
    if (server != chosen) other = server;
  }
  world_.After(world_.Between(absl::Milliseconds(10), kSecondThoughts), [this, other] {
    evacuation_is_new_ = false;
    if (world_.Now() < trouble_ends_ && !world_.OneIn(3)) Evacuate(other);
  });
}

// Mostly one that has a shard.
size_t Simulation::ChoosePs() {
  if (world_.OneIn(4)) return world_.Below(servers_.size());
  const SimulatedPs* const chosen =
      coordinator_->ServerOf(static_cast<uint32_t>(world_.Below(shape_.shards)));
  const auto is_it = [chosen](const auto& server) { return server.get() == chosen; };
  return std::find_if(servers_.begin(), servers_.end(), is_it) - servers_.begin();
}

void Simulation::StrikePs(size_t server) {
  SimulatedPs& ps = *servers_[server];
  if (!ps.running()) return;
  world_.Count("kills");
  if (world_.OneIn(4)) {
    ps.Stop();
  } else {
    ps.Kill();
  }
  StrikeDisk(server);
  if (world_.OneIn(3)) backups_[server] = {ps.directory_id(), ps.disk()};
  TellOfPs(server);
  absl::Duration away = world_.Between(absl::Milliseconds(10), absl::Seconds(15));
  if (disks_are_lost_ && world_.OneIn(4)) {
    world_.Count("gone for long");
    away = absl::Seconds(20 + world_.Below(100));
  }
  world_.After(away, [this, server] { StartPs(server); });
}

// What a job has come to is lost with the disks that have it, unless there is a checkpoint. And
// whoever puts a copy back of a server that was stopped cleanly is not so quick that nobody has
// seen that server since.
void Simulation::StrikeDisk(size_t server) {
  SimulatedPs& ps = *servers_[server];
  if (coordinator_->relies_on_disks()) return;
  const Backup& backup = backups_[server];
  const bool may_be_older = !memory_stays_ && backup.directory_id == ps.directory_id() &&
                            backup.disk.has_shard() &&
                            backup.disk.term().generation < ps.disk().term().generation;
  if (may_be_older && world_.OneIn(10)) {
    ps.PutDiskBack(backup.disk);
  } else if (disks_are_lost_ && checkpoints_.Furthest().has_value() && world_.OneIn(2)) {
    ps.ReplaceDirectory();
    if (world_.OneIn(2)) GoBackSoon(server);
  }
}

// It was the wrong directory, which somebody has seen.
void Simulation::GoBackSoon(size_t server) {
  world_.After(absl::Seconds(1 + world_.Below(20)), [this, server] {
    SimulatedPs& ps = *servers_[server];
    const bool may_be = world_.Now() < trouble_ends_ && !coordinator_->relies_on_disks();
    if (!ps.running() || !may_be) return;
    world_.Count("directories mistaken");
    ps.Kill();
    ps.ReplaceDirectory(/*back=*/true);
    TellOfPs(server);
    world_.After(world_.Between(absl::Milliseconds(10), absl::Seconds(15)),
                 [this, server] { StartPs(server); });
  });
}

// Whoever is away comes back by himself.
void Simulation::EndTrouble() {
  world_.Note("nothing goes wrong from here on");
  network_.SetTroubled(false);
  for (const auto& server : servers_) server->SetDiskFails(false);
  coordinator_->UndoEvacuations();
}

std::string Simulation::Run() {
  for (size_t server = 0; server < servers_.size(); ++server) StartPs(server);
  coordinator_->Start();
  for (const auto& worker : workers_) worker->Start();
  trouble_ends_ = world_.Now() + world_.Between(absl::Seconds(1), kLongestTrouble);
  network_.SetTroubled(world_.OneIn(2));
  Trouble();
  absl::Time end = absl::InfiniteFuture();
  while (world_.failure().empty() && world_.Now() < end) {
    if (!world_.Next()) world_.Fail("nothing happens any more");
    // What was under way then meets shards that are retired.
    if (coordinator_->done()) end = std::min(end, world_.Now() + kAfterTheEnd);
    if (world_.Now() > trouble_ends_ + kPatience) world_.Fail("the job does not get to its end");
  }
  if (world_.failure().empty()) CheckTheEnd();
  return world_.failure();
}

// What is on the disks is the job's final state.
void Simulation::CheckTheEnd() {
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    SimulatedPs& ps = *coordinator_->ServerOf(shard);
    if (ps.running()) ps.Kill();
    ps.LoseArena();
    ps.Start();
    if (ps.shard() == nullptr || !ps.shard()->retired()) {
      return world_.Fail(absl::StrCat("shard ", shard, " is not retired"));
    }
    const PulledState state = Copy(*ps.shard()->Contents().state);
    if (state.applied.watermark() != shape_.total_steps || !state.applied.above().empty()) {
      return world_.Fail(absl::StrCat("of shard ", shard, " the disk has the first ",
                                      state.applied.watermark(), " steps"));
    }
    if (const std::string wrong = oracle_.Check(shard, state); !wrong.empty()) {
      return world_.Fail(absl::StrCat("at the end ", wrong));
    }
  }
}

}  // namespace millrace::simulation
