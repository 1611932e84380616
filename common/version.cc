#include "common/version.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr char kRelease[] = "0.1.0";
constexpr size_t kShownBytes = 8;  // Of the 20 of a build id.
constexpr absl::string_view kGnu("GNU\0", 4);

size_t Padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

// The build id among these notes, in the layout of elf(5); empty if it is not.
absl::string_view FindBuildId(absl::string_view notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof(note)) {
    std::memcpy(&note, notes.data(), sizeof(note));
    notes.remove_prefix(sizeof(note));
    const size_t name_bytes = Padded(note.n_namesz);
    const size_t bytes = name_bytes + Padded(note.n_descsz);
    if (bytes > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(0, note.n_namesz) == kGnu) {
      return notes.substr(name_bytes, note.n_descsz);
    }
    notes.remove_prefix(bytes);
  }
  return "";
}

// dl_iterate_phdr's; the program comes first, and ends it.
int ReadBuildId(dl_phdr_info* program, size_t /*size*/, void* build_id) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = program->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* const notes = reinterpret_cast<const char*>(program->dlpi_addr + header.p_vaddr);
    const absl::string_view found = FindBuildId({notes, header.p_memsz});
    if (!found.empty()) *static_cast<absl::string_view*>(build_id) = found;
  }
  return 1;
}

}  // namespace

std::string Version() {
  absl::string_view build_id;
  dl_iterate_phdr(ReadBuildId, &build_id);
  const std::string build =
      build_id.empty() ? "unknown" : absl::BytesToHexString(build_id.substr(0, kShownBytes));
  return absl::StrCat(kRelease, " (build ", build, ")");
}

std::string VersionText(absl::string_view program) { return absl::StrCat(program, " ", Version()); }

}  // namespace millrace
