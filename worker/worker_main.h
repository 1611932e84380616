// main() of a worker binary.
#ifndef MILLRACE_WORKER_WORKER_MAIN_H_
#define MILLRACE_WORKER_WORKER_MAIN_H_

#include <vector>

#include "worker/model/model.h"
#include "worker/model/own_models.h"
#include "worker/worker.h"

namespace millrace::worker {

// Reads the flags (--help lists them) or TF_CONFIG, runs a worker until SIGTERM or SIGINT, and
// returns the exit status: 0 after a signal, 2 for wrong usage and where the device that is named
// cannot be used, 1 when the coordinator refused the worker, its device was lost or its certificate
// cannot be used. `factory` makes the models of jobs; empty: the layers of their ModelSpec.
int WorkerMain(int argc, char** argv, ModelFactory factory = {});

// The same with models of the binary's own, which jobs ask for by name, beside those of layers.
int WorkerMain(int argc, char** argv, std::vector<OwnModel> own_models);

// What WorkerMain does once the flags are read. A worker whose device is lost ends the process: see
// EndProcess (common/process.h).
int RunWorker(const WorkerOptions& options);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_WORKER_MAIN_H_
