#include "worker/input/csv/csv_table_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/data_labels.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/input/input_file.h"
#include "worker/input/memory_budget.h"
#include "worker/input/number_text.h"

namespace millrace::worker {
namespace {

CsvSyntax SyntaxOf(const CsvFiles& spec) {
  CsvSyntax syntax;
  if (!spec.delimiter().empty()) syntax.delimiter = spec.delimiter()[0];
  syntax.comment = spec.comment();
  syntax.skip_initial_space = spec.skip_initial_space();
  syntax.quotes = !spec.no_quotes();
  return syntax;
}

std::vector<std::string> NamesOf(const CsvColumn& column) {
  if (!column.has_cross()) return {column.name()};
  std::vector<std::string> names;
  for (const CsvCrossPart& part : column.cross().parts()) names.push_back(part.name());
  return names;
}

// Begins a message about a value of a column of the files, whose name the job has.
std::string AtColumn(const std::string& name) {
  return absl::StrCat("column '", PrintableName(name), "': ");
}

}  // namespace

CsvTableReader::CsvTableReader(const CsvFiles& spec, const ExampleSelection& selection,
                               const DataDirectory& directory, const std::string& field,
                               uint64_t most_kept)
    : spec_(spec),
      selection_(selection),
      directory_(directory),
      field_(field),
      most_kept_(most_kept),
      missing_(spec.missing().begin(), spec.missing().end()) {
  if (missing_.empty()) missing_.insert("");
}

absl::Status CsvTableReader::Read() {
  MILLRACE_RETURN_IF_ERROR(MakeEncoders());
  const std::vector<std::string> names(spec_.files().begin(), spec_.files().end());
  MILLRACE_ASSIGN_OR_RETURN(files_,
                            FindFiles(directory_.path, names, absl::StrCat(field_, ".files")));
  for (NamedFile& file : files_) MILLRACE_RETURN_IF_ERROR(ReadFile(&file));
  return absl::OkStatus();
}

absl::Status CsvTableReader::MakeEncoders() {
  for (int i = 0; i < spec_.columns_size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(
        std::unique_ptr<CsvEncoder> encoder,
        MakeCsvEncoder(spec_.columns(i), directory_, absl::StrCat(field_, ".columns[", i, "]")));
    table_.ids.push_back(encoder->ids());
    table_.columns.emplace_back();
    table_.columns.back().numbers_only = encoder->ids() == 0;
    encoders_.push_back(std::move(encoder));
  }
  for (const CsvLabel& label : spec_.label()) {
    labels_.push_back({&label, CsvLabelEncoder(label)});
    table_.labels.emplace_back();
    table_.labels.back().numbers_only = label.number();
  }
  cells_.resize(encoders_.size());
  return absl::OkStatus();
}

absl::Status CsvTableReader::ReadFile(NamedFile* named) {
  MILLRACE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(directory_, named->name, named->field));
  named->name = file.name();
  CsvReader reader(&file, SyntaxOf(spec_));
  std::vector<std::string> names(spec_.names().begin(), spec_.names().end());
  std::string header = absl::StrCat(field_, ".names has ");
  if (names.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more)
      return file.Error("has no header; name the columns in csv.names if it is to have none");
    for (size_t j = 0; j < reader.size(); ++j) names.emplace_back(reader.text(j));
    header = absl::StrCat(file.name(), ": line ", reader.place(0).line, ", the header, has ");
  }
  Places places;
  MILLRACE_RETURN_IF_ERROR(FindPlaces(names, header, &places));
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(AddRow(reader, places));
    if (selection_.Contains(examples_)) {
      MILLRACE_RETURN_IF_ERROR(KeepRow(file, reader.place(0).line));
    }
    ++examples_;
  }
}

