// The view that suits a console.
#ifndef MILLRACE_CLIENT_PROGRESS_MAKE_VIEW_H_
#define MILLRACE_CLIENT_PROGRESS_MAKE_VIEW_H_

#include <memory>

#include "client/console.h"
#include "client/progress/progress_view.h"

namespace millrace::client {

// JSON lines where they are asked for (what is for people goes to standard error), a bar on a
// terminal, plain lines elsewhere. Unlike its members the view is thread-safe: an interrupt may
// have something to say at any time.
std::unique_ptr<ProgressView> MakeProgressView(const Console& console, bool json);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_PROGRESS_MAKE_VIEW_H_
