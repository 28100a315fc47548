"""What the prefix cache may change: how fast an answer comes, and the count of cached tokens."""

import os

import server
from server import Server, ServerTest, ids

FULL = bool(os.environ.get("OCTAVO_FULL_TESTS"))
OPTIONS = ("--max-model-len", 1024, "--block-size", 16)
_twin = None


def twin():
    """A server without a cache, one request at a time."""
    global _twin
    if _twin is None:
        _twin = Server(*OPTIONS, "--no-enable-prefix-caching", "--max-num-seqs", 1)
    return _twin


def tearDownModule():
    if _twin is not None:
        _twin.stop()


def num_cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


class CacheTest(ServerTest):
    options = OPTIONS
    reported = {"logprobs": 2, "return_token_ids": True, "ignore_eos": True}

    def setUp(self):
        self.assertEqual(self.server.post("/reset_prefix_cache", "").json(), {"success": True})

    def ask(self, prompt, **fields):
        """The choice, and how many tokens of the prompt were cached."""
        choice, answer = self.server.complete(prompt, **{**self.reported, **fields})
        return choice, num_cached(answer)

    def ask_twin(self, prompt, **fields):
        choice, answer = twin().complete(prompt, **{**self.reported, **fields})
        self.assertEqual(num_cached(answer), 0)
        return choice


class ReuseTest(CacheTest):
    def test_a_cold_answer_and_four_warm_ones_are_those_without_a_cache(self):
        """A1"""
        num_tokens = 48 if FULL else 8
        for length in (15, 16, 17, 31, 32, 33, 64, 65):
            with self.subTest(length=length):
                prompt = ids(length, 500 * length)
                expected = self.ask_twin(prompt, max_tokens=num_tokens)
                for run in range(5 if FULL else 3):
                    choice, cached = self.ask(prompt, max_tokens=num_tokens)
                    self.assertEqual(choice, expected)
                    self.assertEqual(cached, length - 1 if run else 0)

    def test_five_long_greedy_answers_are_one(self):
        """A1"""
        expected = self.ask_twin(ids(64), max_tokens=48)
        for run in range(5):
            choice, cached = self.ask(ids(64), max_tokens=48)
            self.assertEqual(choice, expected)
            self.assertEqual(cached, 63 if run else 0)

    def test_an_answer_with_logprobs_of_its_prompt_is_the_same_warm_and_cold(self):
        """A1: they need the logits of every token, and so what is cached may not be skipped."""
        fields = {"prompt_logprobs": 1, "max_tokens": 2}
        expected = self.ask_twin(ids(40), **fields)
        for _ in range(2):
            self.assertEqual(self.ask(ids(40), **fields)[0], expected)

    def test_every_beginning_of_a_cached_prompt_is_answered_as_on_a_fresh_server(self):
        """A3"""
        text = "Here is a joke. Z Z Z Z Z Z Z Z"
        tokens = self.server.post("/tokenize", {"prompt": text}).json()["tokens"]
        self.ask(tokens, max_tokens=1)
        for length in range(1, len(tokens) + 1):
            with self.subTest(length=length):
                choice, cached = self.ask(tokens[:length], max_tokens=8 if FULL else 3)
                expected = self.ask_twin(tokens[:length], max_tokens=8 if FULL else 3)
                self.assertEqual(choice, expected)
                self.assertEqual(cached, length - 1)

    def test_the_joke_without_its_tail_is_told_as_on_a_fresh_server(self):
        """A3"""
        self.ask("Here is a joke. Z Z Z Z Z Z Z Z", max_tokens=1)
        choice, cached = self.ask("Here is a joke.", max_tokens=8)
        self.assertEqual(choice, self.ask_twin("Here is a joke.", max_tokens=8))
        self.assertEqual(cached, len(choice["prompt_token_ids"]) - 1)

    def test_a_prompt_that_goes_on_where_a_former_answer_ended_reuses_the_answer(self):
        """A conversation's next turn: all but the last token of the answer was computed."""
        first, _ = self.ask(ids(20), max_tokens=12)
        prompt = ids(20) + first["token_ids"] + ids(5, 7000)
        choice, cached = self.ask(prompt, max_tokens=8)
        self.assertEqual(cached, 20 + 12 - 1)
        self.assertEqual(choice, self.ask_twin(prompt, max_tokens=8))

    def test_penalties_see_the_cached_part_of_the_prompt_too(self):
        """A5"""
        prompt = (ids(10) + ids(10, 5000)) * 2
        for fields in ({"repetition_penalty": 1.3},
                       {"repetition_penalty": 1.3, "temperature": 0.8, "seed": 4},
                       {"presence_penalty": 1.5, "frequency_penalty": 1.5}):
            with self.subTest(fields=fields):
                self.setUp()
                expected = self.ask_twin(prompt, max_tokens=16, **fields)
                cold, num_cold = self.ask(prompt, max_tokens=16, **fields)
                warm, num_warm = self.ask(prompt, max_tokens=16, **fields)
                self.setUp()
                self.ask(prompt[:20] + ids(3, 9000), max_tokens=1)
                half, num_half = self.ask(prompt, max_tokens=16, **fields)
                self.assertEqual((num_cold, num_warm, num_half), (0, 39, 20))
                for choice in (cold, warm, half):
                    self.assertEqual(choice, expected)

    def test_a_penalty_changes_the_answer_at_all(self):
        """A5, that the test above compares something."""
        prompt = (ids(10) + ids(10, 5000)) * 2
        self.assertNotEqual(self.ask(prompt, max_tokens=16)[0]["text"],
                            self.ask(prompt, max_tokens=16, repetition_penalty=1.3)[0]["text"])

    def test_a_grammar_begins_anew_on_a_warm_prompt(self):
        """A5"""
        fields = {"structured_outputs": {"regex": "[a-z]{4}-[0-9]{3}"}, "max_tokens": 24,
                  "ignore_eos": False}
        expected = self.ask_twin(ids(40), **fields)
        for _ in range(2):
            self.assertEqual(self.ask(ids(40), **fields)[0], expected)


