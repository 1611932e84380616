// Debian's HDF5 1.10 reads what is in a file with little doubt. What it can be asked before it
// reads is asked: links that leave the file, datasets that claim more than the file has or are made
// up of pieces that a filter has to unpack are refused.
#include "client/keras/hdf5_file.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/keras/child_trial.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "hdf5/serial/hdf5.h"

namespace millrace::client {

// One of the library's objects, closed by `Close`. Below 0: none.
template <herr_t (*Close)(hid_t)>
class Hdf5Object {
 public:
  explicit Hdf5Object(hid_t id) : id_(id) {}
  Hdf5Object(Hdf5Object&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Hdf5Object& operator=(Hdf5Object&&) = delete;
  ~Hdf5Object() {
    if (id_ >= 0) Close(id_);
  }

  bool ok() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  hid_t id_;
};

using Hdf5Handle = Hdf5Object<H5Fclose>;
using Hdf5Node = Hdf5Object<H5Oclose>;

namespace {

constexpr int kMostDimensions = H5S_MAX_RANK;
constexpr size_t kMemoryIncrement = size_t{1} << 20;

using Hdf5Attribute = Hdf5Object<H5Aclose>;
using Hdf5Space = Hdf5Object<H5Sclose>;
using Hdf5Type = Hdf5Object<H5Tclose>;
using Hdf5List = Hdf5Object<H5Pclose>;

// Paths of all groups and datasets that hard links lead to; "" is the root.
std::vector<std::string> AllPaths(hid_t file) {
  std::vector<std::string> paths;
  const auto add = [](hid_t, const char* name, const H5O_info_t*, void* out) -> herr_t {
    const std::string path = name;
    static_cast<std::vector<std::string>*>(out)->push_back(path == "." ? "" : path);
    return 0;
  };
  H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, add, &paths);
  return paths;
}

std::vector<std::string> AttributeNames(hid_t node) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->push_back(name);
    return 0;
  };
  H5Aiterate2(node, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add, &names);
  return names;
}

// What the library found last: the description at the bottom of its stack.
std::string LibraryError() {
  std::string text = "it cannot be read";
  const auto take = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    if (error->desc != nullptr && *error->desc != '\0') {
      *static_cast<std::string*>(out) = error->desc;
    }
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, take, &text);
  H5Eclear2(H5E_DEFAULT);
  return Printable(text);
}

// It prints errors unless it is told not to, and would load filters from elsewhere.
void SilenceLibrary() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

// Has the library use the bytes at `data` where they are: it would copy them twice. It only reads
// from them.
H5FD_file_image_callbacks_t InPlace(char* data) {
  H5FD_file_image_callbacks_t callbacks = {};
  callbacks.image_malloc = [](size_t, H5FD_file_image_op_t, void* all) { return all; };
  callbacks.image_memcpy = [](void* to, const void*, size_t, H5FD_file_image_op_t, void*) {
    return to;
  };
  callbacks.image_realloc = [](void*, size_t, H5FD_file_image_op_t, void*) -> void* {
    return nullptr;
  };
  callbacks.image_free = [](void*, H5FD_file_image_op_t, void*) -> herr_t { return 0; };
  callbacks.udata_copy = [](void* all) { return all; };
  callbacks.udata_free = [](void*) -> herr_t { return 0; };
  callbacks.udata = data;
  return callbacks;
}

absl::StatusOr<std::vector<uint64_t>> ShapeOf(const Hdf5Space& space) {
  const int rank = space.ok() ? H5Sget_simple_extent_ndims(space.get()) : -1;
  if (rank < 0 || rank > kMostDimensions) return absl::InvalidArgumentError("it has no shape");
  std::vector<hsize_t> sizes(static_cast<size_t>(rank));
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  return std::vector<uint64_t>(sizes.begin(), sizes.end());
}

// Nothing: more than `most`.
bool CountUpTo(const std::vector<uint64_t>& shape, uint64_t most, uint64_t* count) {
  *count = 1;
  for (const uint64_t size : shape) {
    if (size == 0) {
      *count = 0;
      return true;
    }
    if (*count > most / size) return false;
    *count *= size;
  }
  return true;
}

}  // namespace

struct Hdf5File::Library {
  std::shared_ptr<std::string> image;  // Of one in memory; outlives the file.
  Hdf5Handle file;
  uint64_t bytes = 0;  // Of the whole file.

  Hdf5Node Open(const std::string& path) const {
    return Hdf5Node(H5Oopen(file.get(), path.empty() ? "/" : path.c_str(), H5P_DEFAULT));
  }
};

