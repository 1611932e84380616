#ifndef MILLRACE_COMMON_RANDOM_TOKEN_H_
#define MILLRACE_COMMON_RANDOM_TOKEN_H_

#include <string>

namespace millrace {

// 128 random bits in 32 lower-case hexadecimal digits: no two calls anywhere return the same.
// Thread-safe.
std::string RandomToken();

}  // namespace millrace

#endif  // MILLRACE_COMMON_RANDOM_TOKEN_H_
