// The worker of the standard distribution: models are made of ModelSpec layers.
#include "worker/worker_main.h"

int main(int argc, char** argv) { return millrace::worker::WorkerMain(argc, argv); }
