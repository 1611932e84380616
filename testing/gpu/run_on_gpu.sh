#!/usr/bin/env bash
# Tests and measures the CUDA device on a machine with a GPU and CUDA's toolkit, from a folder that
# tools/gather_gpu_tests.sh made:
#
#   OUT/run_on_gpu.sh [--results=DIR] [--seconds=N] [--parts=PATTERN] [--emulated] [GROUP...]
#
# The groups, in this order if none is named:
#   tests        all tests of the device on the GPU, and 100 repeats of some steps
#   benchmarks   steps a second, with sums in one order and in any, and with the next step's values ahead,
#                large products and those of a step, convolutions beside cuDNN's, how much of pushes and pulls is hidden
#   peers        the same models in PyTorch
#   sanitizers   compute-sanitizer's memcheck, racecheck and synccheck over the kernels' tests,
#                memcheck over those of models, and initcheck over a few steps of a model
#   profile      what ncu says of each kernel of a step, in each precision
#
# Each part has a limit of time and a log DIR/PART.log (results/ beside this script, if not named).
# DIR/summary.txt has a line for each, PASS, FAIL, TIMEOUT or SKIP, as soon as it is known, and
# DIR/figures.jsonl what was measured, of which speed_table.py makes the table at the summary's end. --seconds: no part begins later than that. --parts: those alone
# whose names are like that ('torch_compile_*'), where one call may not take as long as a group does.
# --emulated tries this script itself without a GPU: tests and benchmarks of small sizes on the
# emulated one.
#
# Exit code: 0, all that ran passed; 1, something failed; 2, wrong arguments; 3, there is no GPU.
set -uo pipefail
export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
here=$(dirname "$(readlink -f "$0")")

results=$here/results
seconds=1000000
only='*'
emulated=
groups=()
for argument in "$@"; do
  case $argument in
    --results=*) results=${argument#*=} ;;
    --seconds=*) seconds=${argument#*=} ;;
    --parts=*) only=${argument#*=} ;;
    --emulated) emulated=1 ;;
    tests | benchmarks | peers | sanitizers | profile) groups+=("$argument") ;;
    *)
      echo "run_on_gpu.sh: unknown argument '$argument'" >&2
      exit 2
      ;;
  esac
done
[[ ${#groups[@]} -gt 0 ]] || groups=(tests benchmarks peers sanitizers profile)

mkdir -p "$results"
results=$(readlink -f "$results")
summary=$results/summary.txt
figures=$results/figures.jsonl
: >"$summary"
: >"$figures"
failed=0

say() { echo "$*" | tee -a "$summary"; }

# The folder of a library of CUDA's: the toolkit's, or one of Python's packages.
folder_of() {
  local path
  for path in "${CUDA_HOME:-/usr/local/cuda}/lib64/$1" "${CUDA_HOME:-/usr/local/cuda}/lib/$1" \
    $(python3 -c 'import site; print(*site.getsitepackages())' 2>/dev/null | tr ' ' '\n' |
      while read -r packages; do find "$packages" -path "*nvidia*/$1" 2>/dev/null; done); do
    [[ ! -e $path ]] || { dirname "$path"; return; }
  done
}
for library in libcublasLt.so.13 libcublasLt.so.12 libcudnn.so.9 libnccl.so.2; do
  folder=$(folder_of "$library")
  [[ -z $folder ]] || cuda_path=${cuda_path:+$cuda_path:}$folder
done
# Only for our binaries: Python has its own.
ours=(env "LD_LIBRARY_PATH=${cuda_path:-}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")

# part NAME LIMIT COMMAND...: runs it in root/ for so many seconds at most, with a folder of its own.
part() {
  local name=$1 limit=$2 begin=$SECONDS code
  shift 2
  # shellcheck disable=SC2053  # A pattern.
  [[ $name == $only ]] || return 0
  if ((SECONDS > seconds)); then
    say "SKIP $name: no time left"
    return
  fi
  (
    export TEST_TMPDIR=$results/tmp/$name
    mkdir -p "$TEST_TMPDIR" && cd "$here/root" && timeout --kill-after=10 "$limit" "$@"
  ) >"$results/$name.log" 2>&1
  code=$?
  case $code in
    0) say "PASS $name, $((SECONDS - begin)) s" ;;
    124 | 137) say "TIMEOUT $name, after $limit s"; failed=1 ;;
    *) say "FAIL $name, exit code $code, $((SECONDS - begin)) s: $(failure "$results/$name.log")"; failed=1 ;;
  esac
  grep '^{"what"' "$results/$name.log" >>"$figures" || true
}