class CollisionTest(CacheTest):
    """B1"""

    tail = ids(1, 4242)

    def assert_shares(self, prompt, other, num_shared):
        self.setUp()
        self.ask(prompt + self.tail, max_tokens=4)
        choice, cached = self.ask(other + self.tail, max_tokens=4)
        self.assertEqual(cached, num_shared)
        self.assertEqual(choice, self.ask_twin(other + self.tail, max_tokens=4))
        choice, cached = self.ask(prompt + self.tail, max_tokens=4)
        self.assertEqual(cached, 16)
        self.assertEqual(choice, self.ask_twin(prompt + self.tail, max_tokens=4))

    def changed(self, **changes):
        prompt = ids(16, 2000)
        for place, change in changes.items():
            prompt[int(place[1:])] += change
        return prompt

    def test_twins_of_a_polynomial_hash_share_only_what_is_equal(self):
        for changes in ({"_4": 31, "_5": -1}, {"_4": 1, "_5": -31}):
            with self.subTest(changes=changes):
                self.assert_shares(ids(16, 2000), self.changed(**changes), 4)

    def test_twins_of_sums_share_only_what_is_equal(self):
        swapped = ids(16, 2000)
        swapped[7], swapped[12] = swapped[12], swapped[7]
        self.assert_shares(ids(16, 2000), swapped, 7)
        self.assert_shares(ids(16, 2000), self.changed(_3=5, _9=-5), 3)

    def test_prompts_that_differ_in_their_first_token_share_nothing(self):
        self.assert_shares(ids(16, 2000), self.changed(_0=1), 0)

    def test_a_block_of_the_same_tokens_at_another_place_is_another_block(self):
        block, other = ids(16, 2000), ids(16, 3000)
        self.ask(block + other + self.tail, max_tokens=1)
        choice, cached = self.ask(other + self.tail, max_tokens=4)
        self.assertEqual(cached, 0)
        self.assertEqual(choice, self.ask_twin(other + self.tail, max_tokens=4))


