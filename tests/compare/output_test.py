"""What bench/compare asks of the engines, and what it reads of their output."""

import pathlib
import tempfile
import unittest

import scripts  # noqa: F401  (first: it finds the others)

import machine
import metrics
from peers import environments, llama, octavo, sources
from peers.base import NotMeasured, Setup, first_lines, run

METRICS = {metric.key: metric for metric in metrics.METRICS}
BATCHED = """\
main: n_kv_max = 4096, n_batch = 2048

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   510 |     64 |   16 |   9184 |   20.000 |   408.00 |    6.000 |   170.67 |   26.000 |   353.23 |
|   510 |     64 |   16 |   9184 |   19.000 |   429.47 |    5.500 |   186.18 |   24.500 |   374.86 |

llama_perf_context_print: total time = 1 ms
"""


class MetricsTest(unittest.TestCase):
    def test_keys_are_unique_and_kinds_known(self):
        self.assertEqual(len(METRICS), len(metrics.METRICS))
        self.assertEqual({metric.kind for metric in metrics.METRICS}, {"prefill", "decode", "batch", "requests"})

    def test_a_list_is_taken_in_the_tables_order_and_an_unknown_key_is_named(self):
        self.assertEqual([metric.key for metric in metrics.chosen("batch-4, decode")], ["decode", "batch-4"])
        self.assertEqual(len(metrics.chosen(None)), len(METRICS))
        with self.assertRaisesRegex(ValueError, "no metric 'decod'; there are decode, "):
            metrics.chosen("decod")

    def test_quick_divides_lengths_and_keeps_the_number_of_sequences(self):
        quick = METRICS["requests-16-shared"].quick()
        self.assertEqual((quick.shared_tokens, quick.prompt_tokens, quick.output_tokens, quick.sequences), (63, 2, 8, 16))
        self.assertEqual(METRICS["prefill-512"].quick().output_tokens, 0)


class LlamaTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        for name in llama.PROGRAMS:
            path = pathlib.Path(self.folder.name) / name
            path.touch()
            path.chmod(0o755)
        self.setup = Setup(model="m.gguf", threads=1000, work=pathlib.Path(self.folder.name) / "work")

    def tearDown(self):
        self.folder.cleanup()

    def words(self, engine, key):
        peer = engine(self.setup, self.folder.name)
        peer.prepare()
        return " ".join(peer.command(METRICS[key])).split("llama-b", 1)[1]

    def test_llama_cpp_is_asked_for_depth_and_kv_format(self):
        self.assertEqual(self.words(llama.LlamaCpp, "decode-4k-kv8"),
                         "ench -m m.gguf -t 1000 -fa 1 -o json -p 0 -n 32 -d 4096 -r 2 -ctk q8_0 -ctv q8_0")
        self.assertEqual(self.words(llama.LlamaCpp, "prefill-512"), "ench -m m.gguf -t 1000 -fa 1 -o json -p 512 -n 0 -r 1")

    def test_ik_llama_cpp_repacks_and_spells_depth_in_its_own_way(self):
        self.assertEqual(self.words(llama.IkLlamaCpp, "decode-1k"),
                         "ench -m m.gguf -t 1000 -fa 1 -o json -p 0 -n 0 -gp 1024,64 -r 2 -w 1 -rtr 1")
        self.assertIn("-p 512 -n 0 -r 2 -w 1", self.words(llama.IkLlamaCpp, "prefill-512"))
        self.assertTrue(self.words(llama.IkLlamaCpp, "batch-4").endswith("-npl 4,4 -rtr"))

    def test_a_batch_has_room_for_every_sequence_and_shares_when_asked(self):
        self.assertEqual(self.words(llama.LlamaCpp, "requests-16-shared"),
                         "atched-bench -m m.gguf -t 1000 -fa on -c 12288 -npp 510 -ntg 64 -npl 16,16 -pps")

    def test_the_last_row_of_a_batched_table_counts(self):
        self.assertEqual(llama.batched_tokens_per_s(METRICS["batch-16"], BATCHED), 186.18)
        self.assertAlmostEqual(llama.batched_tokens_per_s(METRICS["requests-16"], BATCHED), 16 * 64 / 24.5)

    def test_a_table_without_rows_is_a_reason_and_not_a_figure(self):
        with self.assertRaisesRegex(NotMeasured, "no row"):
            llama.batched_tokens_per_s(METRICS["batch-16"], "\n".join(BATCHED.splitlines()[:4]))

    def test_the_last_sample_of_llama_bench_counts_after_whatever_is_printed_before(self):
        text = 'load: done\n[ {"build_commit": "abc", "samples_ts": [ 1.5, 2.5 ]} ]\n'
        self.assertEqual(llama.bench_tokens_per_s(text), (2.5, "abc"))
        with self.assertRaisesRegex(NotMeasured, "samples_ts"):
            llama.bench_tokens_per_s("nothing")

    def test_without_a_folder_or_sources_the_reason_names_what_to_give(self):
        with self.assertRaisesRegex(NotMeasured, "no --ik-llama-cpp FOLDER was given"):
            llama.IkLlamaCpp(self.setup, None).prepare()
        with tempfile.TemporaryDirectory() as empty, self.assertRaisesRegex(NotMeasured, "give a checkout"):
            llama.LlamaCpp(self.setup, empty).prepare()

    def test_a_compiler_that_is_named_is_used_and_else_cmake_chooses(self):
        command = sources.configure_command("src", "out", ["-DX=ON"])
        self.assertEqual(command[:7], ["cmake", "-S", "src", "-B", "out", "-DCMAKE_BUILD_TYPE=Release", "-DX=ON"])
        self.assertFalse(any("COMPILER" in word for word in command))
        command = sources.configure_command("src", "out", [], ("/bin/clang-16", "/bin/clang++-16"))
        self.assertEqual(command[-2:], ["-DCMAKE_C_COMPILER=/bin/clang-16", "-DCMAKE_CXX_COMPILER=/bin/clang++-16"])


