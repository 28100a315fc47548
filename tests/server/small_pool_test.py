"""A block pool that is too small for all who come: nothing leaks, hangs or changes an answer."""

import concurrent.futures
import functools
import os
import random

import server
from server import Server, ServerTest, ids

FULL = bool(os.environ.get("OCTAVO_FULL_TESTS"))
BLOCK_BYTES = 16 * 23_040  # 16 tokens in float16


def pool_of(num_blocks):
    return ("--block-size", 16, "--kv-cache-memory-bytes", num_blocks * BLOCK_BYTES)


class SmallPoolTest(ServerTest):
    """What the tests of this file do."""

    def all_at_once(self, bodies):
        """The answers, in order."""
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as clients:
            return list(clients.map(lambda body: self.server.post("/v1/completions", body), bodies))

    def num_preemptions(self):
        return self.server.metrics()["vllm:num_preemptions_total"]

    def assert_everything_comes_back(self, seed):
        """C1: many requests whose last tokens lie before, on and after the end of a block."""
        source = random.Random(seed)
        count = 2000 if FULL else 64
        bodies = [{"prompt": [source.randrange(1000, 40_000) for _ in range(source.randint(1, 48))],
                   "max_tokens": source.randint(1, 20), "ignore_eos": True}
                  for _ in range(count)]
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            answers = clients.map(lambda body: self.server.post("/v1/completions", body), bodies)
            for body, answer in zip(bodies, answers):
                self.assertEqual(answer.status, 200, (seed, answer.body))
                usage = answer.json()["usage"]
                self.assertEqual(usage["completion_tokens"], body["max_tokens"], seed)
        self.server.wait_until(self.server.is_idle)


class WithoutCacheTest(SmallPoolTest):
    options = pool_of(40) + ("--max-model-len", 128, "--no-enable-prefix-caching")

    def test_no_block_stays_behind_whatever_the_lengths(self):
        """C1. 40 blocks: a block lost per request would stop the server soon."""
        before = self.server.kv_blocks()
        self.assertEqual(before, {"used": 0, "cached": 0, "free": 40})
        self.assert_everything_comes_back(seed=1)
        self.assertEqual(self.server.kv_blocks(), before)

    def test_the_same_prompt_is_never_found_in_a_cache_that_is_off(self):
        for _ in range(2):
            _, answer = self.server.complete(ids(40), max_tokens=1)
            self.assertEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_the_metrics_do_not_say_that_the_cache_is_on(self):
        info = [name for name in self.server.metrics() if name.startswith("vllm:cache_config_info")]
        self.assertEqual(len(info), 1)
        self.assertIn('num_gpu_blocks="40"', info[0])
        self.assertNotIn('enable_prefix_caching="True"', info[0])


class WithCacheTest(SmallPoolTest):
    options = pool_of(40) + ("--max-model-len", 128)

    def test_every_block_is_used_cached_or_free_and_a_reset_frees_them_all(self):
        """C1"""
        self.assert_everything_comes_back(seed=2)
        blocks = self.server.kv_blocks()
        self.assertEqual(blocks["used"], 0)
        self.assertGreater(blocks["cached"], 0)
        self.assertEqual(sum(blocks.values()), 40)
        self.assertEqual(self.server.post("/reset_prefix_cache", "").json(), {"success": True})
        self.assertEqual(self.server.kv_blocks(), {"used": 0, "cached": 0, "free": 40})


