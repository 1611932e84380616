// Linked into what ThreadSanitizer looks at; it does nothing unless built with -fsanitize=thread.
// Debian's gRPC, Abseil and RocksDB are not instrumented: what they synchronise is invisible, so
// reports from within them say nothing. Races in our own code are still found. A service is
// destroyed after its server has stopped, which is ordered within gRPC: its generated destructors
// are in the list for that reason. gRPC joins its own threads, but may do so after main() has
// ended: they are no leak.
extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1";
}
extern "C" const char* __tsan_default_suppressions() {
  return "race:libgrpc.so\nrace:libgrpc++.so\nrace:libgpr.so\nrace:librocksdb.so\nrace:libdnnl.so\n"
         "race:libgomp.so\nrace:^grpc::\nrace:^grpc_core::\n"
         "race:::~WithCallbackMethod_\nrace:::~WithRawCallbackMethod_\n"
         "thread:grpc_core::Thread\n"
         "called_from_lib:libgrpc.so.29\ncalled_from_lib:libgrpc++.so.1.51\n"
         "called_from_lib:librocksdb.so.7.8\n";
}