class SaltTest(CacheTest):
    """B3"""

    def time_to_first_token(self, prompt, salt):
        answer = self.server.post("/v1/completions", {
            "prompt": prompt, "max_tokens": 1, "cache_salt": salt, "include_metrics": True})
        self.assertEqual(answer.status, 200, answer.body)
        answer = answer.json()
        return answer["metrics"]["time_to_first_token_ms"], num_cached(answer)

    def test_another_salt_finds_nothing_and_the_same_one_everything(self):
        prompt = ids(512)
        count = 200 if FULL else 6
        _, cached = self.time_to_first_token(prompt, "s1")
        self.assertEqual(cached, 0)
        probes, cold = [], []
        for i in range(count):
            # A probe with one salt again and again would find what it has computed itself.
            time, cached = self.time_to_first_token(prompt, f"s2-{i}")
            self.assertEqual(cached, 0)
            probes.append(time)
            time, cached = self.time_to_first_token(ids(512, 2000 + 600 * (i % 60)), f"cold-{i}")
            self.assertEqual(cached, 0)
            cold.append(time)
            if i < 6:  # later, all these prompts have driven it out
                self.assertEqual(self.time_to_first_token(prompt, "s1")[1], 511)
        wins = sum((p < c) + (p == c) / 2 for p in probes for c in cold)
        print(f"AUC of {count} probes against {count} cold prompts: {wins / count**2:.3f}")

    def test_a_salt_is_not_the_absence_of_one(self):
        prompt = ids(48)
        self.ask(prompt, max_tokens=1)
        self.assertEqual(self.ask(prompt, max_tokens=1, cache_salt="s")[1], 0)
        self.assertEqual(self.ask(prompt, max_tokens=1, cache_salt="s")[1], 47)
        self.assertEqual(self.ask(prompt, max_tokens=1)[1], 47)

    def test_salts_that_begin_alike_are_different_salts(self):
        prompt = ids(48)
        for salt in ("s", "s\0", "ss", "S", "s/", "/s", "s ", "\u00e9", "e\u0301", "x" * 1024):
            with self.subTest(salt=salt):
                self.assertEqual(self.ask(prompt, max_tokens=1, cache_salt=salt)[1], 0)
                self.assertEqual(self.ask(prompt, max_tokens=1, cache_salt=salt)[1], 47)

    def test_a_salt_changes_no_answer(self):
        choice, _ = self.ask(ids(40), max_tokens=8, cache_salt="s1")
        self.assertEqual(choice, self.ask_twin(ids(40), max_tokens=8))

    def test_conversations_are_kept_apart_too(self):
        usages = [num_cached(self.server.chat("Hello there!", max_tokens=1, cache_salt=salt)[1])
                  for salt in ("s1", "s2", "s1")]
        self.assertEqual(usages[:2], [0, 0])
        self.assertGreater(usages[2], 0)

    def test_what_is_no_salt_is_refused(self):
        for path, body in (("/v1/completions", {"prompt": ids(4)}),
                           ("/v1/chat/completions",
                            {"messages": [{"role": "user", "content": "Hi"}]})):
            for salt in ("", 1, 1.5, True, False, [], ["s"], {}, "x" * 1025):
                with self.subTest(path=path, salt=salt):
                    answer = self.server.post(path, {**body, "cache_salt": salt, "max_tokens": 1})
                    self.assert_refused(answer, param="cache_salt")


class KeySaltTest(CacheTest):
    """B3: clients with keys of their own have caches of their own, whatever their salts."""

    options = OPTIONS + ("--api-key", "one", "--api-key", "two", "--admin-api-key", "root")

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options)

    def setUp(self):
        pass

    def tearDown(self):
        self.server.wait_until(self.server.is_idle)

    def cached(self, prompt, key, **fields):
        body = {"prompt": prompt, "max_tokens": 1, **fields}
        answer = self.server.post("/v1/completions", body,
                                  headers={"Authorization": f"Bearer {key}"})
        self.assertEqual(answer.status, 200, answer.body)
        return num_cached(answer.json())

    def test_another_key_finds_nothing_and_the_same_one_everything(self):
        prompt = ids(48)
        self.assertEqual([self.cached(prompt, key) for key in ("one", "two", "one", "two")],
                         [0, 0, 47, 47])

    def test_the_same_salt_under_two_keys_is_two_salts(self):
        prompt = ids(48, 3000)
        got = [self.cached(prompt, key, cache_salt="s") for key in ("one", "two", "one", "two")]
        self.assertEqual(got, [0, 0, 47, 47])

    def test_without_salts_of_their_own_keys_share_what_they_compute(self):
        prompt = ids(48)
        with Server(*self.options, "--no-salt-by-key") as self.server:
            got = [self.cached(prompt, key) for key in ("one", "two")]
        self.server = type(self).server
        self.assertEqual(got, [0, 47])


if __name__ == "__main__":
    server.main()
