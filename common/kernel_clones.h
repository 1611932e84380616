// Loops over floats that are compiled once for each of a few instruction sets.
#ifndef MILLRACE_COMMON_KERNEL_CLONES_H_
#define MILLRACE_COMMON_KERNEL_CLONES_H_

// Before a function: the loader picks the clone of the widest instruction set that the processor
// has. All of them give the same bits (-ffp-contract=off). The clones are chosen while the program
// is loaded, before a sanitizer's runtime is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(MILLRACE_SANITIZER)
#define MILLRACE_KERNEL_CLONES
#define MILLRACE_KERNEL __attribute__((noinline, target_clones("avx512f", "avx2", "default")))
#else
#define MILLRACE_KERNEL __attribute__((noinline))
#endif

#endif  // MILLRACE_COMMON_KERNEL_CLONES_H_