# What a log says of a failure, in one line.
failure() {
  grep -m 1 -aE '^\[  FAILED  \]|Check failed|[Ee]rror|ERROR SUMMARY|F[0-9]{8}' "$1" || tail -n 1 "$1"
}

# parts NAME LIMIT SHARDS COMMAND...: a test in so many shards at once, each a part.
parts() {
  local name=$1 limit=$2 shards=$3 i
  shift 3
  local pids=()
  for ((i = 0; i < shards; ++i)); do
    (
      failed=0
      export GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i
      part "$name.$i" "$limit" "$@"
      exit "$failed"
    ) &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
}

gpus=0  # That our binaries can have: as many as CUDA_VISIBLE_DEVICES leaves, and of MIG's parts one.
if [[ -n $emulated ]]; then
  unset MILLRACE_TEST_GPU
  say "on the emulated GPU: times say nothing"
else
  export MILLRACE_TEST_GPU=$here/lib/libmillrace_cuda.so
  if ! gpu=$("${ours[@]}" timeout 330 "$here/gpu_benchmark" --job="$here/root/examples/mnist_cnn.textproto" \
    --batch=2 --steps=1 --rounds=1 --warmup=0 --peak_size=256 2>&1); then
    say "no GPU: $(tail -n 1 <<<"$gpu")"
    exit 3
  fi
  gpus=$(grep -oE '"gpus":[0-9]+' <<<"$gpu" | grep -oE '[0-9]+$')
  say "$gpus of these GPUs are ours: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || true)"
fi
if [[ -d $here/root/data/mnist ]]; then export MILLRACE_TEST_DATA=$here/root/data; fi

run_tests() {
  local cores shards
  cores=$(nproc)
  shards=$((cores > 8 ? 8 : cores))
  part shared_library_test 60 "${ours[@]}" env "MILLRACE_CUDA_LIBRARY=$here/lib/libmillrace_cuda.so" "$here/shared_library_test"
  part gpu_test 120 "${ours[@]}" "$here/gpu_test"
  parts kernels_test 240 $((shards / 2 + 1)) "${ours[@]}" "$here/kernels_test"
  parts image_kernels_test 400 "$shards" "${ours[@]}" "$here/image_kernels_test"
  parts cuda_model_test 300 $((shards / 2 + 1)) "${ours[@]}" "$here/cuda_model_test"
  parts staged_batches_test 300 $((shards / 2 + 1)) "${ours[@]}" "$here/staged_batches_test"
  if ((gpus > 1)); then
    parts replicas_test 300 $((shards / 2 + 1)) "${ours[@]}" "$here/replicas_test"
    parts two_gpus_model_test 300 $((shards / 2 + 1)) "${ours[@]}" "$here/two_gpus_model_test"
  fi
  parts example_losses_test 400 "$shards" "${ours[@]}" "$here/example_losses_test"
  part gpu_training_test 200 "${ours[@]}" "$here/gpu_training_test"
  grep -ahE 'differ by at most|end with the same bits' "$results"/example_losses_test.*.log 2>/dev/null | sort | tee -a "$summary"
  say "tests that were skipped, since they need the emulation or two GPUs: $(find "$results" -name '*_test*.log' \
    ! -name '*check_*' -exec grep -ahE '^\[  SKIPPED \] .* ms\)$' {} + | wc -l)"
}

