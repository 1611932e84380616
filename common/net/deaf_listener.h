// What becomes of a server that gRPC lets nobody connect to any more.
#ifndef MILLRACE_COMMON_NET_DEAF_LISTENER_H_
#define MILLRACE_COMMON_NET_DEAF_LISTENER_H_

namespace millrace {

// From now on the process ends at once, with exit code 1 and an error in the log that says what to
// do, when a listener of gRPC goes deaf: after one connection that it fails to accept, such as for
// want of open files, gRPC 1.51 never accepts another one, though those that there are live on and
// the server seems well. Ending is as safe as a crash, and a supervisor can start it again.
//
// gRPC's own log goes through glog, with its severities, but for what it says of TLS handshakes
// that fail, which is told once in 10 s; with GRPC_VERBOSITY=NONE there is none. Once is enough for
// a process; thread-safe. REQUIRES: nobody else calls gpr_set_log_function.
void EndProcessWhenDeaf();

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_DEAF_LISTENER_H_
