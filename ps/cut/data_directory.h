// The directory in which a ps server keeps its shards.
#ifndef MILLRACE_PS_CUT_DATA_DIRECTORY_H_
#define MILLRACE_PS_CUT_DATA_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/storage/directory_lock.h"
#include "common/storage/durable_file.h"

namespace millrace::ps {

// Belongs to one running server at a time: locked as long as this object lives.
class DataDirectory {
 public:
  // Opens a directory that a ps server made, or makes one where there is none or an empty one.
  // FAILED_PRECONDITION: it belongs to something else, or to another version of this program.
  // UNAVAILABLE: a running server has it. INVALID_ARGUMENT: no path. Others: the system's error.
  // Each message names the directory and says what to do.
  static absl::StatusOr<std::unique_ptr<DataDirectory>> Open(
      const std::string& path, const FileSystemPtr& file_system = RealFileSystem());

  // Made up when the directory was, and kept for good.
  const std::string& id() const { return id_; }

  // Where the database is.
  std::string database_path() const { return path_ + "/db"; }

 private:
  DataDirectory(std::string path, std::string id, std::unique_ptr<DirectoryLock> lock);

  const std::string path_;
  const std::string id_;
  const std::unique_ptr<DirectoryLock> lock_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_DATA_DIRECTORY_H_
