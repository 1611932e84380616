// Serialized tf.train.Example messages as examples.
#ifndef MILLRACE_WORKER_INPUT_TF_EXAMPLE_DECODER_H_
#define MILLRACE_WORKER_INPUT_TF_EXAMPLE_DECODER_H_

#include <memory>

#include "protos/job.pb.h"
#include "worker/input/example_spec.h"
#include "worker/input/record_dataset.h"

namespace millrace::worker {

// What the features and the labels of `spec` become; without limits of ids. REQUIRES, as below:
// CheckDataSpec takes the spec.
ExampleSpec DescribeTfExamples(const TfRecordFiles& spec);

std::unique_ptr<const RecordDecoder> MakeTfExampleDecoder(const TfRecordFiles& spec);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_TF_EXAMPLE_DECODER_H_
