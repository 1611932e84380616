// One call that passes through the proxy: a stream, or a unary call, which looks the same from
// here.
#ifndef MILLRACE_TESTING_CHAOS_PROXY_PROXIED_CALL_H_
#define MILLRACE_TESTING_CHAOS_PROXY_PROXIED_CALL_H_

#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "testing/chaos/proxy/event_loop.h"
#include "testing/chaos/proxy/fault.h"

namespace millrace::chaos {

// What all calls share.
struct ProxyContext {
  FaultOptions faults;
  FaultCounts counts;
  std::shared_ptr<grpc::Channel> upstream;
  EventLoop loop;  // The last member: what it does uses the others.
};

// Starts to pass the messages of a call on, in both directions, until it ends. The reactor deletes
// itself. `context` must outlive it. `number`: of the call.
grpc::ServerGenericBidiReactor* StartProxiedCall(ProxyContext* context, uint64_t number,
                                                 grpc::GenericCallbackServerContext* call);

}  // namespace millrace::chaos

#endif  // MILLRACE_TESTING_CHAOS_PROXY_PROXIED_CALL_H_
