#include "testing/cuda_emulation/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "testing/cuda_emulation/fail.h"

namespace cuda_emulation {
namespace {

std::vector<Symbol> ReadTable(const std::string& file, const Elf64_Shdr& table,
                              const Elf64_Shdr& names) {
  std::vector<Symbol> symbols;
  for (size_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, file.data() + table.sh_offset + at, sizeof(symbol));
    const int type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_TLS)) continue;
    symbols.push_back({file.data() + names.sh_offset + symbol.st_name, symbol.st_value,
                       symbol.st_size, type == STT_FUNC, type == STT_TLS});
  }
  return symbols;
}

std::vector<Symbol> ReadSymbols() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  Elf64_Ehdr header;
  if (file.size() < sizeof(header)) return {};
  std::memcpy(&header, file.data(), sizeof(header));
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), file.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_SYMTAB) return ReadTable(file, section, sections[section.sh_link]);
  }
  return {};
}

// The first object is the binary.
dl_phdr_info Binary() {
  dl_phdr_info binary = {};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<dl_phdr_info*>(result) = *info;
        return 1;
      },
      &binary);
  return binary;
}

}  // namespace

const std::vector<Symbol>& Symbols() {
  static const auto* symbols = new std::vector<Symbol>(ReadSymbols());
  return *symbols;
}

uintptr_t LoadedAt() { return Binary().dlpi_addr; }

char* ThreadLocals() { return static_cast<char*>(Binary().dlpi_tls_data); }

std::string NameOf(const void* function) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(function) - LoadedAt();
  for (const Symbol& symbol : Symbols()) {
    if (!symbol.function || symbol.value != address) continue;
    char* name = abi::__cxa_demangle(symbol.name.c_str(), nullptr, nullptr, nullptr);
    const std::string result = name == nullptr ? symbol.name : name;
    std::free(name);
    return result;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%p", function);
  return text;
}

void Fail(const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "cuda_emulation: %s\n", message.c_str());
  std::abort();
}

}  // namespace cuda_emulation
