// Columns of words that are known.
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/input/csv/csv_column.h"
#include "worker/input/input_file.h"
#include "worker/input/line_reader.h"

namespace millrace::worker {
namespace {

using Words = absl::flat_hash_map<std::string, int32_t>;

class VocabularyEncoder final : public CsvEncoder {
 public:
  VocabularyEncoder(Words words, bool others) : words_(std::move(words)), others_(others) {}

  int64_t ids() const override { return static_cast<int64_t>(words_.size()) + (others_ ? 1 : 0); }

  absl::optional<CsvError> Encode(absl::Span<const CsvValue> values, CsvCell* cell) const override {
    const CsvValue& value = values[0];
    const auto found = value.missing ? words_.end() : words_.find(value.text);
    if (found != words_.end()) {
      cell->id = found->second;
    } else if (others_) {
      cell->id = static_cast<int32_t>(words_.size());
    } else {
      return CsvError{0, absl::StrCat(value.missing ? "is missing"
                                                    : absl::StrCat("a word of ", value.text.size(),
                                                                   " bytes that is none of the ",
                                                                   words_.size(), " words"),
                                      "; vocabulary.others gives such values an id")};
    }
    return absl::nullopt;
  }

 private:
  const Words words_;
  const bool others_;
};

absl::StatusOr<Words> ReadWords(InputFile* file) {
  Words words;
  LineReader reader(file);
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    const auto id = static_cast<int32_t>(words.size());
    if (!words.try_emplace(reader.line(), id).second) {
      return file->ErrorAt(reader.number(), 1, "a word that a line before has");
    }
    if (id == std::numeric_limits<int32_t>::max() - 1) {
      return file->ErrorAt(reader.number(), 1, "more words than an id can have");
    }
  }
  if (words.empty()) return file->Error("holds no words; each line is one");
  return words;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvEncoder>> MakeVocabularyEncoder(const CsvVocabulary& spec,
                                                                  const DataDirectory& directory,
                                                                  const std::string& field) {
  Words words;
  if (spec.words().empty()) {
    MILLRACE_ASSIGN_OR_RETURN(
        InputFile file, InputFile::Open(directory, spec.file(), absl::StrCat(field, ".file")));
    MILLRACE_ASSIGN_OR_RETURN(words, ReadWords(&file));
  }
  for (int i = 0; i < spec.words_size(); ++i) words[spec.words(i)] = i;
  return std::make_unique<VocabularyEncoder>(std::move(words), spec.others());
}

}  // namespace millrace::worker
