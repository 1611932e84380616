// A worker that knows shifted images, beside the models that every worker knows.
#include "examples/own_worker/shifted_images.h"
#include "worker/worker_main.h"

int main(int argc, char** argv) {
  return millrace::worker::WorkerMain(argc, argv, {millrace::examples::ShiftedImages()});
}
