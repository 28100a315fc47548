"""Bad input gets one line that names the option or file, the value and the limit; 2 for usage, 1 for failure."""

import os
import tempfile
import unittest

import program
from program import MODEL, octavo


class BadInputTest(unittest.TestCase):
    def refused(self, exit_code, words, *arguments, stdin=b""):
        done = octavo(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("octavo"), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def run_refused(self, exit_code, words, *arguments, stdin=b""):
        self.refused(exit_code, words, "run", "-m", MODEL, *arguments, stdin=stdin)

    def test_sampling_parameters_out_of_range(self):
        for option, value, words in [
            ("--temperature", "-1", ["--temperature", "-1", "0"]),
            ("--temperature", "nan", ["--temperature", "nan"]),
            ("--temperature", "inf", ["--temperature", "inf"]),
            ("--top-p", "0", ["--top-p", "0"]),
            ("--top-p", "1.5", ["--top-p", "1.5"]),
            ("--top-k", "-5", ["--top-k", "-5"]),
            ("--min-p", "2", ["--min-p", "2", "1"]),
            ("--repetition-penalty", "0", ["--repetition-penalty", "0"]),
            ("--presence-penalty", "3", ["--presence-penalty", "3", "2"]),
            ("--frequency-penalty", "-3", ["--frequency-penalty", "-3", "-2"]),
            ("--max-tokens", "0", ["--max-tokens", "0", "1"]),
            ("--min-tokens", "-1", ["--min-tokens", "-1"]),
            ("--logit-bias", "5=nan", ["logit_bias", "5", "nan"]),
            ("--logit-bias", "-1=1", ["logit_bias", "-1"]),
            ("--stop", "", ["stop"]),
            ("-n", "0", ["n is 0", "128"]),
            ("-n", "129", ["n is 129", "128"]),
            ("--beam-width", "0", ["--beam-width", "0", "64"]),
            ("--beam-width", "65", ["--beam-width", "65", "64"]),
        ]:
            with self.subTest(option=option, value=value):
                self.run_refused(2, words, "-p", "a", option, value)

    def test_options_of_a_beam_search(self):
        self.run_refused(2, ["-n", "--beam-width"], "-p", "a", "-n", "2", "--beam-width", "2")
        self.run_refused(2, ["--length-penalty", "--beam-width"], "-p", "a", "--length-penalty", "1")
        self.run_refused(2, ["--length-penalty", "11", "10"], "-p", "a", "--beam-width", "2", "--length-penalty", "11")

    def test_engine_options_out_of_range(self):
        for option, value, words in [
            ("--max-num-seqs", "0", ["--max-num-seqs", "0", "4096"]),
            ("--max-pinned-share", "1.5", ["--max-pinned-share", "1.5"]),
            ("--swap-space-bytes", "-1", ["--swap-space-bytes", "-1"]),
        ]:
            with self.subTest(option=option, value=value):
                self.run_refused(2, words, "-p", "a", option, value)

    def test_values_that_are_not_numbers_or_choices(self):
        for option, value in [
            ("--temperature", "warm"),
            ("--top-k", "5x"),
            ("--max-tokens", "99999999999"),
            ("--seed", "-1"),
            ("--logit-bias", "5"),
            ("--stop-token-ids", "1,,2"),
            ("--simd", "mmx"),
            ("--kv-cache", "lazy"),
            ("--kv-cache-dtype", "fp64"),
            ("--compute", "int2"),
            ("--eviction-policy", "fifo"),
            ("--scheduling-policy", "sjf"),
            ("--max-num-seqs", "many"),
            ("--swap-space-bytes", "2G"),
        ]:
            with self.subTest(option=option, value=value):
                self.run_refused(2, [option, value.split(",")[0]], "-p", "a", option, value)

    def test_engine_options_out_of_range(self):
        for option, value, words in [
            ("--block-size", "17", ["--block-size", "17", "256"]),
            ("--threads", "0", ["--threads", "0", "1"]),
            ("--threads", "100000", ["--threads", "100000", "256"]),
            ("--max-num-batched-tokens", "0", ["--max-num-batched-tokens", "0"]),
            ("--max-model-len", "0", ["--max-model-len", "0"]),
            ("--gpu-memory-utilization", "0", ["--gpu-memory-utilization", "0", "1"]),
            ("--gpu-memory-utilization", "1.1", ["--gpu-memory-utilization", "1.1"]),
            ("--gpu-memory-utilization", "nan", ["--gpu-memory-utilization", "nan"]),
            ("--kv-cache-memory-bytes", "-1", ["--kv-cache-memory-bytes", "-1"]),
        ]:
            with self.subTest(option=option, value=value):
                self.run_refused(2, words, "-p", "a", option, value)

    def test_files_that_are_folders_or_do_not_exist(self):
        for option in ("--json-schema", "--grammar", "--prompt-file"):
            for path, words in (("/", ["directory"]), ("nofile", ["nofile", "No such file"])):
                prompt = () if option == "--prompt-file" else ("-p", "a")
                with self.subTest(option=option, path=path):
                    self.run_refused(1, words, *prompt, option, path)

    def test_a_template_that_nothing_uses(self):
        self.run_refused(2, ["--chat-template", "--chat"], "-p", "a", "--chat-template", "nofile")

    def test_prompts_that_are_none(self):
        self.run_refused(2, ["-p", "empty"], "-p", "")
        self.run_refused(2, ["standard input", "empty"], "--prompt-file", "-")
        self.run_refused(2, ["-p", "--prompt-file", "--prompt-token-ids"])
        self.run_refused(2, ["-p", "--prompt-file"], "-p", "a", "--prompt-file", "-")
        self.run_refused(2, ["--prompt-token-ids"], "--prompt-token-ids", "")
        self.run_refused(2, ["--prompt-token-ids", "x"], "--prompt-token-ids", "1,x")
        self.run_refused(1, ["/nonexistent"], "--prompt-file", "/nonexistent")

    def test_prompts_that_are_not_utf8_name_the_byte(self):
        self.run_refused(2, ["-p", "0xff", "offset 1", "UTF-8"], "-p", b"a\xff")
        self.run_refused(2, ["standard input", "0xc0"], "--prompt-file", "-", stdin=b"\xc0\xaf")
        with tempfile.NamedTemporaryFile() as file:
            file.write("日本".encode()[:4])
            file.flush()
            self.run_refused(2, [file.name, "offset 3"], "--prompt-file", file.name)

    def test_lengths_to_measure_that_are_none(self):
        for value in ("", "64,,128", "1x", "1"):
            with self.subTest(value=value):
                self.refused(2, ["--lengths", value[:2].rstrip(",")], "bench", "cache", "-m", MODEL, "--lengths", value)

    def test_a_bench_says_what_it_needs_before_it_prints_anything(self):
        bench = ("-m", MODEL, "--threads", "1")
        for name, words, arguments in [
            ("cache", ["--lengths", "9000", "8176"], ["--lengths", "64,9000"]),
            ("cache", ["--kv-cache", "octavo bench cache --help"], ["--kv-cache", "none"]),
            ("latency", ["--repeat", "octavo bench latency --help"], ["--repeat", "x"]),
            ("throughput", ["--num-prompts", "0", "1"], ["--num-prompts", "0"]),
            ("throughput", ["--prefix-len", "-1", "0"], ["--prefix-len", "-1"]),
            ("throughput", ["--input-len", "9074", "--max-model-len", "8192"], ["--prefix-len", "9000", "--input-len", "10"]),
            ("batching", ["--max-model-len", "1023", "1024"], ["--max-model-len", "1023"]),
            ("batching", ["--kv-cache", "octavo bench batching --help"], ["--kv-cache", "contiguous"]),
            ("batching", ["--max-num-seqs", "octavo bench batching --help"], ["--max-num-seqs", "4"]),
        ]:
            with self.subTest(name=name, arguments=arguments):
                self.refused(2, [f"octavo bench {name}: ", *words], "bench", name, *bench, *arguments)

    def test_beams_without_prompt_logprobs(self):
        self.run_refused(2, ["--prompt-logprobs", "--beam-width"], "-p", "a", "--beam-width", "2", "--prompt-logprobs",
                         "0", "--json")

    def test_token_ids_outside_the_vocabulary(self):
        self.run_refused(2, ["49152"], "--prompt-token-ids", "1,49152")
        self.run_refused(2, ["-1"], "--prompt-token-ids", "1,-1")
        self.run_refused(2, ["logit_bias", "49152"], "-p", "a", "--logit-bias", "49152=1")

    def test_a_prompt_longer_than_the_context_is_never_cut(self):
        self.run_refused(2, ["10", "max_model_len", "5"], "-p", "a b c d e f g h i j", "--max-model-len", "5")

    def test_logprobs(self):
        self.run_refused(2, ["--json"], "-p", "a", "--logprobs", "1")
        self.run_refused(2, ["logprobs", "-2"], "-p", "a", "--logprobs", "-2", "--json")
        self.run_refused(2, ["logprobs", "49153"], "-p", "a", "--logprobs", "49153", "--json")

    def test_model_files_that_are_none(self):
        run = ("run", "-p", "a", "-m")
        self.refused(1, ["/nonexistent.gguf"], *run, "/nonexistent.gguf")
        self.refused(1, ["/etc/passwd", "GGUF"], *run, "/etc/passwd")
        self.refused(1, ["/etc"], *run, "/etc")
        self.refused(1, ["/dev/zero"], *run, "/dev/zero")
        self.refused(1, ["a b", "cannot open"], *run, "a\rb")
        self.refused(2, ["--model", "empty"], *run, "")
        with tempfile.NamedTemporaryFile() as file:
            self.refused(1, [file.name, "empty"], *run, file.name)
            self.refused(1, [file.name + "/below"], *run, file.name + "/below")
            with open(MODEL, "rb") as model:
                file.write(model.read(1_000_000))
            file.flush()
            self.refused(1, [file.name], *run, file.name)
            self.refused(1, [file.name], "inspect", file.name)
            self.refused(1, [file.name], "tokenize", "-m", file.name)

    def test_no_model_says_how_to_get_one(self):
        with tempfile.TemporaryDirectory() as empty:
            environment = {k: v for k, v in os.environ.items() if k != "OCTAVO_MODEL"}
            environment["XDG_CACHE_HOME"] = empty
            done = octavo("run", "-p", "a", environment=environment)
        self.assertEqual(done.returncode, 1)
        self.assertIn("scripts/fetch-model", done.stderr)

    def test_too_little_memory_for_the_pool(self):
        self.run_refused(1, ["kv_cache_memory_bytes", "1000"], "-p", "a", "--kv-cache-memory-bytes", "1000")
        self.run_refused(1, ["memory limit"], "-p", "a", "--gpu-memory-utilization", "0.0001")

    def test_commands_and_options_that_do_not_exist(self):
        self.refused(2, ["fly", "run"], "fly")
        self.refused(2, ["--help"])
        self.refused(2, ["--fly"], "run", "--fly")
        self.refused(2, ["--stop"], "run", "-p", "a", "--stop")


if __name__ == "__main__":
    program.main()