class OctavoTest(unittest.TestCase):
    def test_int8_kv_is_found_in_the_help_of_the_option_alone(self):
        self.assertTrue(octavo.has_int8_kv("  --compute int8|float32  x\n  --kv-cache-dtype auto|float16|int8\n"))
        self.assertFalse(octavo.has_int8_kv("  --compute int8|float32  x\n  --kv-cache-dtype auto|float16\n"))

    def test_a_command_is_a_word_that_begins_a_line_of_the_help(self):
        self.assertTrue(octavo.has_command("throughput", "Subcommands:\n  throughput    Equal requests\n"))
        self.assertFalse(octavo.has_command("throughput", "  serve   Load on a server: TTFT, throughput\n"))

    def test_the_second_run_counts(self):
        text = '{"decode_tokens_per_s": 1, "runs": [{"decode_tokens_per_s": 3}, {"decode_tokens_per_s": 5}]}'
        self.assertEqual(octavo.tokens_per_s(METRICS["decode"], text), 5)
        with self.assertRaisesRegex(NotMeasured, "output_tokens_per_s"):
            octavo.tokens_per_s(METRICS["requests-16"], text)
        with self.assertRaisesRegex(NotMeasured, "never all decoding"):
            octavo.tokens_per_s(METRICS["batch-4"], '{"runs": [{"decode_tokens_per_s": 0}]}')

    def test_a_metric_becomes_a_bench_command(self):
        setup = Setup(model="m.gguf", threads=1000, work=pathlib.Path("work"))
        words = octavo.Octavo(setup, "octavo").command(METRICS["requests-16-shared"])
        self.assertEqual(" ".join(words), "octavo bench throughput --num-prompts 16 --prefix-len 510 --input-len 2 --output-len 64 "
                                          "--kv-cache-dtype float16 -m m.gguf --threads 1000 --repeat 2 --json")


class FailuresTest(unittest.TestCase):
    def test_lines_that_speak_of_an_error_come_first(self):
        self.assertEqual(first_lines("a\nb\nmodule: Error: no file\nc\n"), "module: Error: no file")
        self.assertEqual(first_lines("a\nb\n\nc\nd\n"), "b / c / d")
        self.assertEqual(first_lines(""), "it printed nothing")

    def test_a_command_that_fails_or_is_not_there_is_a_reason(self):
        with self.assertRaisesRegex(NotMeasured, "sh: exit code 3: oh"):
            run(["sh", "-c", "echo oh >&2; exit 3"])
        with self.assertRaisesRegex(NotMeasured, "No such file"):
            run(["/nonexistent/program"])
        with self.assertRaisesRegex(NotMeasured, "no answer after"):
            run(["sleep", "10"], seconds=0.05)


class EnvironmentsTest(unittest.TestCase):
    def test_requirements_leave_out_extras_and_what_is_named(self):
        required = ["torch==2.13.0+cpu; x", "torchaudio", "numpy", "pyyaml; extra == \"a\"", "Torch_Geometric", "tqdm>=1"]
        self.assertEqual(environments.select(required, ["torch", "torchaudio"]), ["numpy", "tqdm>=1"])


class MachineTest(unittest.TestCase):
    def test_lscpu_is_read_line_by_line(self):
        fields = machine.lscpu_fields("Model name:   A: B\nFlags: avx2 fma\nno colon\n")
        self.assertEqual(fields, {"Model name": "A: B", "Flags": "avx2 fma"})
        self.assertGreater(machine.machine()["cpus"], 0)


if __name__ == "__main__":
    unittest.main()
