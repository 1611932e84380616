#!/usr/bin/env bash
# Gathers all that tests and measures the CUDA device on a machine with a GPU that has neither Bazel
# nor Debian's packages:
#
#   tools/gather_gpu_tests.sh OUT      # a folder; makes OUT.tar.xz of it, too
#
# There, with CUDA's toolkit: tar -xf OUT.tar.xz && OUT/run_on_gpu.sh
# (Without xz: python3 -m tarfile -e OUT.tar.xz)
#
# Builds what it gathers. With MILLRACE_TEST_DATA the small ones of the real data go along.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -ne 1 ]]; then
  echo "usage: tools/gather_gpu_tests.sh OUT" >&2
  exit 2
fi
out=$1

tests=(
  //worker/device/cuda/kernels:gpu_test
  //worker/device/cuda/kernels:image_kernels_test
  //worker/device/cuda/kernels:kernels_test
  //worker/device/cuda:cuda_model_test
  //worker/device/cuda:replicas_test
  //worker/device/cuda:shared_library_test
  //worker/device/cuda:staged_batches_test
  //worker/device/cuda:two_gpus_model_test
  //testing/gpu:example_losses_test
  //testing/gpu:gpu_training_test
)
programs=(
  //client:millrace
  //coordinator:coordinator
  //ps:ps
  //testing/benchmarks:convolution_benchmark
  //testing/benchmarks:cudnn_benchmark
  //testing/benchmarks:gpu_benchmark
  //testing/benchmarks:product_benchmark
  //testing/benchmarks:step_product_benchmark
  //testing/digits:make_digits
  //worker:worker
  //worker/device/cuda:libmillrace_cuda.so
)
bazel=${BAZEL:-bazel}
$bazel build "${tests[@]}" "${programs[@]}"

files=()
for target in "${tests[@]}" "${programs[@]}"; do
  file=${target#//}
  files+=("bazel-bin/${file/://}")
done
mkdir -p "$out"
tools/gather_binaries.sh "$out" "${files[@]}"
chmod -R u+w "$out"
strip --strip-unneeded "$out"/binaries/* "$out"/lib/*

# Where tests look for them, from the folder that they are run in.
root=$out/root
mkdir -p "$root/examples" "$root/testing/reference" "$root/data"
cp --force examples/*.textproto "$root/examples/"
cp --force testing/reference/layers.txt "$root/testing/reference/"
python3 examples/resnet.py --depth=56 >"$root/resnet56.textproto"
cp --force testing/gpu/*.py testing/gpu/run_on_gpu.sh testing/peers/torch_speed.py "$out/"
if [[ -n ${MILLRACE_TEST_DATA:-} ]]; then
  for folder in mnist a9a census; do
    [[ ! -d $MILLRACE_TEST_DATA/$folder ]] || cp -r --force "$MILLRACE_TEST_DATA/$folder" "$root/data/"
  done
fi

XZ_OPT=${XZ_OPT:--1 -T0} tar -cJf "$out.tar.xz" -C "$(dirname "$out")" "$(basename "$out")"
echo "gather_gpu_tests: $out has $(du -sm "$out" | cut -f1) MiB, $out.tar.xz $(du -m "$out.tar.xz" | cut -f1) MiB"