absl::Status CsvTableReader::FindPlaces(absl::Span<const std::string> names,
                                        const std::string& header, Places* places) const {
  const auto find = [&](const std::string& name,
                        const std::string& field) -> absl::StatusOr<size_t> {
    const auto* found = std::find(names.begin(), names.end(), name);
    const auto times = std::count(names.begin(), names.end(), name);
    if (times == 1) return static_cast<size_t>(found - names.begin());
    return absl::InvalidArgumentError(absl::StrCat(
        field_, field, ": '", PrintableName(name), "'; must be a column's name, and ", header,
        names.size(), " names, ", times == 0 ? "none" : absl::StrCat(times), " of which is this"));
  };
  for (int i = 0; i < spec_.columns_size(); ++i) {
    places->columns.emplace_back();
    for (const std::string& name : NamesOf(spec_.columns(i))) {
      MILLRACE_ASSIGN_OR_RETURN(const size_t place, find(name, absl::StrCat(".columns[", i, "]")));
      places->columns.back().push_back(place);
    }
  }
  for (int i = 0; i < spec_.label_size(); ++i) {
    const std::string field = absl::StrCat(LabelPath("", i, spec_.label_size()), ".name");
    MILLRACE_ASSIGN_OR_RETURN(const size_t place, find(spec_.label(i).name(), field));
    places->labels.push_back(place);
  }
  if (!spec_.weight().empty()) {
    MILLRACE_ASSIGN_OR_RETURN(places->weight, find(spec_.weight(), ".weight"));
  }
  places->fields = names.size();
  return absl::OkStatus();
}

CsvValue CsvTableReader::ValueAt(const CsvReader& reader, size_t field) const {
  const absl::string_view text = reader.text(field);
  return {text, missing_.contains(text)};
}

absl::Status CsvTableReader::AddRow(const CsvReader& reader, const Places& places) {
  if (reader.size() != places.fields) {
    return reader.ErrorAt(reader.place(0),
                          absl::StrCat("a row of ", reader.size(), " fields; must have ",
                                       places.fields, ", as there are columns"));
  }
  MILLRACE_RETURN_IF_ERROR(EncodeRow(reader, places));
  MILLRACE_RETURN_IF_ERROR(EncodeLabels(reader, places));
  return spec_.weight().empty() ? absl::OkStatus() : EncodeWeight(reader, places);
}

absl::Status CsvTableReader::EncodeRow(const CsvReader& reader, const Places& places) {
  for (size_t i = 0; i < encoders_.size(); ++i) {
    const std::vector<size_t>& fields = places.columns[i];
    values_.clear();
    for (const size_t field : fields) values_.push_back(ValueAt(reader, field));
    if (const auto error = encoders_[i]->Encode(values_, &cells_[i])) {
      const CsvColumn& column = spec_.columns(static_cast<int>(i));
      return reader.ErrorAt(reader.place(fields[error->value]),
                            absl::StrCat(AtColumn(NamesOf(column)[error->value]), error->message));
    }
  }
  return absl::OkStatus();
}

absl::Status CsvTableReader::EncodeLabels(const CsvReader& reader, const Places& places) {
  for (size_t i = 0; i < labels_.size(); ++i) {
    const size_t field = places.labels[i];
    const auto error = labels_[i].encoder.Encode(ValueAt(reader, field), &labels_[i].cell);
    if (!error.has_value()) continue;
    return reader.ErrorAt(reader.place(field),
                          absl::StrCat(AtColumn(labels_[i].spec->name()), *error));
  }
  return absl::OkStatus();
}

absl::Status CsvTableReader::EncodeWeight(const CsvReader& reader, const Places& places) {
  const CsvValue value = ValueAt(reader, places.weight);
  const double weight = value.missing ? -1 : ParseFinite(value.text).value_or(-1);
  weight_ = static_cast<float>(weight);
  if (weight >= 0 && std::isfinite(weight_)) return absl::OkStatus();
  return reader.ErrorAt(reader.place(places.weight),
                        absl::StrCat(AtColumn(spec_.weight()), ShowWord(value.text),
                                     "; a weight must be a number from 0 on that fits float32"));
}

absl::Status CsvTableReader::KeepRow(const InputFile& file, uint64_t line) {
  for (size_t i = 0; i < cells_.size(); ++i) table_.columns[i].Add(cells_[i]);
  KeepLabels(file, line);
  if (!spec_.weight().empty()) table_.weights.push_back(weight_);
  // Columns, labels and weight; and one that grows, of which there are two meanwhile.
  const uint64_t columns = cells_.size() + labels_.size() + 2;
  return CheckKept(table_.examples() * columns * sizeof(float), most_kept_, file);
}

void CsvTableReader::KeepLabels(const InputFile& file, uint64_t line) {
  for (size_t i = 0; i < labels_.size(); ++i) {
    Label& label = labels_[i];
    table_.labels[i].Add(label.cell);
    if (label.encoder.number() || label.cell.id <= label.largest) continue;
    label.largest = label.cell.id;
    label.largest_class = absl::StrCat(file.name(), ": line ", line);
  }
}

}  // namespace millrace::worker
