#!/usr/bin/env bash
# The benchmarks of GPUs work, on the emulated one; their times say nothing here.
set -euo pipefail
gpu_benchmark=$1
convolution_benchmark=$2
step_product_benchmark=$3

expect() { # A line of JSON on standard input that has a number above 0 at each path of $@.
  python3 -c '
import json, sys
line = json.loads(sys.stdin.readline())
for path in sys.argv[1:]:
    value = line
    for name in path.split("."):
        value = value[name]
    assert value > 0, (path, line)
print(line)' "$@"
}

small=(--batch=2 --steps=1 --rounds=1 --warmup=1)
"$gpu_benchmark" --job=examples/mnist_cnn.textproto "${small[@]}" --precision=BFLOAT16 --peak_size=64 |
  expect steps_per_second compute_steps_per_second flops_per_second compute_flops_per_second \
    peak_flops_per_second share_of_peak compute_share_of_peak gpus
for device in cuda cpu; do
  "$gpu_benchmark" --job=examples/mnist_cnn.textproto "${small[@]}" --device=$device --ahead | expect steps_per_second ahead
done
"$gpu_benchmark" --job=examples/mnist_cnn.textproto "${small[@]}" --device=cpu | expect steps_per_second
"$convolution_benchmark" --images=1 --rounds=1 --times=1 --first_alone | head -1 |
  expect forward_us data_us weights_us
products=$("$step_product_benchmark" 8 16 1)
head -1 <<<"$products" | expect algorithms first_us fastest_us first_flops_per_second fastest_flops_per_second
for precision in float32 tf32 bfloat16; do
  test "$(grep --count "\"step_product\".*\"$precision\",\"result\"" <<<"$products")" = 8
  grep "\"step_products\".*\"$precision\"" <<<"$products" | expect first_us fastest_us first_flops_per_second
done
if "$gpu_benchmark" --job=examples/census_csv.textproto 2>"$TEST_TMPDIR/error"; then
  echo "FAILED: a job without pictures was measured"
  exit 1
fi
grep --quiet "must train on cifar or idx files" "$TEST_TMPDIR/error"
