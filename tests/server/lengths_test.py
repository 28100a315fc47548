"""How long prompts and answers may be, and what is said about those that are too long."""

import random

import server
from server import ServerTest, ids

CONTEXT = 512
PASSWORD_QUESTION = "The password is PELICAN.\n{}\nWhat is the password? The password is"


class PromptLengthTest(ServerTest):
    """F1"""

    options = ("--max-model-len", CONTEXT)

    def text_of(self, num_tokens):
        """A prompt of exactly so many tokens, whose first line tells what the last one asks."""
        filler = 0
        while True:
            text = PASSWORD_QUESTION.format("word " * filler)
            count = self.server.post("/tokenize", {"prompt": text}).json()["count"]
            if count == num_tokens:
                return text
            filler += num_tokens - count

    def conversation_of(self, num_tokens):
        filler = 0
        while True:
            text = PASSWORD_QUESTION.format("word " * filler)
            messages = [{"role": "user", "content": text}]
            count = self.server.post("/tokenize", {"messages": messages}).json()["count"]
            if count == num_tokens:
                return messages
            filler += num_tokens - count

    def assert_too_long(self, answer, num_tokens, param):
        error = self.assert_refused(answer, 400, param)
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertEqual(error["n_prompt_tokens"], num_tokens)
        self.assertEqual(error["max_model_len"], CONTEXT)
        self.assertIn(str(num_tokens), error["message"])
        self.assertIn(str(CONTEXT), error["message"])

    def num_computed(self):
        return self.server.metrics()["octavo:computed_tokens_total"]

    def test_what_leaves_room_for_a_token_is_served_and_counted_whole(self):
        for count in (510, 511):
            with self.subTest(count=count):
                text = self.text_of(count)
                tokens = self.server.post("/tokenize", {"prompt": text}).json()["tokens"]
                choice, answer = self.server.complete(text, max_tokens=8, return_token_ids=True)
                self.assertEqual(choice["prompt_token_ids"], tokens)
                self.assertEqual(answer["usage"]["prompt_tokens"], count)
                self.assertEqual(answer["usage"]["completion_tokens"], CONTEXT - count)
                self.assertEqual(choice["finish_reason"], "length")
                events = self.server.events(
                    "/v1/completions", {"prompt": text, "temperature": 0, "max_tokens": 8,
                                        "stream_options": {"include_usage": True}})
                self.assertEqual(events[-1]["usage"]["prompt_tokens"], count)
                streamed = "".join(e["choices"][0]["text"] for e in events if e["choices"])
                self.assertEqual(streamed, choice["text"])

                messages = self.conversation_of(count)
                choice, answer = self.server.chat(messages, max_tokens=8, ignore_eos=True)
                self.assertEqual(answer["usage"]["prompt_tokens"], count)
                self.assertEqual(choice["finish_reason"], "length")

    def test_what_was_said_first_counts_to_the_end(self):
        """Another word in the first line of a prompt that nearly fills the context changes what
        the last token predicts."""
        text = self.text_of(511)
        logprobs = []
        for prompt in (text, text.replace("PELICAN", "pelican")):
            choice, _ = self.server.complete(prompt, max_tokens=1, logprobs=5)
            logprobs.append(choice["logprobs"]["top_logprobs"])
        self.assertNotEqual(logprobs[0], logprobs[1])

    def test_a_text_that_fills_the_context_is_refused_before_any_work(self):
        for count in (512, 513, 1024):
            for stream in (False, True):
                with self.subTest(count=count, stream=stream):
                    text = self.text_of(count)
                    before = self.num_computed()
                    answer = self.server.post(
                        "/v1/completions", {"prompt": text, "max_tokens": 1, "stream": stream})
                    self.assert_too_long(answer, count, "prompt")
                    self.assertEqual(self.num_computed(), before)

    def test_a_conversation_that_fills_the_context_is_refused_before_any_work(self):
        for count in (512, 513, 1024):
            for stream in (False, True):
                with self.subTest(count=count, stream=stream):
                    messages = self.conversation_of(count)
                    before = self.num_computed()
                    answer = self.server.post(
                        "/v1/chat/completions",
                        {"messages": messages, "max_tokens": 1, "stream": stream})
                    self.assert_too_long(answer, count, "messages")
                    self.assertEqual(self.num_computed(), before)

    def test_token_ids_that_fill_the_context_are_refused(self):
        for count in (512, 513, 1024, 100_000):
            for stream in (False, True):
                with self.subTest(count=count, stream=stream):
                    prompt = [1000 + i % 40_000 for i in range(count)]
                    answer = self.server.post(
                        "/v1/completions", {"prompt": prompt, "max_tokens": 1, "stream": stream})
                    self.assert_too_long(answer, count, "prompt")

    def test_a_hundred_thousand_tokens_of_text_are_refused(self):
        text = "The password is PELICAN.\n" + "word " * 100_000
        count = self.server.post("/tokenize", {"prompt": text}).json()["count"]
        self.assertGreater(count, 100_000)
        answer = self.server.post("/v1/completions", {"prompt": text})
        self.assert_too_long(answer, count, "prompt")
        answer = self.server.post("/v1/chat/completions",
                                  {"messages": [{"role": "user", "content": text}]})
        error = self.assert_refused(answer, 400, "messages")
        self.assertEqual(error["code"], "context_length_exceeded")

    def test_one_prompt_of_a_batch_that_is_too_long_refuses_the_batch(self):
        before = self.num_computed()
        answer = self.server.post("/v1/completions", {"prompt": [ids(4), ids(600)]})
        self.assert_too_long(answer, 600, "prompt")
        self.assertEqual(self.num_computed(), before)

    def test_echo_alone_needs_room_for_a_token_too(self):
        answer = self.server.post("/v1/completions",
                                  {"prompt": ids(511), "max_tokens": 0, "echo": True})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.json()["usage"]["completion_tokens"], 0)
        answer = self.server.post("/v1/completions",
                                  {"prompt": ids(512), "max_tokens": 0, "echo": True})
        self.assert_too_long(answer, 512, "prompt")


