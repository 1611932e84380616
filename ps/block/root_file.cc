// Why a kill at any instruction leaves the old contents or the new ones.
//
// A killed process stops between two instructions of each of its threads. What a thread has stored
// by then stands in the file's memory, which belongs to the kernel: it is lost only with the
// machine. So a successor sees, of what one thread stored, a beginning in program order, and this
// file has to be right for each such beginning.
//
// There are two slots. One holds the contents; the other is empty: its number is 0. Write fills the
// empty one, number last, with a number above the other's; the slot with the greater number counts.
// Then it sets the number of the other one to 0. So:
//
//  - Before the new number is stored, the old slot is the only one with a number.
//  - That store is one aligned word: it has happened or not. After it the new slot counts.
//  - When Write returns, the new slot is the only one. So whoever called it may let go of all that
//    the old contents led to: nobody will find these again, even if the new slot were damaged.
//
// The number is stored with release order and the words before it, so the compiler moves no store
// past it; and other threads' stores, which this thread has seen by way of a lock, were before it
// as well. The mark is a word of its own that goes from 0 to 1: it too has happened or not.
//
// A checksum of number and words guards against what is not ours: another program's stores, a file
// that was cut. Such a slot does not count.
//
// Growing makes a larger file beside this one, writes it, and renames it: again one step.
#include "ps/block/root_file.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::ps {
namespace {

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

uint64_t Checksum(uint64_t number, const uint64_t* words, size_t count) {
  uint64_t hash = Mix(Mix(/*hash=*/1, number), count);
  for (size_t i = 0; i < count; ++i) hash = Mix(hash, words[i]);
  return hash;
}

}  // namespace

// Lies in the file.
struct RootFile::Slot {
  std::atomic<uint64_t> number;  // 0: empty.
  std::atomic<uint64_t> marked;
  uint64_t count;  // Of words.
  uint64_t checksum;

  uint64_t* words() { return reinterpret_cast<uint64_t*>(this + 1); }
};

absl::StatusOr<std::unique_ptr<RootFile>> RootFile::Create(const std::string& path, size_t capacity,
                                                           const ReserveFile& reserve) {
  const size_t bytes = 2 * (sizeof(Slot) + capacity * sizeof(uint64_t));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file,
                            MappedFile::Create(path, bytes, reserve));
  return std::unique_ptr<RootFile>(new RootFile(std::move(file), reserve));
}

absl::StatusOr<std::unique_ptr<RootFile>> RootFile::Open(const std::string& path,
                                                         const ReserveFile& reserve) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  if (file->size() < 2 * sizeof(Slot) || file->size() % (2 * sizeof(uint64_t)) != 0) {
    return absl::DataLossError(absl::StrCat(path, " has ", file->size(), " bytes"));
  }
  return std::unique_ptr<RootFile>(new RootFile(std::move(file), reserve));
}

RootFile::RootFile(std::unique_ptr<MappedFile> file, const ReserveFile& reserve)
    : file_(std::move(file)), reserve_(reserve), newest_(Newest()) {}

RootFile::Slot* RootFile::slot(int index) const {
  return reinterpret_cast<Slot*>(file_->data() + index * static_cast<ptrdiff_t>(file_->size() / 2));
}

size_t RootFile::capacity() const { return (file_->size() / 2 - sizeof(Slot)) / sizeof(uint64_t); }

int RootFile::Newest() const {
  int newest = -1;
  uint64_t greatest = 0;
  for (int index = 0; index < 2; ++index) {
    Slot& each = *slot(index);
    const uint64_t number = each.number.load(std::memory_order_acquire);
    if (number <= greatest || each.count > capacity()) continue;
    if (Checksum(number, each.words(), each.count) != each.checksum) continue;
    newest = index;
    greatest = number;
  }
  return newest;
}

absl::Status RootFile::Write(absl::Span<const uint64_t> words, bool marked) {
  if (words.size() > capacity()) return Grow(words, marked);
  Slot* const old = newest_ < 0 ? nullptr : slot(newest_);
  const int index = newest_ == 0 ? 1 : 0;
  Slot& fresh = *slot(index);
  const uint64_t number = old == nullptr ? 1 : old->number.load(std::memory_order_relaxed) + 1;
  fresh.number.store(0, std::memory_order_seq_cst);
  fresh.marked.store(marked ? 1 : 0, std::memory_order_relaxed);
  fresh.count = words.size();
  std::copy(words.begin(), words.end(), fresh.words());
  fresh.checksum = Checksum(number, fresh.words(), fresh.count);
  fresh.number.store(number, std::memory_order_seq_cst);
  if (old != nullptr) old->number.store(0, std::memory_order_seq_cst);
  newest_ = index;
  return absl::OkStatus();
}

absl::Status RootFile::Grow(absl::Span<const uint64_t> words, bool marked) {
  const std::string path = file_->path();
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<RootFile> larger,
                            Create(absl::StrCat(path, ".new"), 2 * words.size(), reserve_));
  absl::Status status = larger->Write(words, marked);
  if (status.ok()) status = larger->file_->Rename(path);
  if (!status.ok()) {
    larger->Unlink();
    return status;
  }
  file_ = std::move(larger->file_);
  newest_ = larger->newest_;
  return absl::OkStatus();
}

void RootFile::Mark() {
  if (newest_ >= 0) slot(newest_)->marked.store(1, std::memory_order_seq_cst);
}

absl::optional<RootFile::Contents> RootFile::Read() const {
  if (newest_ < 0) return absl::nullopt;
  Slot& newest = *slot(newest_);
  return Contents{std::vector<uint64_t>(newest.words(), newest.words() + newest.count),
                  newest.marked.load(std::memory_order_relaxed) != 0};
}

void RootFile::Erase() {
  // One of them is empty already, unless a kill came between the last two stores of a Write; then
  // the older one must not count for a moment either.
  if (newest_ >= 0) slot(1 - newest_)->number.store(0, std::memory_order_seq_cst);
  for (int index = 0; index < 2; ++index) slot(index)->number.store(0, std::memory_order_seq_cst);
  newest_ = -1;
}

}  // namespace millrace::ps
