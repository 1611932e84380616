// The calls that we make of libgomp, the OpenMP runtime that oneDNN computes with. `#pragma omp`
// and <omp.h> stand for the runtime of the compiler, whose team of threads may be another one.
#ifndef MILLRACE_WORKER_DEVICE_CPU_OPENMP_H_
#define MILLRACE_WORKER_DEVICE_CPU_OPENMP_H_

extern "C" {

// Of the calling thread's team.
int omp_get_max_threads();
void omp_set_num_threads(int threads);

// What a parallel region is compiled into: runs `call` with `argument` in every thread of the team,
// and returns when all have. 0 threads: as many as are set. No flags: 0.
void GOMP_parallel(void (*call)(void*), void* argument, unsigned threads, unsigned flags);

}  // extern "C"

#endif  // MILLRACE_WORKER_DEVICE_CPU_OPENMP_H_