class MaxTokensTest(ServerTest):
    """F3. A small context, so that answers that fill it are short."""

    context = 32
    options = ("--max-model-len", context)
    messages = [{"role": "system", "content": "Hi"}, {"role": "user", "content": "Hi"}]

    def complete(self, **fields):
        body = {"prompt": ids(10), "temperature": 0, "ignore_eos": True, **fields}
        return self.server.post("/v1/completions", body)

    def chat(self, **fields):
        body = {"messages": self.messages, "temperature": 0, "ignore_eos": True, **fields}
        return self.server.post("/v1/chat/completions", body)

    def assert_length(self, answer, num_tokens):
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.json()["usage"]["completion_tokens"], num_tokens)
        self.assertEqual(answer.json()["choices"][0]["finish_reason"], "length")

    def room(self):
        """What the context leaves for an answer to the conversation."""
        count = self.server.post("/tokenize", {"messages": self.messages}).json()["count"]
        return self.context - count

    def test_a_completion_has_16_tokens_if_nobody_says_otherwise(self):
        self.assert_length(self.complete(), 16)
        self.assert_length(self.complete(max_tokens=None), 16)

    def test_a_conversation_fills_the_context_if_nobody_says_otherwise(self):
        self.assert_length(self.chat(), self.room())
        self.assert_length(self.chat(max_tokens=None), self.room())
        self.assert_length(self.chat(max_completion_tokens=None), self.room())

    def test_one_token_and_two_tokens_are_one_and_two(self):
        for count in (1, 2):
            self.assert_length(self.complete(max_tokens=count), count)
            self.assert_length(self.chat(max_tokens=count), count)
            self.assert_length(self.chat(max_completion_tokens=count), count)

    def test_no_tokens_are_refused_but_for_an_echo(self):
        self.assert_refused(self.complete(max_tokens=0), param="max_tokens")
        self.assert_refused(self.chat(max_tokens=0), param="max_tokens")
        self.assert_refused(self.chat(max_completion_tokens=0), param="max_completion_tokens")
        answer = self.complete(max_tokens=0, echo=True)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.json()["usage"]["completion_tokens"], 0)

    def test_an_echo_alone_shows_no_token_in_any_form(self):
        fields = {"max_tokens": 0, "echo": True, "return_token_ids": True}
        choice = self.complete(**fields).json()["choices"][0]
        self.assertEqual((choice["token_ids"], choice["finish_reason"]), ([], "length"))
        events = self.complete(**fields, stream=True, stream_options={"include_usage": True}).events()
        self.assertEqual([event["choices"][0]["token_ids"] for event in events[:-1]], [[]])
        self.assertEqual(events[0]["choices"][0]["text"], choice["text"])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], 0)

    def test_what_is_no_count_is_refused(self):
        for value in (-1, -736, -2**63, -1e30, 1.5, 0.5, "5", "", True, False, [5], {}):
            with self.subTest(value=value):
                self.assert_refused(self.complete(max_tokens=value), param="max_tokens")
                self.assert_refused(self.chat(max_tokens=value), param="max_tokens")
                self.assert_refused(self.chat(max_completion_tokens=value),
                                    param="max_completion_tokens")

    def test_more_than_fits_means_as_many_as_fit_on_each_route(self):
        for value in (self.context, 2**31 - 1, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**64, 2**64 + 1,
                      10**25, 1e30):
            with self.subTest(value=value):
                self.assert_length(self.complete(max_tokens=value), self.context - 10)
                self.assert_length(self.chat(max_tokens=value), self.room())
                self.assert_length(self.chat(max_completion_tokens=value), self.room())

    def test_a_count_may_be_spelt_with_a_fraction_of_zero(self):
        self.assert_length(self.complete(max_tokens=3.0), 3)

    def test_numbers_that_no_format_holds_are_refused(self):
        for number in ("1e400", "-1e400", "NaN", "Infinity", "0x10", "01", "+1", "1."):
            with self.subTest(number=number):
                body = f'{{"prompt": [1000], "max_tokens": {number}}}'
                answer = self.server.post("/v1/completions", body)
                self.assertIn(answer.status, (200, 400), answer.body)
                if number != "1e400":
                    self.assert_refused(answer)

    def test_min_tokens_is_a_count_too(self):
        for value in (-1, 1.5, "5", True, 2**31):
            with self.subTest(value=value):
                self.assert_refused(self.complete(min_tokens=value), param="min_tokens")
        self.assert_refused(self.complete(min_tokens=5, max_tokens=4))

    def test_usage_counts_each_token_for_any_length(self):
        lengths = random.Random(5).sample(range(1, 22), 6)
        for count in lengths:
            with self.subTest(count=count):
                answer = self.complete(max_tokens=count, return_token_ids=True)
                self.assert_length(answer, count)
                self.assertEqual(len(answer.json()["choices"][0]["token_ids"]), count)


if __name__ == "__main__":
    server.main()
