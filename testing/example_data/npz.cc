#include "testing/example_data/npz.h"

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::testing {
namespace {

// Little-endian, of `bytes` bytes.
void AppendNumber(uint64_t number, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(number >> (8 * i)));
}

// What a local header and an entry of the directory have in common: no compression, no time.
std::string ZipFields(const std::string& name, const std::string& file) {
  const auto* bytes = reinterpret_cast<const Bytef*>(file.data());
  std::string fields;
  AppendNumber(20, 2, &fields);    // Version 2.0 is needed.
  AppendNumber(0, 2, &fields);     // No flags.
  AppendNumber(0, 2, &fields);     // Stored.
  AppendNumber(0, 2, &fields);     // Midnight,
  AppendNumber(0x21, 2, &fields);  // 1980-01-01.
  AppendNumber(crc32_z(0, bytes, file.size()), 4, &fields);
  AppendNumber(file.size(), 4, &fields);
  AppendNumber(file.size(), 4, &fields);
  AppendNumber(name.size(), 2, &fields);
  AppendNumber(0, 2, &fields);  // No extra field.
  return fields;
}

std::string DirectoryEntry(const std::string& name, const std::string& fields, size_t offset) {
  std::string entry("PK\x01\x02\x14\x00", 6);
  entry += fields;
  entry.append(10, '\0');  // No comment, the first disk, no attributes.
  AppendNumber(offset, 4, &entry);
  return entry + name;
}

}  // namespace

std::string NpyFile(const NpzArray& array) {
  std::string header =
      absl::StrCat("{'descr': '", array.type, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(array.shape, ", "), array.shape.size() == 1 ? ",), }" : "), }");
  // The values begin at a multiple of 64.
  constexpr size_t kPreamble = 10;
  header.append(63 - (kPreamble + header.size()) % 64, ' ');
  header.push_back('\n');
  std::string file("\x93NUMPY\x01\x00", 8);
  AppendNumber(header.size(), 2, &file);
  return absl::StrCat(file, header, array.bytes);
}

std::string NpzFile(const std::vector<NpzArray>& arrays) {
  std::string archive;
  std::string directory;
  for (const NpzArray& array : arrays) {
    const std::string name = array.name + ".npy";
    const std::string file = NpyFile(array);
    const std::string fields = ZipFields(name, file);
    directory += DirectoryEntry(name, fields, archive.size());
    absl::StrAppend(&archive, "PK\x03\x04", fields, name, file);
  }
  std::string end("PK\x05\x06\0\0\0\0", 8);
  AppendNumber(arrays.size(), 2, &end);
  AppendNumber(arrays.size(), 2, &end);
  AppendNumber(directory.size(), 4, &end);
  AppendNumber(archive.size(), 4, &end);
  AppendNumber(0, 2, &end);  // No comment.
  return absl::StrCat(archive, directory, end);
}

}  // namespace millrace::testing