Hdf5File::Hdf5File(std::string name, std::unique_ptr<Library> library)
    : name_(std::move(name)), library_(std::move(library)) {}
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&&) noexcept = default;
Hdf5File::~Hdf5File() = default;

absl::Status Hdf5File::Error(const std::string& path, const std::string& what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ": ", path.empty() ? "" : PrintableName(path) + ": ", what));
}

void Hdf5File::ReadAll() const {
  for (const std::string& path : AllPaths(library_->file.get())) {
    Has(path);
    const Hdf5Node node = library_->Open(path);
    for (const std::string& name : AttributeNames(node.get())) Texts(path, name).IgnoreError();
    Values(path).IgnoreError();
  }
}

absl::StatusOr<Hdf5File> Hdf5File::Open(const std::string& path) {
  const absl::Status tried = TryInChild([&] {
    if (const auto file = OpenUntried(path); file.ok()) file->ReadAll();
  });
  if (tried.ok()) return OpenUntried(path);
  return absl::Status(tried.code(), absl::StrCat(path, ": damaged: ", tried.message()));
}

absl::StatusOr<Hdf5File> Hdf5File::FromBytes(std::string bytes, const std::string& name) {
  const auto image = std::make_shared<std::string>(std::move(bytes));
  const absl::Status tried = TryInChild([&] {
    if (const auto file = FromBytesUntried(image, name); file.ok()) file->ReadAll();
  });
  if (tried.ok()) return FromBytesUntried(image, name);
  return absl::Status(tried.code(), absl::StrCat(name, ": damaged: ", tried.message()));
}

absl::StatusOr<Hdf5File> Hdf5File::OpenUntried(const std::string& path) {
  SilenceLibrary();
  auto library = std::make_unique<Library>(
      Library{nullptr, Hdf5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT))});
  hsize_t bytes = 0;
  const bool opened = library->file.ok() && H5Fget_filesize(library->file.get(), &bytes) >= 0;
  library->bytes = bytes;
  Hdf5File file(path, std::move(library));
  if (!opened) return file.Error("", absl::StrCat("no whole HDF5 file: ", LibraryError()));
  return file;
}

