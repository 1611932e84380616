// How the replicas of a model add up their gradients.
//
// Each bucket of gradients is cut into as many pieces as replicas take part in the step. Once it is
// final on all of them, replica i gets piece i from the others, adds the pieces up in the order of
// the replicas, and copies the sum to the host. So each GPU's own link to the host carries its
// share of the gradients alone, and bits depend on the number of replicas and on nothing else.
// Nothing goes back to the GPUs: new values come from the ps servers. While a sum is copied its GPU
// looks whether it is finite, so that the host need not.
//
// Large gradients are copied straight to where they are wanted, each by itself. Small ones, of
// which a model may have hundreds, go to the model's own on the host first, where they stand one
// after the other as on the GPUs: so neighbours are one copy.
//
// Where any order of sums will do, NCCL may get and add up the pieces instead (cuda::PieceSums),
// but for steps in which not all replicas take part, since all of them are its ranks. It begins
// once the bucket is final everywhere, too: until then its kernels would only keep multiprocessors
// from the passes.
//
// What waits for what: the streams of exchange wait for the backward passes of all replicas, by
// events that are recorded outside of graphs. Whatever was enqueued for earlier steps, be it that
// one failed half-way, has to be done before a backward pass writes gradients anew (Begin).
#ifndef MILLRACE_WORKER_DEVICE_CUDA_GRADIENT_EXCHANGE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_GRADIENT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/device/cuda/cuda_gradients.h"
#include "worker/device/cuda/gradient_buckets.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/piece_sums.h"
#include "worker/model/model.h"

namespace millrace::worker {

// Used by one thread at a time; throws cuda::Error.
class GradientExchange {
 public:
  // What a replica brings along.
  struct Member {
    cuda::Gpu* gpu = nullptr;
    char* gradients = nullptr;           // As VariablePlaces says, on the GPU.
    char* received = nullptr;            // ReceivedBytes, on the GPU.
    uint64_t* marks = nullptr;           // MarksBytes, on the GPU,
    const uint64_t* unmarked = nullptr;  // as many of pinned memory, which are 0 and stay so,
    uint64_t* marks_copied = nullptr;    // and as many of pinned memory, which marks are copied to.
  };

  // All must outlive it. Null `sums`: they are our own. `host` has the model's own gradients.
  // `at_work` is told which member's GPU is called.
  GradientExchange(const std::vector<GradientBucket>& buckets, std::vector<Member> members,
                   cuda::PieceSums* sums, const VariablePlaces& places, const HostVariables& host,
                   size_t* at_work);

  // A gradient of fewer bytes is small.
  static constexpr size_t kLeastDirectBytes = size_t{64} << 10;

  // What each of `members` needs for pieces of the others.
  static size_t ReceivedBytes(const std::vector<GradientBucket>& buckets, size_t members);
  // And for what it finds of each bucket's piece.
  static size_t MarksBytes(const std::vector<GradientBucket>& buckets) {
    return buckets.size() * sizeof(uint64_t);
  }

  // A step in which the first `taking_part` members have examples: their backward passes are going
  // to be enqueued. Gradients go `to` these places, small ones when they are handed over.
  void Begin(size_t taking_part, const GradientPlaces& to);
  // The passes are enqueued up to where this bucket is final.
  void Enqueue(size_t bucket);

  // Waits for each bucket of the step, and hands its gradients over, as finite ones where all of
  // the bucket are, from where they were copied to unless that is the sink's place. False:
  // something took more than `seconds`.
  bool HandOver(double seconds, GradientSink* sink) const;
  // Waits for them alone.
  bool Wait(double seconds) const;

 private:
  // Of a bucket, in bytes from its beginning.
  struct Piece {
    size_t begin = 0;
    size_t bytes = 0;
  };
  // From the GPU to the host: what stands in [begin, end) among all gradients, in bytes.
  struct Copy {
    char* to = nullptr;
    size_t begin = 0;
    size_t end = 0;
  };
  struct OfBucket {
    std::unique_ptr<cuda::Event> final;
    std::unique_ptr<cuda::Event> summed;
    std::unique_ptr<cuda::Event> looked_at;
    std::unique_ptr<cuda::Event> copied;
  };
  struct State {
    Member member;
    std::unique_ptr<cuda::Event> exchanged;  // All that was ever enqueued.
    std::unique_ptr<cuda::Event> copied;
    std::vector<OfBucket> buckets;
  };
  State& At(size_t member) const;
  static Piece PieceOf(const GradientBucket& bucket, size_t piece, size_t pieces);
  void EnqueueSum(size_t bucket, size_t member);
  void EnqueueSums(size_t bucket);
  void EnqueueCopies(size_t bucket, size_t member);
  std::vector<Copy> CopiesOf(const GradientBucket& bucket, const Piece& piece) const;
  // The part of a piece that each member has, on the GPU of `member`.
  std::vector<const float*> Gather(const GradientBucket& bucket, const Piece& piece,
                                   size_t member) const;
  bool Await(size_t bucket, double seconds) const;
  bool Await(size_t bucket, std::unique_ptr<cuda::Event> OfBucket::*event, double seconds) const;
  // REQUIRES: it was waited for.
  bool IsFinite(size_t bucket) const;

  const std::vector<GradientBucket>& buckets_;
  cuda::PieceSums* const sums_;
  const VariablePlaces& places_;
  const HostVariables& host_;
  size_t* const at_work_;
  mutable std::vector<State> states_;
  size_t taking_part_ = 0;
  GradientPlaces to_;  // Where the GPUs copy them to.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_GRADIENT_EXCHANGE_H_
