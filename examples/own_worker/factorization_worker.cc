// A worker that knows factorization machines, beside the models that every worker knows.
#include "examples/own_worker/factorization_machine.h"
#include "worker/worker_main.h"

int main(int argc, char** argv) {
  return millrace::worker::WorkerMain(argc, argv, {millrace::examples::FactorizationMachine()});
}
