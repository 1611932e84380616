// The coordinator: takes jobs, places their shards, hands out steps, watches members and recovers.
//
//   membership/  who is there: one stream for each worker and ps server
//   dispatch/    which steps are done, leased or free, and who may have the next ones
//   placement/   how variables are divided into shards, and which server holds which
//   checkpoint/  when checkpoints are due, what becomes of one, and how jobs go on from one
//   job/         one job: its record, its events, what it has come to
//   shards/      calls to a job's shards, and what follows from what they say
//   run/         one runner for each job: plan, place, attach, train, evaluate, end
//   jobs/        all jobs: submissions, their queue, what is kept of those that have ended
//   explain/     who keeps a job waiting
//   journal/     what must survive a restart
//   service/     the clients' gRPC service
#ifndef MILLRACE_COORDINATOR_COORDINATOR_H_
#define MILLRACE_COORDINATOR_COORDINATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/net/server.h"
#include "common/net/tls.h"
#include "common/storage/durable_file.h"

namespace millrace::coordinator {

struct CoordinatorOptions {
  // Holds the journal; made if it is not there. One coordinator at a time.
  std::string data_dir;
  ServerOptions server;
  // For main(), which tells SecureConnections.
  TlsOptions tls = {};
  // Place no job before this many ps servers are there.
  int min_ps = 1;
  // Members that are silent for three periods are taken for dead.
  absl::Duration heartbeat_period = absl::Seconds(2);
  // A step goes to another worker when nothing was heard of its lease for this long, as long as no
  // step of the job was timed; then for as long as their pace asks, 2 s at least.
  absl::Duration lease_duration = absl::Minutes(1);
  // A running job fails when it has waited this long for a ps server or a worker.
  absl::Duration member_timeout = absl::Minutes(10);
  // A ps server that has been gone for this long, or could not be called while a job stands still
  // for it, is given up: what it had of a job that has a checkpoint is made again elsewhere.
  absl::Duration restore_grace = absl::Minutes(2);
  // Jobs that run at a time; others wait for their turns, in the order of their submission, and
  // beyond so many that wait none is taken. At least 1.
  int max_running_jobs = 16;
  int max_pending_jobs = 2000;
  // How long a worker may take to compile a submitted model and open its data.
  absl::Duration plan_timeout = absl::Minutes(10);
  // Shards of jobs that ended are kept, readable, until this many newer jobs have ended.
  int retained_jobs = 16;
  // Jobs that ended are forgotten altogether, the oldest first, when this many newer ones have
  // ended and their shards are dropped. At least 1.
  int retained_records = 1000;
  // Goes on with what precedes damage in a log of the journal, which is refused otherwise.
  bool cut_damaged_journal = false;
  Clock* clock = Clock::Real();
  // How long StopInOrder waits for jobs to write their checkpoints.
  absl::Duration stop_timeout = absl::Seconds(30);
  FileSystemPtr file_system = RealFileSystem();             // Of the journal.
  FileSystemPtr checkpoint_file_system = RealFileSystem();  // Of checkpoints.
};

// Thread-safe.
class Coordinator {
 public:
  // Opens the journal, serves, and takes up the jobs that were running.
  // FAILED_PRECONDITION: `data_dir` belongs to something else or to a running coordinator;
  // others as RpcServer::Start. Does not wait for members.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(const CoordinatorOptions& options);

  // Stops if that was not done.
  virtual ~Coordinator() = default;

  // HOST:PORT, with the real port.
  virtual const std::string& address() const = 0;

  // Ends streams and calls with UNAVAILABLE and waits for every thread. Jobs stay as they are in
  // the journal: the next Start takes them up.
  virtual void Stop() = 0;

  // The same, and before that jobs that train and have a directory for checkpoints write one.
  virtual void StopInOrder() = 0;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_COORDINATOR_H_
