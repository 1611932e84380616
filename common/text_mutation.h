// Texts that differ a little from good ones, for tests of parsers.
#ifndef MILLRACE_COMMON_TEXT_MUTATION_H_
#define MILLRACE_COMMON_TEXT_MUTATION_H_

#include <cstddef>
#include <random>
#include <string>

namespace millrace::testing {

// Replaces or inserts a character of `alphabet`, or erases up to `most_erased`.
// REQUIRES: no argument is empty.
inline void ChangeText(const std::string& alphabet, size_t most_erased, std::mt19937* random,
                       std::string* text) {
  const size_t at = (*random)() % text->size();
  switch ((*random)() % 3) {
    case 0:
      (*text)[at] = alphabet[(*random)() % alphabet.size()];
      break;
    case 1:
      text->insert(at, 1, alphabet[(*random)() % alphabet.size()]);
      break;
    default:
      text->erase(at, 1 + (*random)() % most_erased);
  }
}

}  // namespace millrace::testing

#endif  // MILLRACE_COMMON_TEXT_MUTATION_H_
