// A model written from scratch: a factorization machine, which finds how features go together.
#ifndef MILLRACE_EXAMPLES_OWN_WORKER_FACTORIZATION_MACHINE_H_
#define MILLRACE_EXAMPLES_OWN_WORKER_FACTORIZATION_MACHINE_H_

#include "worker/model/own_models.h"

namespace millrace::examples {

// "factorization_machine": of an example x with features i = 1 .. n it predicts the number
//   y = bias + sum_i weights[i] x[i] + sum_(i < j) <factors[i], factors[j]> x[i] x[j]
// and its loss is (y - label)^2. With a user and an item as the two features that are 1, that is
// matrix factorization with biases (S. Rendle, Factorization Machines, 2010).
// Options: `factors`, the length of a feature's vector (1 to 1024; 8); `decay` (0 to 1; 0): as much
// of each factor is added to its gradient, so that factors which nothing asks for become small.
worker::OwnModel FactorizationMachine();

}  // namespace millrace::examples

#endif  // MILLRACE_EXAMPLES_OWN_WORKER_FACTORIZATION_MACHINE_H_
