"""`octavo run`: the JSON's shape, which is a promise, and what the options do to it."""

import math
import re
import unittest

import program
from program import MODEL, octavo, parse_json, run_json

GREEDY = ("--temperature", "0")
PROMPT = "The capital of France is"


class RunTest(unittest.TestCase):
    def test_the_object_has_every_field_it_promises(self):
        result = run_json("-p", PROMPT, *GREEDY, "--max-tokens", "4")

        self.assertIsInstance(result["model"], str)
        self.assertEqual(result["prompt_token_ids"], [504, 3575, 282, 4649, 314])
        (output,) = result["outputs"]
        self.assertEqual(set(output), {"index", "text", "token_ids", "finish_reason", "stop_reason"})
        self.assertEqual(output["index"], 0)
        self.assertTrue(output["text"].startswith(" Paris"), output["text"])
        self.assertEqual(len(output["token_ids"]), 4)
        self.assertEqual((output["finish_reason"], output["stop_reason"]), ("length", None))
        self.assertEqual(result["usage"], {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9,
                                           "prompt_tokens_details": {"cached_tokens": 0}})
        self.assertEqual(set(result["timing"]), {"load_s", "prefill_s", "ttft_s", "decode_s", "prefill_tokens_per_s",
                                                 "decode_tokens_per_s"})
        self.assertTrue(all(value > 0 for value in result["timing"].values()), result["timing"])
        self.assertEqual((result["num_preemptions"], result["max_model_len"]), (0, 8192))
        tags = ["weights", "kv_cache", "activations", "tokenizer", "scratch", "other"]
        self.assertEqual(result["memory"]["total"], sum(result["memory"][tag] for tag in tags))
        self.assertGreater(result["memory"]["weights"], 90_000_000)

    def test_a_rate_of_nothing_is_null(self):
        result = run_json("-p", PROMPT, *GREEDY, "--max-tokens", "1")

        self.assertIsNone(result["timing"]["decode_tokens_per_s"])
        self.assertGreater(result["timing"]["prefill_tokens_per_s"], 0)

    def test_a_context_that_memory_shortens_is_noted_unless_it_was_asked_for(self):
        small = ("-m", MODEL, "-p", PROMPT, "--kv-cache-memory-bytes", str(64 * 23040))
        note = "the context is 64 tokens, not the model's 8192: the block pool holds no more\n"

        shown = octavo("run", *small, *GREEDY, "--max-tokens", "1", "--json")
        self.assertEqual(shown.stderr, "octavo run: " + note)
        self.assertEqual(parse_json(shown.stdout)["max_model_len"], 64)
        self.assertEqual(octavo("explain", *small).stderr, "octavo explain: " + note)
        self.assertNotIn("not the model's", octavo("run", *small, "--max-model-len", "64", "--max-tokens", "1").stderr)

    def test_a_limit_on_the_address_space_is_a_limit_on_memory(self):
        limited = ("prlimit", f"--as={2 << 30}")
        if octavo("--version", prefix=limited).returncode != 0:
            self.skipTest("this build needs more address space by itself")
        run = ("run", "-m", MODEL, "-p", PROMPT, "--max-tokens", "1", "--threads", "2")
        self.assertEqual(octavo(*run, "--kv-cache-memory-bytes", str(64 << 20), prefix=limited).returncode, 0)

        refused = octavo(*run, "--kv-cache-memory-bytes", str(64 << 30), prefix=limited)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("2 x 30 layers x 3 KV heads x 64 x 2 bytes a token", refused.stderr)
        advised = re.search(r"may be at most (\d+), for", refused.stderr)
        if advised is None:
            return  # so many processors that their threads leave nothing
        # A little less: what is mapped already varies from process to process.
        fitting = octavo(*run, "--kv-cache-memory-bytes", str(int(advised.group(1)) - (16 << 20)), prefix=limited)
        self.assertEqual(fitting.returncode, 0, fitting.stderr)

    def test_int8_kv_has_two_names_and_takes_11880_bytes_a_token(self):
        greedy = ("-p", PROMPT, *GREEDY, "--max-tokens", "4")
        results = [run_json(*greedy, "--kv-cache-dtype", name) for name in ("int8", "int8_per_token_head")]

        self.assertEqual(results[0]["outputs"], results[1]["outputs"])
        for result in results:
            self.assertEqual(result["memory"]["kv_bytes_per_token"], 11880)
        padded = run_json(*greedy, "--kv-cache-dtype", "int8", "--block-size", "8")
        self.assertEqual(padded["memory"]["kv_bytes_per_token"], 12240)
        self.assertEqual(padded["outputs"], results[0]["outputs"])

    def test_logprobs_are_parallel_arrays(self):
        result = run_json("-p", PROMPT, *GREEDY, "--max-tokens", "3", "--logprobs", "2", "--prompt-logprobs", "1")

        logprobs = result["outputs"][0]["logprobs"]
        self.assertEqual(set(logprobs), {"tokens", "token_ids", "token_logprobs", "top_logprobs", "top_token_ids",
                                         "text_offset"})
        self.assertEqual(logprobs["token_ids"], result["outputs"][0]["token_ids"])
        self.assertEqual("".join(logprobs["tokens"]), result["outputs"][0]["text"])
        for position, chosen in enumerate(logprobs["token_logprobs"]):
            top = logprobs["top_logprobs"][position]
            self.assertEqual(len(top), 2)
            self.assertEqual(chosen, max(top.values()))  # greedy
            self.assertLess(sum(map(math.exp, top.values())), 1.0 + 1e-6)
            self.assertEqual(logprobs["text_offset"][position], len("".join(logprobs["tokens"][:position])))
        prompt = result["prompt_logprobs"]
        self.assertEqual(prompt["token_ids"], result["prompt_token_ids"])
        self.assertIsNone(prompt["token_logprobs"][0])
        self.assertTrue(all(value < 0 for value in prompt["token_logprobs"][1:]))

    def test_all_logprobs_sum_to_one(self):
        result = run_json("-p", PROMPT, *GREEDY, "--max-tokens", "1", "--logprobs", "-1")

        self.assertEqual(len(result["outputs"][0]["logprobs"]["top_token_ids"][0]), 49152)
        total = sum(map(math.exp, result["outputs"][0]["logprobs"]["top_logprobs"][0].values()))
        self.assertAlmostEqual(total, 1.0, places=3)  # a few spellings occur twice

    def test_a_prompt_is_the_same_as_text_file_and_ids(self):
        arguments = (*GREEDY, "--max-tokens", "6")
        from_text = run_json("-p", PROMPT, *arguments)
        from_stdin = run_json("--prompt-file", "-", *arguments, stdin=PROMPT.encode())
        ids = ",".join(map(str, from_text["prompt_token_ids"]))
        from_ids = run_json("--prompt-token-ids", ids, *arguments)

        self.assertEqual(from_text["outputs"], from_stdin["outputs"])
        self.assertEqual(from_text["outputs"], from_ids["outputs"])

    def test_chat_uses_the_template_and_ends_by_itself(self):
        result = run_json("--chat", "-p", "Say hello.", *GREEDY, "--max-tokens", "60")

        self.assertEqual(result["prompt_token_ids"][0], 1)  # <|im_start|>
        self.assertEqual((result["outputs"][0]["finish_reason"], result["outputs"][0]["stop_reason"]), ("stop", None))
        self.assertNotIn("<|im_end|>", result["outputs"][0]["text"])

    def test_stop_strings_and_ids_say_what_stopped(self):
        plain = run_json("-p", PROMPT, *GREEDY, "--max-tokens", "8")["outputs"][0]
        by_text = run_json("-p", PROMPT, *GREEDY, "--max-tokens", "8", "--stop", "zzz", "--stop", "aris")["outputs"][0]
        kept = run_json("-p", PROMPT, *GREEDY, "--max-tokens", "8", "--stop", "aris",
                        "--include-stop-str-in-output")["outputs"][0]
        second = plain["token_ids"][1]
        by_id = run_json("-p", PROMPT, *GREEDY, "--max-tokens", "8", "--stop-token-ids", f"5,{second}")["outputs"][0]

        self.assertEqual((by_text["text"], by_text["finish_reason"], by_text["stop_reason"]), (" P", "stop", "aris"))
        self.assertEqual(kept["text"], " Paris")
        self.assertEqual((by_id["finish_reason"], by_id["stop_reason"]), ("stop", second))

    def test_a_bias_of_100_makes_a_token_win(self):
        result = run_json("-p", PROMPT, *GREEDY, "--max-tokens", "2", "--logit-bias", "1000=100")

        self.assertEqual(result["outputs"][0]["token_ids"], [1000, 1000])

    def test_a_seed_repeats_a_sample(self):
        arguments = ("-p", "Once upon a time", "--max-tokens", "12")
        first = run_json(*arguments, "--seed", "11")
        again = run_json(*arguments, "--seed", str(first["seed"]))
        other = run_json(*arguments, "--seed", "12")

        self.assertEqual(first["outputs"], again["outputs"])
        self.assertNotEqual(first["outputs"], other["outputs"])

    def test_a_drawn_seed_is_reported_and_repeats_the_sample(self):
        first = run_json("-p", "Once upon a time", "--max-tokens", "6")
        again = run_json("-p", "Once upon a time", "--max-tokens", "6", "--seed", str(first["seed"]))

        self.assertEqual(first["outputs"], again["outputs"])

    def test_each_of_n_completions_has_its_index_and_draws_of_its_own(self):
        arguments = ("-p", "Once upon a time", "--max-tokens", "8", "--seed", "5", "-n", "3")
        outputs = run_json(*arguments)["outputs"]

        self.assertEqual([output["index"] for output in outputs], [0, 1, 2])
        self.assertEqual(len({tuple(output["token_ids"]) for output in outputs}), 3)
        self.assertEqual(run_json(*arguments)["outputs"], outputs)

    def test_n_completions_are_shown_under_headings(self):
        arguments = ("-p", "Once upon a time", *GREEDY, "--max-tokens", "5")
        text = run_json(*arguments)["outputs"][0]["text"]
        shown = octavo("run", "-m", MODEL, *arguments, "-n", "2")

        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(shown.stdout.decode(), f"--- 1 of 2 (length) ---\n{text}\n--- 2 of 2 (length) ---\n{text}\n")
        self.assertIn("output 10 tokens", shown.stderr)

    def test_beams_are_different_and_the_best_is_at_least_as_likely_as_the_greedy_answer(self):
        arguments = ("-p", PROMPT, "--max-tokens", "6", "--ignore-eos")
        greedy = run_json(*arguments, *GREEDY, "--logprobs", "0")["outputs"][0]
        beams = run_json(*arguments, "--beam-width", "4", "--logprobs", "0")["outputs"]

        self.assertEqual(len({tuple(beam["token_ids"]) for beam in beams}), 4)
        scores = [beam["cumulative_logprob"] for beam in beams]
        self.assertEqual(scores, sorted(scores, reverse=True))  # of equal lengths
        self.assertGreaterEqual(scores[0], greedy["cumulative_logprob"] - 1e-4)
        for beam in beams:
            self.assertAlmostEqual(sum(beam["logprobs"]["token_logprobs"]), beam["cumulative_logprob"], places=3)

    def test_engine_options_never_change_the_answer(self):
        arguments = ("-p", "Once upon a time", "--seed", "3", "--max-tokens", "8", "-n", "2")
        plain = run_json(*arguments)["outputs"]
        for options in (("--no-enable-prefix-caching",),
                        ("--eviction-policy", "lru", "--max-num-seqs", "2"),
                        ("--eviction-policy", "cost_aware", "--scheduling-policy", "priority", "--max-pinned-share", "0",
                         "--swap-space-bytes", "4000000")):
            with self.subTest(options=options):
                self.assertEqual(run_json(*arguments, *options)["outputs"], plain)

    def test_streamed_text_equals_the_object_s(self):
        arguments = ("-p", "Translate to Chinese: hello", *GREEDY, "--max-tokens", "24")
        streamed = octavo("run", "-m", MODEL, *arguments)

        self.assertEqual(streamed.returncode, 0)
        self.assertEqual(streamed.stdout.decode(), run_json(*arguments)["outputs"][0]["text"] + "\n")
        self.assertIn("output 24 tokens", streamed.stderr)


if __name__ == "__main__":
    program.main()
