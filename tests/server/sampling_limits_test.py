"""Cases O1 and O3: sampling parameters at and beyond their limits."""

import math
import threading

from server import ServerTest, ids, main

COUNTING = "1, 2, 3, 4, 5, 6, 7, 8,"
TOKENS = {"return_token_ids": True, "logprobs": 1}


class TinyTemperatures(ServerTest):
    """O1."""

    def ask(self, **fields):
        body = {"prompt": COUNTING, "max_tokens": 12, "seed": 5, **TOKENS, **fields}
        answer = self.server.post("/v1/completions", body)
        self.assertEqual(200, answer.status, answer.body)
        return answer.json()["choices"][0]

    def test_a_tiny_temperature_chooses_as_zero_does(self):
        for top_p in (1, 0.9):
            greedy = self.ask(temperature=0, top_p=top_p)
            for temperature in ("1e-4", "1e-6", "1e-12", "1e-38", "1e-40", "1e-46", "5e-324"):
                with self.subTest(temperature=temperature, top_p=top_p):
                    choice = self.ask(temperature=float(temperature), top_p=top_p)
                    self.assertEqual(greedy["token_ids"], choice["token_ids"])
                    self.assertTrue(all(map(math.isfinite, choice["logprobs"]["token_logprobs"])))

    def test_extreme_shares_leave_the_likeliest_token(self):
        greedy = self.ask(temperature=0)
        for fields in ({"top_p": 1e-12}, {"min_p": 1}, {"top_k": 1}):
            with self.subTest(fields=fields):
                self.assertEqual(greedy["token_ids"], self.ask(temperature=1, **fields)["token_ids"])

    def test_the_highest_temperature_gives_finite_logprobs(self):
        choice = self.ask(temperature=100)
        self.assertEqual(12, len(choice["token_ids"]))
        self.assertTrue(all(map(math.isfinite, choice["logprobs"]["token_logprobs"])))

    def test_numbers_out_of_range_are_refused_by_name(self):
        for name, value in (("temperature", -0.1), ("temperature", 1e300), ("temperature", "hot"), ("top_p", 0),
                            ("top_p", 1.01), ("top_p", -1), ("min_p", -0.1), ("min_p", 1.1), ("top_k", -2),
                            ("top_k", 1.5), ("presence_penalty", 2.1), ("frequency_penalty", -2.1), ("repetition_penalty", 0),
                            ("n", 0), ("n", 10**9), ("seed", 1.5), ("seed", 2**64), ("max_tokens", -1), ("logprobs", -1),
                            ("logprobs", 10**6)):
            with self.subTest(name=name, value=value):
                answer = self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, name: value})
                error = self.assert_refused(answer)
                self.assertIn(name, error["message"])
                self.assertEqual(name, error["param"])


class LogitBias(ServerTest):
    """O3."""

    def ask(self, bias, **fields):
        return self.server.post("/v1/completions", {
            "prompt": COUNTING, "max_tokens": 4, "temperature": 0, "logit_bias": bias, **TOKENS, **fields})

    def test_what_cannot_be_a_bias_is_refused_by_its_key_while_others_are_served(self):
        body = {"prompt": ids(20), "max_tokens": 150, "temperature": 0, "ignore_eos": True}
        quiet = "".join(event["choices"][0]["text"] for event in self.server.events("/v1/completions", body))
        healthy = []
        stream = threading.Thread(target=lambda: healthy.extend(self.server.events("/v1/completions", body)))
        stream.start()
        try:
            self.server.wait_until(lambda: self.server.metrics()["vllm:num_requests_running"] == 1)
            for bias, key in (({"191222": -100}, "191222"), ({"-1": 5}, "-1"), ({"AI": -100}, "AI"),
                              ({"1e3": 1}, "1e3"), ({"5": 1e308}, "5"), ({"5": "x"}, "5"), ({"5": None}, "5"),
                              ({"49152": 1}, "49152"), ({"": 1}, '""'), ({" 5": 1}, " 5"), ({"5.0": 1}, "5.0"),
                              ({"99999999999": 1}, "99999999999"),
                              ({"5": True}, "5"), ({"5": -100.5}, "5")):
                with self.subTest(bias=bias):
                    error = self.assert_refused(self.ask(bias))
                    self.assertIn("logit_bias", error["message"])
                    self.assertIn(key, error["message"])
            many = self.assert_refused(self.ask({str(i): 1 for i in range(50_000)}))
            self.assertIn("logit_bias", many["message"])
            self.assertIn("50000", many["message"])
            self.assert_refused(self.ask([5]), param="logit_bias")
        finally:
            stream.join(60)
        self.assertEqual(quiet, "".join(event["choices"][0]["text"] for event in healthy))

    def test_plus_100_forces_a_token(self):
        choice = self.ask({"4093": 100}).json()["choices"][0]
        self.assertEqual([4093] * 4, choice["token_ids"])

    def test_minus_100_bans_a_token(self):
        plain = self.ask({}).json()["choices"][0]["token_ids"]
        banned = self.ask({str(plain[0]): -100}).json()["choices"][0]["token_ids"]
        self.assertNotIn(plain[0], banned)

    def test_as_many_entries_as_are_allowed_are_applied(self):
        bias = {str(i): -100 for i in range(1023)}
        choice = self.ask({**bias, "4093": 100}).json()["choices"][0]
        self.assertEqual([4093] * 4, choice["token_ids"])

    def test_the_last_token_of_the_vocabulary_can_be_forced(self):
        choice = self.ask({"49151": 100}, max_tokens=1).json()["choices"][0]
        self.assertEqual([49151], choice["token_ids"])


if __name__ == "__main__":
    main()
