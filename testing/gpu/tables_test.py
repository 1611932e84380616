"""What ncu and ptxas say of kernels becomes tables: programs beside this one, on outputs like theirs."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

import kernel_names
import kernel_table
import ncu_table
import speed_table

NCU_LOG = '''==PROF== Connected to process 42 (/tmp/gpu_benchmark)
==PROF== Profiling "GatherProducts": 0%....50%....100% - 8 passes
{"what":"millrace","job":"cifar10_resnet"}
==PROF== Disconnected from process 42
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
{rows}'''

TILE = "void millrace::cuda::<unnamed>::GatherProducts<millrace::cuda::Tile<(int)128, (int)64>, (bool){}>(const float *, (anonymous namespace)::Parts, float *)"


def rows(number, kernel, duration, unit, compute, memory):
    metrics = (("Duration", unit, duration), ("Compute (SM) Throughput", "%", compute), ("Memory Throughput", "%", memory),
               ("SM Frequency", "Ghz", "1.98"), ("Elapsed Cycles", "cycle", "12,345"))
    return [f'"{number}","42","gpu_benchmark","127.0.0.1","{kernel}","1","7","(128, 1, 1)","(64, 1, 1)","0","9.0",'
            f'"GPU Speed Of Light Throughput","{name}","{of}","{value}"' for name, of, value in metrics]


def printed(program, *arguments):
    output = io.StringIO()
    before, sys.argv = sys.argv, [program.__name__, *arguments]
    try:
        with contextlib.redirect_stdout(output):
            program.main()
    finally:
        sys.argv = before
    return output.getvalue().splitlines()


class KernelNamesTest(unittest.TestCase):

    def test_names_of_ours_lose_namespaces_and_arguments(self):
        for name in (TILE.format(1), "void millrace::cuda::(anonymous namespace)::GatherProducts<"
                     "millrace::cuda::Tile<128, 64>, 1>(float const*, millrace::cuda::(anonymous namespace)::Parts, float*)"):
            self.assertEqual(kernel_names.plain(name, whole=True), "GatherProducts<Tile<128, 64>, 1>")
            self.assertEqual(kernel_names.plain(name, whole=False), "GatherProducts")

    def test_enumerators_are_numbers(self):
        for name in ("void <unnamed>::ApplyKernel<(millrace::cuda::Function)2>(long, float *)",
                     "void (anonymous namespace)::ApplyKernel<((anonymous namespace)::Function)2>(long, float*)"):
            self.assertEqual(kernel_names.plain(name, whole=True), "ApplyKernel<2>")

    def test_names_of_libraries_stay(self):
        name = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>(T1::Params)"
        self.assertEqual(kernel_names.plain(name, whole=True), name.removeprefix("void ").split("(")[0])
        self.assertEqual(kernel_names.plain("sm90_xmma_gemm_f32f32_cublas", whole=True), "sm90_xmma_gemm_f32f32_cublas")


class TablesTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = pathlib.Path(folder.name) / "log"

    def test_ncu_table_has_a_row_for_each_form_of_a_kernel(self):
        lines = rows(0, TILE.format(1), "30.00", "us", "60.00", "20.00") + rows(1, TILE.format(0), "2,000", "ns", "10", "90")
        lines += rows(2, TILE.format(1), "10.00", "us", "20.00", "40.00")
        lines += rows(3, "void millrace::cuda::<unnamed>::SumKernel(float *)", "1.00", "ms", "5", "5")
        self.log.write_text(NCU_LOG.replace("{rows}", "\n".join(lines)) + "\n")
        table = [line.split(maxsplit=5) for line in printed(ncu_table, str(self.log))[1:]]
        self.assertEqual(table, [
            ["1", "1000.0", "96.0", "5.0", "5.0", "SumKernel"],
            ["2", "40.0", "3.8", "50.0", "25.0", "GatherProducts<Tile<128, 64>, 1>"],
            ["1", "2.0", "0.2", "10.0", "90.0", "GatherProducts<Tile<128, 64>, 0>"],
        ])

    def test_a_log_without_a_table_is_said_to_be_one(self):
        self.log.write_text("==ERROR== no permission\n")
        with self.assertRaisesRegex(SystemExit, "there is no table in the log"):
            printed(ncu_table, str(self.log))

    def test_kernel_table_has_the_least_and_the_most_of_a_kernels_forms(self):
        lines = []
        for form, registers in ((1, 70), (2, 128)):
            lines += [f"ptxas info    : Compiling entry function '_Z4TileILi{form}EEvPf' for 'sm_90'",
                      f"ptxas info    : Used {registers} registers, used 1 barriers, 13824 bytes smem, 400 bytes cmem[0]"]
        self.log.write_text("\n".join(lines) + "\n")
        self.assertEqual(printed(kernel_table, str(self.log))[2:], ["| `Tile` | 2 | 70 to 128 | 13,824 |"])
        self.assertEqual(printed(kernel_table, "--all", str(self.log))[2:],
                         ["| `Tile<1>` | 1 | 70 | 13,824 |", "| `Tile<2>` | 1 | 128 | 13,824 |"])

    def test_speed_table_has_the_better_of_pytorchs_and_the_fastest_product(self):
        def ours(rate, deterministic, precision="bfloat16", ahead=False):
            return {"what": "millrace", "job": "cifar10-resnet20", "precision": precision, "deterministic": deterministic,
                    "ahead": ahead, "batch": 128, "steps_per_second": rate, "compute_steps_per_second": 2 * rate, "flops_per_second": rate * 1e10,
                    "compute_flops_per_second": 2 * rate * 1e10}

        def theirs(mode, rate, batch=128):
            return {"what": "torch", "job": "resnet20", "precision": "bfloat16", "batch": batch, "mode": mode,
                    "compute": {"median": rate + 45}, "with_copies": {"median": rate}}

        products = [{"what": "product", "precision": "bfloat16", "flops_per_second": rate} for rate in (4e12, 5e12)]
        products.append({"what": "product", "precision": "float32", "transposed_b": True, "flops_per_second": 1e12})
        with_ahead = theirs("graph", 80) | {"ahead": {"median": 100}}
        before = ours(7, True, "tf32")
        del before["ahead"]
        del before["compute_steps_per_second"], before["compute_flops_per_second"]
        lines = [ours(100, True), ours(110, False), ours(150, True, ahead=True), theirs("eager", 20), with_ahead, theirs("compile", 60),
                 theirs("graph", 500, batch=64), *products, ours(30, True, "float32"), before]
        self.log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual([line.split() for line in printed(speed_table, str(self.log))[1:]], [
            ["cifar10-resnet20", "bfloat16", "128", "100.0", "200.0", "1.10", "150.0", "0.200", "0.400", "80.0", "graph",
             "1.25", "1.60", "1.50"],
            ["cifar10-resnet20", "float32", "128", "30.0", "60.0", "-", "-", "0.300", "0.600", "-", "-", "-", "-", "-"],
            ["cifar10-resnet20", "tf32", "128", "7.0", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"],
        ])

    def test_speed_table_of_other_figures_is_empty(self):
        self.log.write_text('{"what": "hidden"}\n')
        self.assertEqual(printed(speed_table, str(self.log)), [])


if __name__ == "__main__":
    unittest.main()