absl::StatusOr<Hdf5File> Hdf5File::FromBytesUntried(std::shared_ptr<std::string> bytes,
                                                    const std::string& name) {
  SilenceLibrary();
  const Hdf5List list(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fapl_core(list.get(), kMemoryIncrement, /*backing_store=*/0);
  H5FD_file_image_callbacks_t in_place = InPlace(bytes->data());
  H5Pset_file_image_callbacks(list.get(), &in_place);
  H5Pset_file_image(list.get(), bytes->data(), bytes->size());
  // Two files of one name are one to the library.
  static std::atomic<int> files(0);
  const std::string unique = absl::StrCat("in memory ", ++files);
  auto library = std::make_unique<Library>(Library{
      bytes, Hdf5Handle(H5Fopen(unique.c_str(), H5F_ACC_RDONLY, list.get())), bytes->size()});
  const bool opened = library->file.ok();
  Hdf5File file(name, std::move(library));
  if (!opened) return file.Error("", absl::StrCat("no whole HDF5 file: ", LibraryError()));
  return file;
}

bool Hdf5File::Has(const std::string& path) const {
  std::string at;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    absl::StrAppend(&at, at.empty() ? "" : "/", part);
    H5L_info_t link;
    const hid_t file = library_->file.get();
    if (part.empty() || H5Lexists(file, at.c_str(), H5P_DEFAULT) <= 0 ||
        H5Lget_info(file, at.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) {
      H5Eclear2(H5E_DEFAULT);
      return false;
    }
  }
  return true;
}

namespace {

// Strings of a length of their own, which the library allocates.
absl::StatusOr<std::vector<std::string>> VariableTexts(const Hdf5Attribute& attribute,
                                                       const Hdf5Type& type, const Hdf5Space& space,
                                                       uint64_t count) {
  const Hdf5Type memory(H5Tcopy(H5T_C_S1));
  H5Tset_size(memory.get(), H5T_VARIABLE);
  H5Tset_cset(memory.get(), H5Tget_cset(type.get()));
  std::vector<char*> pointers(count, nullptr);
  if (H5Aread(attribute.get(), memory.get(), pointers.data()) < 0) {
    return absl::InvalidArgumentError(LibraryError());
  }
  std::vector<std::string> texts;
  for (const char* pointer : pointers) texts.emplace_back(pointer == nullptr ? "" : pointer);
  H5Dvlen_reclaim(memory.get(), space.get(), H5P_DEFAULT, pointers.data());
  return texts;
}

absl::StatusOr<std::vector<std::string>> FixedTexts(const Hdf5Attribute& attribute,
                                                    const Hdf5Type& type, uint64_t count) {
  const size_t size = H5Tget_size(type.get());
  std::string bytes(size * count, '\0');
  if (H5Aread(attribute.get(), type.get(), bytes.data()) < 0) {
    return absl::InvalidArgumentError(LibraryError());
  }
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string text = bytes.substr(i * size, size);
    texts.push_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

// `most`: the file has no more bytes.
absl::StatusOr<std::vector<std::string>> ReadTexts(const Hdf5Attribute& attribute, uint64_t most) {
  const Hdf5Type type(H5Aget_type(attribute.get()));
  const Hdf5Space space(H5Aget_space(attribute.get()));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> shape, ShapeOf(space));
  uint64_t count = 0;
  const size_t size = type.ok() ? H5Tget_size(type.get()) : 0;
  if (size == 0 || !CountUpTo(shape, most / size, &count)) {
    return absl::InvalidArgumentError("it has more elements than the file has room for");
  }
  // Keras writes a list of nothing as one of numbers.
  if (count == 0) return std::vector<std::string>();
  if (H5Tget_class(type.get()) != H5T_STRING) return absl::InvalidArgumentError("it is no text");
  return H5Tis_variable_str(type.get()) > 0 ? VariableTexts(attribute, type, space, count)
                                            : FixedTexts(attribute, type, count);
}

// Whether the values of a dataset can be read as they are: what is wrong otherwise.
std::string WhyUnreadable(const Hdf5Node& dataset, uint64_t file_bytes) {
  if (!dataset.ok()) return LibraryError();
  if (H5Iget_type(dataset.get()) != H5I_DATASET) return "it is no dataset";
  const Hdf5Type type(H5Dget_type(dataset.get()));
  if (!type.ok() || H5Tget_class(type.get()) != H5T_FLOAT) {
    return "its values are no floating-point numbers";
  }
  const Hdf5List creation(H5Dget_create_plist(dataset.get()));
  const H5D_layout_t layout = creation.ok() ? H5Pget_layout(creation.get()) : H5D_LAYOUT_ERROR;
  if ((layout != H5D_CONTIGUOUS && layout != H5D_COMPACT) ||
      H5Pget_external_count(creation.get()) != 0) {
    return "its values are not in one piece in the file, as Keras writes them";
  }
  const auto shape = ShapeOf(Hdf5Space(H5Dget_space(dataset.get())));
  uint64_t count = 0;
  if (!shape.ok()) return std::string(shape.status().message());
  const size_t size = H5Tget_size(type.get());
  if (size == 0 || size > sizeof(double) || !CountUpTo(*shape, file_bytes / size, &count)) {
    return "its shape is larger than the file";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<std::string>> Hdf5File::Texts(const std::string& path,
                                                         const std::string& attribute) const {
  const Hdf5Node node = library_->Open(path);
  if (!node.ok()) return Error(path, LibraryError());
  if (H5Aexists(node.get(), attribute.c_str()) <= 0) {
    H5Eclear2(H5E_DEFAULT);
    return std::vector<std::string>();
  }
  const Hdf5Attribute opened(H5Aopen(node.get(), attribute.c_str(), H5P_DEFAULT));
  const std::string place = absl::StrCat(path, path.empty() ? "" : ": ", "attribute ", attribute);
  if (!opened.ok()) return Error(place, LibraryError());
  auto texts = ReadTexts(opened, library_->bytes);
  if (!texts.ok()) return Error(place, std::string(texts.status().message()));
  return texts;
}

absl::StatusOr<std::vector<uint64_t>> Hdf5File::Shape(const std::string& path) const {
  const Hdf5Node dataset = library_->Open(path);
  const std::string wrong = WhyUnreadable(dataset, library_->bytes);
  if (!wrong.empty()) return Error(path, wrong);
  return ShapeOf(Hdf5Space(H5Dget_space(dataset.get())));
}

absl::StatusOr<std::vector<float>> Hdf5File::Values(const std::string& path) const {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> shape, Shape(path));
  uint64_t count = 0;
  CountUpTo(shape, library_->bytes, &count);
  std::vector<float> values(count);
  const Hdf5Node dataset = library_->Open(path);
  if (count > 0 &&
      H5Dread(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
    return Error(path, LibraryError());
  }
  return values;
}

}  // namespace millrace::client
