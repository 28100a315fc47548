"""`octavo explain` and `octavo run --explain`: what the cache holds of a prompt, block by block."""

import unittest

import program
from program import MODEL, octavo, parse_json, run_json

# 18 words of one token each, as the tokenizer of the default model has it.
WARM = list(range(1000, 1018))


def ids(tokens):
    return ",".join(map(str, tokens))


class ExplainTest(unittest.TestCase):
    def explain(self, *arguments):
        done = octavo("explain", "-m", MODEL, *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return parse_json(done.stdout)

    def outcomes(self, result):
        return [(block["match"], block["num_cached_tokens"], block["reason"])
                for block in result["explanation"]["blocks"]]

    def test_an_empty_cache_has_never_seen_anything(self):
        result = self.explain("--prompt-token-ids", ids(WARM), "--block-size", "8")

        self.assertEqual(result["prompt_token_ids"], WARM)
        self.assertEqual(result["explanation"]["block_size"], 8)
        self.assertEqual(result["explanation"]["num_cached_tokens"], 0)
        self.assertEqual(self.outcomes(result), [("miss", 0, "never_seen")] * 3)
        self.assertEqual([(block["index"], block["first_position"], block["num_tokens"])
                          for block in result["explanation"]["blocks"]], [(0, 0, 8), (1, 8, 8), (2, 16, 2)])

    def test_a_warm_prompt_is_found_and_the_place_where_another_goes_on_is_named(self):
        text = "Once upon a time there was a fox who lived in a wood and liked to eat grapes."
        other = "Once upon a time there was a fox who lived in a house and liked to eat pies every day."
        tokens = [run_json("-p", prompt, "--max-tokens", "1")["prompt_token_ids"] for prompt in (text, other)]
        common = next(i for i, (a, b) in enumerate(zip(*tokens)) if a != b)

        same = self.explain("--warm", text, "-p", text, "--block-size", "8")
        self.assertEqual(same["explanation"]["num_cached_tokens"], len(tokens[0]))

        differs = self.explain("--warm", text, "-p", other, "--block-size", "8")
        self.assertEqual(differs["explanation"]["num_cached_tokens"], common)
        hits, cached = divmod(common, 8)
        blocks = differs["explanation"]["blocks"]
        self.assertEqual([block["match"] for block in blocks[:hits]], ["hit"] * hits)
        self.assertEqual(self.outcomes(differs)[hits], ("partial" if cached else "miss", cached, "tokens_differ"))
        self.assertEqual(blocks[hits]["differs_at"], common)
        self.assertEqual(self.outcomes(differs)[-1], ("miss", 0, "never_seen"))

    def test_without_prefix_caching_every_block_says_so(self):
        result = self.explain("--warm", "Hello there", "-p", "Hello there", "--no-enable-prefix-caching")

        self.assertEqual({block["reason"] for block in result["explanation"]["blocks"]}, {"caching_disabled"})

    def test_what_gave_way_is_evicted(self):
        text = "Once upon a time there was a fox who lived in a wood and liked to eat grapes."
        others = [word for name in ("Anna", "Bert", "Carl", "Dora") for word in ("--warm", f"{name} said: {text}")]
        # 40 tokens: each of the prompts takes 3 of the 5 blocks.
        result = self.explain("--warm", text, *others, "-p", text, "--block-size", "8", "--max-model-len", "40",
                              "--kv-cache-memory-bytes", str(40 * 23040))

        (first, *_) = result["explanation"]["blocks"]
        self.assertEqual((first["match"], first["reason"]), ("miss", "evicted"))
        self.assertGreaterEqual(first["evicted_ms_ago"], 0)
        self.assertLess(first["evicted_ms_ago"], 300_000)

    def test_the_table_has_a_row_for_each_block_and_a_line_that_counts(self):
        done = octavo("explain", "-m", MODEL, "--warm", "one two three", "-p", "one two three four", "--block-size", "8")

        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[0].split(), ["block", "positions", "cached", "outcome", "text"])
        self.assertIn("partial", lines[1])
        self.assertIn('"one two three four"', lines[1])
        self.assertEqual(lines[-1], "3 of 4 tokens cached; blocks: 0 hit, 1 partial, 0 missed")

    def test_a_short_last_block_that_is_cached_as_a_whole_is_a_hit(self):
        done = octavo("explain", "-m", MODEL, "--warm", "one two three", "-p", "one two three", "--block-size", "8")

        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[1].split()[2:4], ["3/3", "hit"])
        self.assertEqual(lines[-1], "3 of 3 tokens cached; blocks: 1 hit, 0 partial, 0 missed")

    def test_a_prompt_that_cannot_run_is_refused_as_run_refuses_it(self):
        for arguments in (("--prompt-token-ids", "1,2,999999"), ("--prompt-token-ids", "1,-1"),
                          ("--prompt-token-ids", ids(WARM), "--max-model-len", "18")):
            with self.subTest(arguments=arguments):
                refused = octavo("explain", "-m", MODEL, *arguments)
                run = octavo("run", "-m", MODEL, *arguments)

                self.assertEqual((refused.returncode, refused.stdout), (2, b""))
                self.assertEqual(refused.stderr, run.stderr.replace("octavo run:", "octavo explain:"))

    def test_a_run_explains_what_it_found(self):
        cold = run_json("--prompt-token-ids", ids(WARM), "--max-tokens", "1", "--explain", "--block-size", "16")
        plain = run_json("--prompt-token-ids", ids(WARM), "--max-tokens", "1")

        self.assertEqual(self.outcomes(cold), [("miss", 0, "never_seen")] * 2)
        self.assertNotIn("explanation", plain)
        shown = octavo("run", "-m", MODEL, "-p", "Hello", "--max-tokens", "1", "--explain")
        self.assertIn("0 of 1 tokens cached", shown.stderr)

    def test_a_warm_prompt_must_be_text(self):
        done = octavo("explain", "-m", MODEL, "--warm", "", "-p", "a")

        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "octavo explain: --warm: the prompt is empty\n")


if __name__ == "__main__":
    program.main()
