// A whole cluster, one job, and what goes wrong meanwhile, from a seed.
#ifndef MILLRACE_TESTING_SIMULATION_SIMULATION_H_
#define MILLRACE_TESTING_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "testing/simulation/network.h"
#include "testing/simulation/oracle.h"
#include "testing/simulation/simulated_checkpoints.h"
#include "testing/simulation/simulated_coordinator.h"
#include "testing/simulation/simulated_disk.h"
#include "testing/simulation/simulated_ps.h"
#include "testing/simulation/simulated_worker.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  ~Simulation() { world_.Clear(); }  // What is planned has parts of the others.
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Runs the job to its end: for a while everything goes wrong that may, and then nothing any more.
  // What is wrong with it; empty: nothing.
  std::string Run();

  // What is simulated; and what happened last, line by line.
  std::string Describe() const;
  std::vector<std::string> Notes() const { return world_.Notes(); }

  // How often what has happened.
  const std::map<std::string, uint64_t>& counts() const { return world_.counts(); }

 private:
  // Of a data directory, at some earlier time.
  struct Backup {
    std::string directory_id;
    SimulatedDisk disk;
  };

  static JobShape ShapeOf(World& world);
  void StartPs(size_t server);
  void TellOfPs(size_t server);
  std::shared_ptr<Session> Connect(SimulatedWorker* worker);
  void Trouble();
  void Strike();
  void EndTrouble();
  size_t ChoosePs();
  void StrikePs(size_t server);
  void StrikeDisk(size_t server);
  void GoBackSoon(size_t server);
  void Evacuate(size_t server);
  void CheckTheEnd();

  World world_;
  const JobShape shape_;
  // What goes wrong: moves, how often something does at least, and which processes may die.
  const bool has_spares_;  // A second server with place for each shard.
  const bool evacuates_;
  const bool moves_mostly_;  // And little else goes wrong, so that one move follows the other.
  const absl::Duration quiet_;
  const bool ps_die_;
  const bool workers_die_;
  const bool coordinator_dies_;
  // Of a ps that is killed: whether its arena stays, and its disk is never put back; and whether
  // its disk may be lost.
  const bool memory_stays_;
  const bool disks_are_lost_;
  Network network_;
  const Oracle oracle_;
  SimulatedCheckpoints checkpoints_;
  std::vector<std::unique_ptr<SimulatedPs>> servers_;
  std::vector<Backup> backups_;  // By server.
  std::unique_ptr<SimulatedCoordinator> coordinator_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
  absl::Time trouble_ends_;
  bool evacuation_is_new_ = false;
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATION_H_
