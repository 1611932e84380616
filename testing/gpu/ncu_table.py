"""Sums up, by kernel, what `ncu --section=SpeedOfLight --csv` said: launches, time, and the shares of the GPU's
arithmetic and of its memory's bandwidth that were used, means over the time. A kernel that is compiled for several
tiles, functions or types has a row for each.

    python3 ncu_table.py LOG
"""

import collections
import csv
import pathlib
import sys

import kernel_names

TIME, COMPUTE, MEMORY = "Duration", "Compute (SM) Throughput", "Memory Throughput"
NANOSECONDS = {"ns": 1, "us": 1e3, "usecond": 1e3, "nsecond": 1, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


def launches(lines):
    """{id: (kernel, {metric: value})} of the CSV part of a log."""
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        raise SystemExit("ncu_table: there is no table in the log")
    found = {}
    for row in csv.DictReader(line for line in lines[begin:] if line.startswith('"')):
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except ValueError:
            continue
        _, metrics = found.setdefault(row["ID"], (kernel_names.plain(row["Kernel Name"], whole=True), {}))
        if row["Metric Name"] == TIME:
            value *= NANOSECONDS[row["Metric Unit"]]
        elif row["Metric Unit"] != "%":
            continue
        metrics[row["Metric Name"]] = value
    return found


def main():
    sums = collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for kernel, metrics in launches(pathlib.Path(sys.argv[1]).read_text(errors="replace").splitlines()).values():
        if TIME not in metrics:
            continue
        total = sums[kernel]
        time = metrics[TIME]
        total[0] += 1
        total[1] += time
        total[2] += time * metrics.get(COMPUTE, 0)
        total[3] += time * metrics.get(MEMORY, 0)
    everything = sum(total[1] for total in sums.values())
    print(f"{'launches':>8} {'us':>10} {'% of time':>9} {'arithmetic %':>12} {'memory %':>9}  kernel")
    for kernel, (count, time, compute, memory) in sorted(sums.items(), key=lambda item: -item[1][1]):
        print(f"{count:8} {time / 1e3:10.1f} {100 * time / everything:9.1f} {compute / time:12.1f} {memory / time:9.1f}  {kernel}")


if __name__ == "__main__":
    main()
