// Text in columns.
#ifndef MILLRACE_CLIENT_COMMANDS_TABLE_H_
#define MILLRACE_CLIENT_COMMANDS_TABLE_H_

#include <string>
#include <vector>

namespace millrace::client {

// Columns are two spaces apart and as wide as their widest cell. Columns without a cell that has
// text are left out. A value type.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) : rows_{std::move(heads)} {}

  // REQUIRES: as many cells as there are heads.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Lines without trailing spaces.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // The heads first.
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_TABLE_H_