run_benchmarks() {
  local job precision size peak=8192 small=()
  [[ -z $emulated ]] || small=(--steps=1 --rounds=1 --warmup=0) peak=64
  for job in examples/cifar10_resnet:128 resnet56:128 examples/wide_mlp:4096; do
    size=${job#*:}
    [[ -z $emulated ]] || size=2
    job=${job%:*}
    for precision in FLOAT32 TF32 BFLOAT16; do
      part "speed_${job##*/}_$precision" 120 "${ours[@]}" "$here/gpu_benchmark" \
        --job="$job.textproto" "--precision=$precision" --batch="$size" "${small[@]}" "--peak_size=$peak"
      part "speed_any_order_${job##*/}_$precision" 120 "${ours[@]}" "$here/gpu_benchmark" --deterministic=false \
        --job="$job.textproto" "--precision=$precision" --batch="$size" "${small[@]}" --peak_size=0
      part "speed_ahead_${job##*/}_$precision" 120 "${ours[@]}" "$here/gpu_benchmark" --ahead \
        --job="$job.textproto" "--precision=$precision" --batch="$size" "${small[@]}" --peak_size=0
      [[ -z $emulated ]] || break
    done
  done
  small=()
  [[ -z $emulated ]] || small=(--images=1 --rounds=1 --times=1 --first_alone)
  part convolutions 240 "${ours[@]}" "$here/convolution_benchmark" "${small[@]}"
  [[ -n $emulated ]] || part products 240 "${ours[@]}" "$here/product_benchmark"
  [[ -n $emulated ]] || part step_products 240 "${ours[@]}" "$here/step_product_benchmark"
  [[ -n $emulated ]] || part cudnn_convolutions 400 "${ours[@]}" "$here/cudnn_benchmark"
  for precision in FLOAT32 BFLOAT16; do  # The one computes longer than it copies, the other less.
    [[ -n $emulated ]] || part "hidden_$precision" 360 "${ours[@]}" python3 "$here/gpu_overlap.py" \
      "--millrace=$here/millrace" "--make_digits=$here/make_digits" --device=cuda "--precision=$precision"
  done
}

run_peers() {
  local mode model
  if ! python3 -c 'import torch'; then
    say "SKIP peers: python3 has no torch"
    return
  fi
  for mode in eager graph compile; do
    for model in resnet20 resnet56 wide_mlp; do
      part "torch_${mode}_$model" 500 python3 "$here/torch_speed.py" --device=cuda "--mode=$mode" "--models=$model"
    done
  done
}

# Whether there is the tool $2, which the group $1 needs; says so if not.
has_tool() {
  command -v "$2" >/dev/null && return
  say "SKIP $1: there is no $2"
  return 1
}

# Errors that calls return are no errors of theirs: an event that is asked whether it is done says no that way, and tests
# provoke some. Steps that are watched are no figures.
run_sanitizers() {
  local tool tests steps shards figures=/dev/null
  has_tool sanitizers compute-sanitizer || return
  local watch=("${ours[@]}" compute-sanitizer --target-processes=all --report-api-errors=no --error-exitcode=9)
  shards=$(($(nproc) > 16 ? 16 : $(nproc)))
  for tool in memcheck racecheck synccheck; do
    for tests in gpu_test kernels_test image_kernels_test; do
      parts "${tool}_$tests" 300 "$shards" "${watch[@]}" "--tool=$tool" /bin/sh "$here/$tests"
    done
  done
  for tests in cuda_model_test staged_batches_test; do
    parts "memcheck_$tests" 500 "$shards" "${watch[@]}" --tool=memcheck /bin/sh "$here/$tests"
  done
  for steps in "" --ahead; do
    part "initcheck_steps${steps/--/_}" 300 "${watch[@]}" --tool=initcheck /bin/sh "$here/gpu_benchmark" \
      --job=examples/cifar10_resnet.textproto --batch=8 --steps=1 --rounds=1 --warmup=1 --peak_size=0 $steps
  done
}

run_profile() {
  local job precision name figures=/dev/null
  has_tool profile ncu || return
  for job in cifar10_resnet:128 wide_mlp:4096; do
    for precision in FLOAT32 TF32 BFLOAT16; do
      name=ncu_${job%:*}_$precision
      part "$name" 400 "${ours[@]}" ncu --target-processes=all --section=SpeedOfLight --clock-control=none --csv \
        --launch-count=400 /bin/sh "$here/gpu_benchmark" --job="examples/${job%:*}.textproto" --batch="${job#*:}" \
        "--precision=$precision" --steps=1 --rounds=1 --warmup=1 --peak_size=0
      [[ -e $results/$name.log ]] || continue
      python3 "$here/ncu_table.py" "$results/$name.log" >"$results/$name.txt" 2>&1
      say "$name:"
      head -n 30 "$results/$name.txt" | tee -a "$summary"
    done
  done
}

for group in "${groups[@]}"; do
  if [[ -n $emulated && $group != tests && $group != benchmarks ]]; then
    say "SKIP $group: needs a GPU"
    continue
  fi
  "run_$group"
done
python3 "$here/speed_table.py" "$figures" | tee -a "$summary"
say "$(grep -c ^PASS "$summary") parts passed, $(grep -cE '^(FAIL|TIMEOUT)' "$summary") did not, $SECONDS s"
if ! grep -qE '^(PASS|FAIL|TIMEOUT|SKIP)' "$summary"; then
  echo "run_on_gpu.sh: no part of ${groups[*]} is called so" >&2
  exit 2
fi
exit $failed
