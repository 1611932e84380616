"""What run_on_gpu.sh measured of steps, as a table: a row for each job and precision.

    python3 speed_table.py FIGURES...      # figures.jsonl of one run or of several

    steps/s     of gpu_benchmark, whose sums have one order
    alone       the same without copies from and to the host, and without waits for each step
    any order   the same with --deterministic=false, as a share of that
    ahead       gpu_benchmark --ahead: the next step's values and batch come while the backward pass runs
    of product  the arithmetic of steps/s as a share of the fastest large product in that precision (product_benchmark), whichever of
                its factors stand transposed; these have the precision's type before, so nothing is rounded meanwhile
    alone, of product  the same of the steps without copies: what our kernels make of the GPU
    PyTorch     steps/s of the fastest of its modes, copies included as in ours, and which it is
    ratio       ours / PyTorch's
    alone       the same of both without copies, of the fastest of its modes then
    ahead       likewise, of both where the next step's values come while the backward pass runs

What was not measured is '-'.
"""

import collections
import json
import sys


def lines_of(paths):
    found = collections.defaultdict(list)
    for path in paths:
        with open(path) as file:
            for line in file:
                figures = json.loads(line)
                found[figures["what"]].append(figures)
    return found


# As torch_speed.py names it.
def model_of(job):
    return job.removeprefix("cifar10-").replace("-", "_")


def number(value, form):
    return "-" if value is None else format(value, form)


def ratio(ours, theirs, form=".2f"):
    return number(ours / theirs if ours and theirs else None, form)


def best_of(torch, job, precision, batch, what):
    rates = [(line[what]["median"], line["mode"]) for line in torch
             if (line["job"], line["precision"], line["batch"]) == (model_of(job), precision, batch) and what in line]
    return max(rates, default=(None, None))


def row(line, found):
    job, precision, rate = line["job"], line["precision"], line["steps_per_second"]

    def others(deterministic, ahead):
        return [other["steps_per_second"] for other in found["millrace"]
                if (other["deterministic"], other.get("ahead", False)) == (deterministic, ahead) and
                all(other[field] == line[field] for field in ("job", "precision", "batch"))]

    loose = others(deterministic=False, ahead=False)
    ahead = max(others(deterministic=True, ahead=True), default=None)
    product = max((product["flops_per_second"] for product in found["product"] if product["precision"] == precision), default=None)
    alone = line.get("compute_steps_per_second")
    theirs, mode = best_of(found["torch"], job, precision, line["batch"], "with_copies")
    theirs_alone, _ = best_of(found["torch"], job, precision, line["batch"], "compute")
    theirs_ahead, _ = best_of(found["torch"], job, precision, line["batch"], "ahead")
    return (f"{job:<18} {precision:<9} {line['batch']:>5} {rate:>9.1f} {number(alone, '.1f'):>9}"
            f" {number(loose[0] / rate if loose else None, '.2f'):>9} {number(ahead, '.1f'):>9}"
            f" {ratio(line['flops_per_second'], product, '.3f'):>10} {ratio(line.get('compute_flops_per_second'), product, '.3f'):>17}"
            f" {number(theirs, '.1f'):>8} {mode or '-':<7} {ratio(rate, theirs):>6} {ratio(alone, theirs_alone):>6}"
            f" {ratio(ahead, theirs_ahead):>6}")


def main():
    found = lines_of(sys.argv[1:])
    measured = [line for line in found["millrace"] if line["deterministic"] and not line.get("ahead", False)]
    if not measured:
        return
    print(f"{'job':<18} {'precision':<9} {'batch':>5} {'steps/s':>9} {'alone':>9} {'any order':>9} {'ahead':>9}"
          f" {'of product':>10} {'alone, of product':>17} {'PyTorch':>8} {'mode':<7} {'ratio':>6} {'alone':>6} {'ahead':>6}")
    for line in measured:
        print(row(line, found))


if __name__ == "__main__":
    main()