class EightBlocksTest(SmallPoolTest):
    """D1"""

    options = pool_of(8) + ("--max-model-len", 128)

    def test_six_requests_that_do_not_fit_together_all_finish_as_they_would_alone(self):
        num_tokens = 60 if FULL else 36
        bodies = [{"prompt": ids(60, 1000 * (i + 1)), "max_tokens": num_tokens, "ignore_eos": True,
                   "temperature": 0, "return_token_ids": True} for i in range(6)]
        before = self.num_preemptions()
        answers = self.all_at_once(bodies)
        num_preemptions = self.num_preemptions() - before
        for body, answer in zip(bodies, answers):
            self.assertEqual(answer.status, 200, answer.body)
            alone = self.server.post("/v1/completions", body).json()
            self.assertEqual(answer.json()["choices"], alone["choices"])
            self.assertEqual(answer.json()["usage"]["completion_tokens"], num_tokens)
        # Once for each other one would be often enough; a livelock has no bound at all.
        self.assertLessEqual(num_preemptions, 36)

    def test_what_can_never_fit_is_refused_while_those_behind_it_run(self):
        small = [{"prompt": ids(8, 3000 + 100 * i), "max_tokens": 8, "ignore_eos": True}
                 for i in range(5)]
        refused, *answers = self.all_at_once([{"prompt": ids(129), "max_tokens": 4}, *small])
        error = self.assert_refused(refused, 400, "prompt")
        self.assertEqual((error["n_prompt_tokens"], error["max_model_len"]), (129, 128))
        for answer in answers:
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(answer.json()["usage"]["completion_tokens"], 8)

    def test_beams_that_can_never_fit_together_are_refused_while_those_behind_them_run(self):
        small = [{"prompt": ids(8, 3000 + 100 * i), "max_tokens": 8, "ignore_eos": True}
                 for i in range(5)]
        beams = {"prompt": ids(60), "max_tokens": 60, "use_beam_search": True, "n": 8}
        refused, *answers = self.all_at_once([beams, *small])
        error = self.assert_refused(refused, 400)
        self.assertIn("8", error["message"])
        for answer in answers:
            self.assertEqual(answer.status, 200, answer.body)

    def test_one_that_needs_the_whole_pool_is_not_overtaken_for_ever(self):
        large = {"prompt": ids(100), "max_tokens": 28, "ignore_eos": True}
        small = [{"prompt": ids(12, 3000 + 100 * i), "max_tokens": 4, "ignore_eos": True}
                 for i in range(20)]
        for answer in self.all_at_once([*small[:10], large, *small[10:]]):
            self.assertEqual(answer.status, 200, answer.body)

    def test_completions_of_one_request_that_do_not_fit_together_all_finish(self):
        body = {"prompt": ids(60), "n": 4, "max_tokens": 40, "ignore_eos": True, "seed": 3,
                "return_token_ids": True}
        answer = self.server.post("/v1/completions", body)
        self.assertEqual(answer.status, 200, answer.body)
        lengths = [len(choice["token_ids"]) for choice in answer.json()["choices"]]
        self.assertEqual(lengths, [40] * 4)


def bodies_of_streams(**fields):
    num_tokens = 200 if FULL else 40
    return [{"prompt": ids(32, 2000 + 1000 * i), "max_tokens": num_tokens, "ignore_eos": True,
             "return_token_ids": True, "logprobs": 0, "seed": 100 + i, **fields} for i in range(8)]


@functools.cache
def solo_runs(temperature):
    """What each stream says when it has a server to itself, without a cache."""
    with Server("--no-enable-prefix-caching", "--max-num-seqs", 1, "--max-model-len", 256) as twin:
        answers = [twin.post("/v1/completions", body).json()
                   for body in bodies_of_streams(temperature=temperature)]
    return answers


class PreemptedStreams(SmallPoolTest):
    options = pool_of(40 if FULL else 16) + ("--max-model-len", 256 if FULL else 96)

    def stream(self, body):
        body = {**body, "stream_options": {"include_usage": True}}
        return self.server.events("/v1/completions", body)

    def assert_streams_are_as_alone(self, temperature):
        before = self.num_preemptions()
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            streams = list(clients.map(self.stream, bodies_of_streams(temperature=temperature)))
        self.assertGreater(self.num_preemptions(), before, "the pool is too large for this test")
        for events, alone in zip(streams, solo_runs(temperature)):
            parts = [event["choices"][0] for event in events[:-1]]
            expected = alone["choices"][0]
            tokens = [token for part in parts for token in part["token_ids"]]
            self.assertEqual(tokens, expected["token_ids"])
            self.assertEqual("".join(part["text"] for part in parts), expected["text"])
            logprobs = [value for part in parts if part["logprobs"]
                        for value in part["logprobs"]["token_logprobs"]]
            self.assertEqual(logprobs, expected["logprobs"]["token_logprobs"])
            self.assertEqual(parts[-1]["finish_reason"], "length")
            self.assertEqual(events[-1]["usage"]["completion_tokens"], len(tokens))
            self.assertEqual(events[-1]["usage"]["prompt_tokens"], 32)


class RecomputedStreamsTest(PreemptedStreams):
    """D3"""

    def test_greedy_streams_that_are_preempted_say_what_they_say_alone(self):
        self.assert_streams_are_as_alone(temperature=0)

    def test_drawn_streams_that_are_preempted_say_what_they_say_alone(self):
        self.assert_streams_are_as_alone(temperature=1)


class SwappedStreamsTest(PreemptedStreams):
    """D3, with room to keep the K and V of those who are preempted."""

    options = PreemptedStreams.options + ("--swap-space-bytes", 64 * BLOCK_BYTES)

    def test_drawn_streams_that_are_swapped_out_say_what_they_say_alone(self):
        self.assert_streams_are_as_alone(temperature=1)
        self.assertGreater(self.server.metrics()['octavo:preemptions_total{mode="swap"}'], 0)


if __name__ == "__main__":
    server.main()
