// What the files that implement CutStore share: cut_store.cc, cut_store_opening.cc and
// cut_store_reading.cc.
#ifndef MILLRACE_PS_CUT_CUT_STORE_INTERNAL_H_
#define MILLRACE_PS_CUT_CUT_STORE_INTERNAL_H_

#include <string>

#include "protos/parameter_server.pb.h"
#include "ps/cut/cut_keys.h"
#include "ps/dense/shard_plan.h"

namespace millrace::ps {

// Of a shard: in the database, and for people.
inline std::string KeyOf(const ShardSpec& spec) { return ShardKey(spec.job_id(), spec.shard()); }
inline std::string NameOf(const ShardSpec& spec) { return ShardName(spec.job_id(), spec.shard()); }

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_STORE_INTERNAL_H_
