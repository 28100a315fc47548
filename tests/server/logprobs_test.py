"""Log-probabilities: finite in JSON, and tokens that can be told apart."""

import math

import server
from server import ServerTest, ids

FLOOR = -9999.0
SMILE = "\U0001F60A"


def all_numbers(value):
    """Every number in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in all_numbers(part)]
    return [value] if isinstance(value, float) else []


class FiniteLogprobsTest(ServerTest):
    """H1. Answer.json() refuses NaN and Infinity, which are not JSON."""

    options = ("--max-model-len", 512)
    messages = [{"role": "user", "content": "Name a colour."}]

    def complete(self, **fields):
        body = {"prompt": "The sky is", "max_tokens": 6, "temperature": 0, "logprobs": 5, **fields}
        return self.server.post("/v1/completions", body)

    def chat(self, **fields):
        body = {"messages": self.messages, "max_tokens": 6, "temperature": 0, "logprobs": True,
                "top_logprobs": 5, **fields}
        return self.server.post("/v1/chat/completions", body)

    def assert_finite(self, answer):
        self.assertEqual(answer.status, 200, answer.body)
        numbers = all_numbers(answer.json()["choices"][0]["logprobs"])
        self.assertTrue(numbers)
        for number in numbers:
            self.assertTrue(math.isfinite(number) and FLOOR <= number <= 0, number)
        return answer.json()["choices"][0]

    def test_a_sampler_that_keeps_one_token_reports_the_others_too(self):
        choice = self.assert_finite(self.complete(top_k=1, temperature=1))
        self.assertEqual([len(top) for top in choice["logprobs"]["top_logprobs"]], [5] * 6)
        choice = self.assert_finite(self.chat(top_k=1, temperature=1))
        self.assertTrue(all(len(t["top_logprobs"]) == 5 for t in choice["logprobs"]["content"]))

    def test_a_token_that_is_biased_away_keeps_its_logprob_of_the_raw_model(self):
        first = self.complete(max_tokens=1, return_token_ids=True).json()["choices"][0]
        banned = first["token_ids"][0]
        choice = self.assert_finite(
            self.complete(max_tokens=1, logit_bias={str(banned): -100}, return_token_ids=True))
        self.assertNotEqual(choice["token_ids"], [banned])
        name = first["logprobs"]["tokens"][0]
        self.assertEqual(choice["logprobs"]["top_logprobs"][0][name],
                         first["logprobs"]["token_logprobs"][0])

    def test_a_grammar_that_allows_one_text_gives_finite_logprobs(self):
        schema = {"const": "xyzzy"}
        for fields in ({"response_format": {"type": "json_schema",
                                            "json_schema": {"name": "one", "schema": schema}}},
                       {"structured_outputs": {"choice": ["xyzzy"]}}):
            with self.subTest(fields=fields):
                self.assertIn("xyzzy", self.assert_finite(
                    self.complete(max_tokens=32, **fields))["text"])
                self.assertIn("xyzzy", self.assert_finite(
                    self.chat(max_tokens=32, **fields))["message"]["content"])

    def test_one_allowed_token_is_reported_with_its_raw_logprob(self):
        choice = self.assert_finite(self.complete(allowed_token_ids=[1234], return_token_ids=True))
        self.assertEqual(choice["token_ids"], [1234] * 6)

    def test_an_echo_reports_null_for_its_first_token_alone(self):
        answer = self.complete(prompt=ids(6), echo=True, logprobs=1, top_k=1, max_tokens=3)
        choice = self.assert_finite(answer)
        logprobs = choice["logprobs"]
        self.assertEqual([x is None for x in logprobs["token_logprobs"]], [True] + [False] * 8)
        self.assertEqual([x is None for x in logprobs["top_logprobs"]], [True] + [False] * 8)
        self.assertEqual(len(logprobs["tokens"]), 9)
        self.assertEqual("".join(logprobs["tokens"]), choice["text"])

    def test_text_offsets_are_where_the_tokens_begin(self):
        choice = self.assert_finite(self.complete(echo=True))
        logprobs = choice["logprobs"]
        for token, offset in zip(logprobs["tokens"], logprobs["text_offset"]):
            self.assertTrue(choice["text"][offset:].startswith(token))

    def test_prompt_logprobs_are_finite_and_the_echo_says_the_same(self):
        answer = self.complete(prompt=ids(6), prompt_logprobs=2, logprobs=2, max_tokens=1)
        self.assertEqual(answer.status, 200, answer.body)
        listed = answer.json()["choices"][0]["prompt_logprobs"]
        self.assertEqual(len(listed), 6)
        self.assertIsNone(listed[0])
        echoed = self.complete(prompt=ids(6), echo=True, logprobs=2, max_tokens=1)
        for position in range(1, 6):
            entry = listed[position][str(1000 + position)]
            self.assertTrue(math.isfinite(entry["logprob"]))
            self.assertGreaterEqual(entry["rank"], 1)
            self.assertEqual(
                entry["logprob"],
                echoed.json()["choices"][0]["logprobs"]["token_logprobs"][position])

    def test_extreme_parameters_give_finite_logprobs(self):
        for fields in ({"temperature": 1e-6}, {"temperature": 100, "seed": 1},
                       {"top_p": 1e-9, "temperature": 1}, {"min_p": 1, "temperature": 1},
                       {"repetition_penalty": 100}, {"repetition_penalty": 0.01},
                       {"presence_penalty": -2, "frequency_penalty": -2},
                       {"logit_bias": {str(i): 100 for i in range(1000, 1010)}}):
            with self.subTest(fields=fields):
                self.assert_finite(self.complete(**fields))

    def test_how_many_may_be_asked_for(self):
        self.assert_finite(self.complete(logprobs=0))
        choice = self.assert_finite(self.complete(logprobs=20, max_tokens=1))
        self.assertEqual(len(choice["logprobs"]["top_logprobs"][0]), 20)
        for value in (-1, 21, 1.5, "5", True, 2**40):
            with self.subTest(value=value):
                self.assert_refused(self.complete(logprobs=value), param="logprobs")
                self.assert_refused(self.chat(top_logprobs=value), param="top_logprobs")
        self.assert_refused(self.chat(logprobs=5), param="logprobs")
        self.assert_refused(self.chat(logprobs=False), param="top_logprobs")

    def test_a_stream_reports_the_logprobs_of_the_whole_answer(self):
        whole = self.complete(stop=" blue").json()["choices"][0]["logprobs"]
        events = self.server.events("/v1/completions", {
            "prompt": "The sky is", "max_tokens": 6, "temperature": 0, "logprobs": 5,
            "stop": " blue"})
        streamed = {key: [] for key in whole}
        for event in events:
            for key, values in (event["choices"][0]["logprobs"] or {}).items():
                streamed[key] += values
        self.assertEqual(streamed, whole)


class TokenBytesTest(ServerTest):
    """H3"""

    options = ("--max-model-len", 512)

    def force_chat(self, text, **fields):
        """An answer that can only be `text`."""
        choice, _ = self.server.chat("Repeat: " + text, logprobs=True, top_logprobs=2,
                                     structured_outputs={"choice": [text]}, max_tokens=64, **fields)
        self.assertEqual(choice["message"]["content"], text)
        return choice["logprobs"]["content"]

    def test_the_bytes_of_the_tokens_are_the_text(self):
        for text in (SMILE, "a" + SMILE + "b", "\U0001F1E9\U0001F1EA", "\u8d4b", "caf\u00e9",
                     "\U0001F468\u200d\U0001F469\u200d\U0001F467", "plain"):
            with self.subTest(text=text):
                tokens = self.force_chat(text)
                data = b"".join(bytes(token["bytes"]) for token in tokens)
                self.assertEqual(data, text.encode())

    def test_the_smile_is_made_of_fragments_none_of_which_is_a_replacement_character(self):
        tokens = self.force_chat(SMILE)
        fragments = [token for token in tokens if token["bytes"]]
        self.assertGreater(len(fragments), 1, "this model has a token for it; take another")
        for token in fragments:
            self.assertNotEqual(token["bytes"], list("\ufffd".encode()))
            self.assertLess(len(token["bytes"]), 4)

    def test_the_likeliest_tokens_have_true_bytes_as_well(self):
        for token in self.force_chat(SMILE):
            self.assertEqual(len(token["top_logprobs"]), 2)
            for entry in token["top_logprobs"]:
                self.assertNotIn(bytes([0xef, 0xbf, 0xbd]), bytes(entry["bytes"]))
                try:
                    text = bytes(entry["bytes"]).decode()
                except UnicodeDecodeError:
                    continue
                if entry["bytes"]:
                    self.assertEqual(entry["token"], text)

    def test_streamed_bytes_are_those_of_the_whole_answer(self):
        whole = self.force_chat(SMILE)
        events = self.server.events("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Repeat: " + SMILE}], "logprobs": True,
            "top_logprobs": 2, "structured_outputs": {"choice": [SMILE]}, "max_tokens": 64,
            "temperature": 0})
        streamed = [token for event in events for part in event["choices"] if part["logprobs"]
                    for token in part["logprobs"]["content"]]
        self.assertEqual(streamed, whole)
        text = "".join(part["delta"].get("content") or "" for event in events
                       for part in event["choices"])
        self.assertEqual(text, SMILE)

    def test_fragments_have_names_that_differ_in_completions(self):
        choice, _ = self.server.complete("Repeat: " + SMILE, logprobs=2, max_tokens=16,
                                         structured_outputs={"choice": [SMILE]},
                                         return_token_ids=True)
        tokens = choice["logprobs"]["tokens"]
        self.assertEqual(choice["text"], SMILE)
        self.assertEqual(len(set(tokens)), len(set(choice["token_ids"])))
        data = b""
        for token in tokens:
            self.assertNotIn("\ufffd", token)
            if token.startswith("bytes:"):
                data += bytes.fromhex(token[len("bytes:"):].replace("\\x", ""))
        self.assertEqual(data, SMILE.encode())

    def test_an_echo_of_fragments_names_each_of_them(self):
        tokens = self.server.post("/tokenize", {"prompt": SMILE}).json()["tokens"]
        choice, _ = self.server.complete(tokens, echo=True, max_tokens=0, logprobs=1)
        self.assertEqual(choice["text"], SMILE)
        names = choice["logprobs"]["tokens"]
        self.assertEqual(len(names), len(tokens))
        self.assertFalse(any("\ufffd" in name for name in names))

    def test_special_tokens_that_are_shown_have_their_bytes(self):
        """With skip_special_tokens false they are part of the text, and so of its bytes."""
        end = self.server.post("/tokenize", {"prompt": "<|im_end|>"}).json()["tokens"]
        self.assertEqual(len(end), 1)
        for shown in (False, True):
            with self.subTest(shown=shown):
                choice, _ = self.server.chat(
                    "Hi", logprobs=True, max_tokens=3, allowed_token_ids=end, ignore_eos=True,
                    skip_special_tokens=not shown)
                text = choice["message"]["content"]
                self.assertEqual(text, "<|im_end|>" * 3 if shown else "")
                data = b"".join(bytes(t["bytes"]) for t in choice["logprobs"]["content"])
                self.assertEqual(data.decode(), text)

    def test_an_echo_is_the_prompt_as_it_was_sent(self):
        """Also where it spells a special token; from token ids, what skip_special_tokens says."""
        choice, _ = self.server.complete("<|im_start|>x", echo=True, max_tokens=0)
        self.assertEqual(choice["text"], "<|im_start|>x")
        for shown, text in ((False, "() loc"), (True, "<|im_start|>()<|im_end|> loc")):
            choice, _ = self.server.complete(
                [1, 1000, 2, 1001], echo=True, max_tokens=0, logprobs=1,
                skip_special_tokens=not shown)
            self.assertEqual(choice["text"], text)
            self.assertEqual(choice["logprobs"]["text_offset"],
                             [0, 12, 14, 24] if shown else [0, 0, 2, 2])

    def test_text_offsets_count_special_tokens_only_where_they_are_shown(self):
        end = self.server.post("/tokenize", {"prompt": "<|im_end|>"}).json()["tokens"]
        for shown, offsets in ((False, [0, 0, 0]), (True, [0, 10, 20])):
            with self.subTest(shown=shown):
                choice, _ = self.server.complete(
                    ids(4), logprobs=1, max_tokens=3, allowed_token_ids=end, ignore_eos=True,
                    skip_special_tokens=not shown)
                self.assertEqual(choice["logprobs"]["text_offset"], offsets)


if __name__ == "__main__":
    server.main()
