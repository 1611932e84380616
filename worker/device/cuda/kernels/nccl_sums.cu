#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "worker/device/cuda/kernels/nccl_functions.h"
#include "worker/device/cuda/kernels/nccl_lock.h"
#include "worker/device/cuda/kernels/nccl_sums.h"

namespace millrace::cuda {

#if __has_include(<nccl.h>)

namespace {

// In older ones ncclCommAbort frees what kernels of the other GPUs still read (before 2.16.2, see
// commReclaim in NCCL's init.cc), or crashes itself (the notes of this one).
constexpr int kFirstVersion = 21605;

// As "2.28.9", which NCCL calls 22809, and "2.8.4", 2804.
std::string VersionName(int version) {
  const int major = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major) + "." + std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

int VersionOf(const NcclFunctions& nccl) {
  int version = 0;
  return nccl.get_version(&version) == ncclSuccess ? version : 0;
}

const NcclFunctions& NewEnough(const NcclFunctions& nccl) {
  const int version = VersionOf(nccl);
  if (version >= kFirstVersion) return nccl;
  throw Error(Error::kOther, "NCCL " + VersionName(version) + " is too old; must be " +
                                 VersionName(kFirstVersion) + " or newer");
}

// What was said last may be of another error; it is said all the same.
[[noreturn]] void ThrowNccl(const NcclFunctions& nccl, Error::Kind kind, ncclResult_t result,
                            const char* call) {
  std::string what = std::string(call) + ": " + nccl.get_error_string(result);
  const char* const last = nccl.get_last_error(nullptr);
  if (last != nullptr && *last != '\0') what += ": " + std::string(last);
  cudaGetLastError();  // Of NCCL's own calls.
  throw Error(kind, what);
}

struct GpusWithNccl {
  std::mutex mutex;
  std::set<int> indices;  // Guarded by `mutex`.
};

// What is kept for ever still has its GPUs when the process ends.
GpusWithNccl& TheGpusWithNccl() {
  static auto* const gpus = new GpusWithNccl;
  return *gpus;
}

// While it lives nobody else in the process has these GPUs use NCCL. Sums of two that reached GPUs
// in different orders would wait for each other.
class NcclClaim {
 public:
  explicit NcclClaim(const std::vector<NcclMember>& members) : members_(members) {
    GpusWithNccl& gpus = TheGpusWithNccl();
    const std::lock_guard<std::mutex> lock(gpus.mutex);
    for (const NcclMember& member : members_) {
      if (gpus.indices.count(member.index) == 0) continue;
      throw Error(Error::kOther,
                  "another model of this process uses NCCL on GPU " + std::to_string(member.index));
    }
    for (const NcclMember& member : members_) gpus.indices.insert(member.index);
  }
  ~NcclClaim() {
    GpusWithNccl& gpus = TheGpusWithNccl();
    const std::lock_guard<std::mutex> lock(gpus.mutex);
    for (const NcclMember& member : members_) gpus.indices.erase(member.index);
  }
  NcclClaim(const NcclClaim&) = delete;
  NcclClaim& operator=(const NcclClaim&) = delete;

 private:
  const std::vector<NcclMember>& members_;
};

// One communicator for each GPU; one thread is all ranks, so all that they do together is a group.
// Once anything has failed they are aborted, not destroyed, which would wait.
class NcclSums final : public PieceSums {
 public:
  NcclSums(const NcclFunctions& nccl, std::vector<NcclMember> members)
      : nccl_(NewEnough(nccl)),
        members_(std::move(members)),
        claim_(members_),
        comms_(members_.size()) {
    std::vector<int> indices;
    for (const NcclMember& member : members_) indices.push_back(member.index);
    const auto lock = TakeNcclLock();
    const ncclResult_t made =
        nccl_.comm_init_all(comms_.data(), static_cast<int>(comms_.size()), indices.data());
    if (made != ncclSuccess) ThrowNccl(nccl_, Error::kOther, made, "ncclCommInitAll");
  }

  ~NcclSums() override { End(failed_ ? nccl_.comm_abort : nccl_.comm_destroy); }

  std::string name() const override { return "NCCL " + VersionName(VersionOf(nccl_)); }

  // A group that was begun is ended whatever happens.
  void Enqueue(Stream stream, const std::vector<float*>& arrays, size_t count) override {
    const auto lock = TakeNcclLock();
    Require(nccl_.group_start(), "ncclGroupStart");
    ncclResult_t added = ncclSuccess;
    for (size_t i = 0; i < comms_.size() && added == ncclSuccess; ++i) {
      added = nccl_.reduce_scatter(arrays[i], arrays[i] + i * count, count, ncclFloat32, ncclSum,
                                   comms_[i], members_[i].stream(stream));
    }
    const ncclResult_t ended = nccl_.group_end();
    Require(added, "ncclReduceScatter");
    Require(ended, "ncclGroupEnd");
  }

  void Check() override {
    for (const ncclComm_t comm : comms_) {
      ncclResult_t state = ncclSuccess;
      Require(nccl_.comm_get_async_error(comm, &state), "ncclCommGetAsyncError");
      if (state != ncclInProgress) Require(state, "NCCL");
    }
  }

  void Abort() noexcept override { End(nccl_.comm_abort); }

 private:
  void Require(ncclResult_t result, const char* call) {
    if (result == ncclSuccess) return;
    failed_ = true;
    ThrowNccl(nccl_, Error::kLost, result, call);
  }

  void End(ncclResult_t (*end)(ncclComm_t)) noexcept {
    if (comms_.empty()) return;
    const auto lock = TakeNcclLock();
    for (const ncclComm_t comm : comms_) end(comm);
    comms_.clear();
    cudaGetLastError();  // Who waited for the work was told.
  }

  const NcclFunctions& nccl_;
  const std::vector<NcclMember> members_;
  const NcclClaim claim_;
  std::vector<ncclComm_t> comms_;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<PieceSums> MakeNcclSums(std::vector<NcclMember> members) {
  return std::make_unique<NcclSums>(LoadNccl(), std::move(members));
}

#else

std::unique_ptr<PieceSums> MakeNcclSums(std::vector<NcclMember> /*members*/) {
  throw Error(Error::kOther, "libmillrace_cuda.so was built where there is no nccl.h");
}

#endif

}  // namespace millrace::cuda
