"""Case N1: an answer does not depend on what else is computed, nor on how."""

import threading

from raw import read_to_end
from server import Server, ServerTest, ids, main
from soak import BAD_BODIES, MALFORMED, Soak

PROMPTS = ("The capital of France is", "Once upon a time, there was a little", "def fibonacci(n):", "1, 2, 3, 4, 5,",
           ids(70, first=9000))
MAX_TOKENS = 48


def ask(server, prompt, max_tokens=MAX_TOKENS, **fields):
    """Token ids and log-probabilities of a greedy answer: as the answer spells them, to the last bit."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "logprobs": 2, "ignore_eos": True,
            "return_token_ids": True, **fields}
    choice = server.post("/v1/completions", body, timeout=300).json()["choices"][0]
    return choice["token_ids"], choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]


def at_once(calls):
    """What the calls give, each on a thread of its own, in their order."""
    results = [None] * len(calls)

    def run(index):
        results[index] = calls[index]()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def stream(server, prompt):
    """Text, token ids and log-probabilities of a seeded answer that is streamed: how they are cut into events is a matter of time."""
    body = {"prompt": prompt, "max_tokens": MAX_TOKENS, "temperature": 0.8, "seed": 7, "logprobs": 2, "ignore_eos": True,
            "return_token_ids": True}
    choices = [event["choices"][0] for event in server.events("/v1/completions", body, timeout=300) if event["choices"]]
    return ("".join(choice["text"] for choice in choices),
            [token for choice in choices for token in choice.get("token_ids") or []],
            [value for choice in choices for value in (choice.get("logprobs") or {}).get("token_logprobs") or []],
            choices[-1]["finish_reason"])


class BatchInvariance(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone = [ask(cls.server, prompt) for prompt in PROMPTS]

    def test_the_answers_alone_are_stable(self):
        for _ in range(4):
            self.assertEqual(self.alone, [ask(self.server, prompt) for prompt in PROMPTS])

    def test_the_answers_without_cached_prefixes_are_the_same(self):
        self.server.post("/reset_prefix_cache", {})
        self.assertEqual(self.alone, [ask(self.server, prompt) for prompt in PROMPTS])

    def test_each_answer_is_the_same_among_45_others_that_come_and_go(self):
        """The others have lengths of their own and begin one after another, before, beside and after the five."""
        stop = threading.Event()
        left = list(range(45))
        lock = threading.Lock()

        def others():
            while not stop.is_set():
                with lock:
                    if not left:
                        return None
                    number = left.pop()
                ask(self.server, ids(5 + 7 * number, first=100 * number), max_tokens=1 + number % 9)
            return None

        self.server.post("/reset_prefix_cache", {})
        crowd = [threading.Thread(target=others) for _ in range(9)]
        for thread in crowd:
            thread.start()
        try:
            self.server.wait_until(lambda: self.server.metrics()["vllm:num_requests_running"] > 3)
            together = at_once([lambda prompt=prompt: ask(self.server, prompt) for prompt in PROMPTS])
        finally:
            stop.set()
            for thread in crowd:
                thread.join()
        self.assertLess(len(left), 45 - len(crowd))
        self.assertEqual(self.alone, together)

    def test_streams_carry_the_same_beside_bad_input_of_every_kind(self):
        quiet = [stream(self.server, prompt) for prompt in PROMPTS]
        results = []
        healthy = threading.Thread(
            target=lambda: results.extend(at_once([lambda prompt=prompt: stream(self.server, prompt) for prompt in PROMPTS])))
        healthy.start()
        while True:
            is_last = not healthy.is_alive()
            for data in (*MALFORMED, *map(Soak.head, BAD_BODIES)):
                with self.server.open_socket() as connection:
                    connection.sendall(data)
                    answer = read_to_end(connection)
                self.assertEqual(b"HTTP/1.1 4", answer[:10], data[:60])
            if is_last:
                break
        healthy.join()
        self.assertEqual(quiet, results)
        self.assertTrue(all(len(logprobs) == len(tokens) == MAX_TOKENS for _, tokens, logprobs, _ in quiet))

    def test_the_answers_are_the_same_in_batches_of_any_size(self):
        for size in (2, 3, 4, 7, 8, 16):
            with self.subTest(size=size):
                prompts = [PROMPTS[i % len(PROMPTS)] for i in range(size)]
                answers = at_once([lambda prompt=prompt: ask(self.server, prompt, 12) for prompt in prompts])
                for index, answer in enumerate(answers):
                    self.assertEqual([part[:12] for part in self.alone[index % len(PROMPTS)]], list(answer))

    def test_choices_of_one_request_are_the_same_as_alone(self):
        answer = self.server.post("/v1/completions", {
            "prompt": list(PROMPTS[:4]), "max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True}).json()
        self.assertEqual([tokens for tokens, _, _ in self.alone[:4]],
                         [choice["token_ids"] for choice in answer["choices"]])

    def test_the_answers_are_the_same_on_servers_that_compute_otherwise(self):
        for options in (("--threads", 1, "--max-num-batched-tokens", 1, "--max-num-seqs", 1),
                        ("--threads", 2, "--max-num-batched-tokens", 7, "--max-num-seqs", 4),
                        ("--threads", 1, "--max-num-batched-tokens", 64, "--max-num-seqs", 8, "--block-size", 32),
                        ("--threads", 2, "--max-num-batched-tokens", 512, "--no-enable-prefix-caching"),
                        ("--threads", 3, "--kv-cache", "contiguous")):
            with self.subTest(options=options), Server(*options) as server:
                answers = at_once([lambda prompt=prompt: ask(server, prompt) for prompt in PROMPTS])
                self.assertEqual(self.alone, answers)


class SeedsInBatches(ServerTest):
    def test_a_seed_gives_the_same_answer_alone_and_in_company(self):
        fields = {"temperature": 1, "top_p": 0.9, "seed": 11}
        alone = ask(self.server, PROMPTS[1], **fields)
        self.assertEqual(alone, ask(self.server, PROMPTS[1], **fields))
        calls = [lambda: ask(self.server, PROMPTS[1], **fields)]
        calls += [lambda i=i: ask(self.server, ids(10 + i), temperature=1, seed=i) for i in range(7)]
        self.assertEqual(alone, at_once(calls)[0])


if __name__ == "__main__":
    main()
