"""Where answers end, why, and that all routes and modes say the same about it."""

import server
from server import ServerTest

SAID = "hello ABCDEFGHIJKL beta gamma\nUser: \u00e9t\u00e9 \U0001F60A end"


class StopStringTest(ServerTest):
    """I1. The answer is forced to be SAID, so that the model's mood plays no part."""

    options = ("--max-model-len", 256)
    body = {"prompt": "Here is the alphabet: ABC", "temperature": 0, "max_tokens": 80,
            "structured_outputs": {"choice": [SAID]}}

    def both(self, **fields):
        """The choice of a whole answer; a stream must say the same, in pieces."""
        body = {**self.body, **fields}
        answer = self.server.post("/v1/completions", body)
        self.assertEqual(answer.status, 200, answer.body)
        choice = answer.json()["choices"][0]
        events = self.server.events("/v1/completions", body)
        parts = [event["choices"][0] for event in events]
        self.assertEqual("".join(part["text"] for part in parts), choice["text"])
        ends = [part for part in parts if part["finish_reason"]]
        self.assertEqual(ends, parts[-1:])
        self.assertEqual(ends[0]["finish_reason"], choice["finish_reason"])
        self.assertEqual(ends[0]["stop_reason"], choice["stop_reason"])
        return choice

    def chat_both(self, **fields):
        body = {**self.body, "messages": [{"role": "user", "content": "Speak."}], **fields}
        del body["prompt"]
        answer = self.server.post("/v1/chat/completions", body)
        self.assertEqual(answer.status, 200, answer.body)
        choice = answer.json()["choices"][0]
        events = self.server.events("/v1/chat/completions", body)
        parts = [event["choices"][0] for event in events]
        text = "".join(part["delta"].get("content") or "" for part in parts)
        self.assertEqual(text, choice["message"]["content"])
        self.assertEqual(parts[-1]["finish_reason"], choice["finish_reason"])
        self.assertEqual(parts[-1]["stop_reason"], choice["stop_reason"])
        return choice

    def assert_stops(self, stop, matched=None, **fields):
        matched = matched or stop
        expected = SAID[:SAID.index(matched)]
        choice = self.both(stop=stop, **fields)
        self.assertEqual(choice["text"], expected)
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertEqual(choice["stop_reason"], matched)

    def assert_chat_stops(self, stop, matched=None, **fields):
        matched = matched or stop
        choice = self.chat_both(stop=stop, **fields)
        self.assertEqual(choice["message"]["content"], SAID[:SAID.index(matched)])
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertEqual(choice["stop_reason"], matched)

    def test_the_forced_answer_comes_whole_without_a_stop(self):
        self.assertEqual(self.both()["text"], SAID)
        self.assertEqual(self.chat_both()["message"]["content"], SAID)

    def test_a_stop_string_that_lies_over_several_tokens_is_seen_and_never_sent(self):
        for stop in ("DEFGHIJ", " beta gamma", "\nUser:", "\u00e9t\u00e9", " \U0001F60A end"):
            with self.subTest(stop=stop):
                self.assert_stops(stop)
        self.assert_chat_stops("DEFGHIJ")
        self.assert_chat_stops("\nUser:")

    def test_a_stop_string_inside_a_token_cuts_the_token(self):
        for stop in ("ell", "h", "eta", "mm"):
            with self.subTest(stop=stop):
                self.assert_stops(stop)

    def test_a_stop_string_of_one_byte_ends_at_its_first_place(self):
        for stop in (" ", "\n", ":", "K"):
            with self.subTest(stop=stop):
                self.assert_stops(stop)

    def test_a_list_stops_at_what_is_complete_first(self):
        self.assert_stops(["\nUser:"], "\nUser:")
        self.assert_chat_stops(["gamma", "never", "beta", "end"], "beta")
        self.assert_stops(["gamma", "never", "beta", "end"], "beta")
        # They end at the same byte: the first in the list.
        self.assert_stops(["IJ", "DEFGHIJ"], "IJ")
        self.assert_stops(["DEFGHIJ", "IJ"], "DEFGHIJ")

    def test_what_only_begins_like_a_stop_string_is_sent_in_the_end(self):
        for stop in ("DEFGHIX", " beta gammo", " end of it", "gamma\nAssistant", "end."):
            with self.subTest(stop=stop):
                choice = self.both(stop=stop)
                self.assertEqual(choice["text"], SAID)
                self.assertNotEqual(choice["stop_reason"], stop)
        self.assertEqual(self.chat_both(stop=" end of it")["message"]["content"], SAID)

    def test_the_stop_string_is_shown_if_asked_for(self):
        for stop in ("DEFGHIJ", "ell", " beta gamma"):
            with self.subTest(stop=stop):
                choice = self.both(stop=stop, include_stop_str_in_output=True)
                self.assertEqual(choice["text"], SAID[:SAID.index(stop) + len(stop)])
                self.assertEqual(choice["stop_reason"], stop)

    def test_a_stop_string_in_the_prompt_does_not_stop_the_answer(self):
        self.assertEqual(self.both(stop="alphabet")["text"], SAID)
        self.assertTrue(self.both(stop="ABCh")["text"].startswith("hello"))

    def test_a_stop_string_of_the_last_token_wins_over_the_limit(self):
        num_tokens = len(self.both(return_token_ids=True, stop="beta")["token_ids"])
        choice = self.both(stop="beta", max_tokens=num_tokens)
        self.assertEqual(choice["finish_reason"], "stop")
        choice = self.both(stop="beta", max_tokens=num_tokens - 1)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertIsNone(choice["stop_reason"])

    def test_stop_strings_that_are_none_are_refused(self):
        for stop in ("", [""], ["a", ""], [1], 1, True, {}, [None], [["a"]], ["x"] * 65):
            with self.subTest(stop=stop):
                answer = self.server.post("/v1/completions", {**self.body, "stop": stop})
                self.assert_refused(answer, param="stop")
        for stop in (None, []):
            self.assertEqual(self.both(stop=stop)["text"], SAID)


class EndTest(ServerTest):
    """I3. One prompt, on both routes, streamed and not."""

    context = 64
    options = ("--max-model-len", context)
    messages = [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": "What is the capital of France?"}]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rendered = cls.server.post("/v1/chat/completions/render", {"messages": cls.messages})
        cls.prompt = rendered.json()["token_ids"]
        cls.natural, answer = cls.server.chat(cls.messages, return_token_ids=True)
        cls.num_natural = answer["usage"]["completion_tokens"]
        assert cls.natural["finish_reason"] == "stop", "the answer is too long for this test"
        assert cls.num_natural > 4

    def four(self, completion=None, **fields):
        """(text, finish_reason, usage) of each route and mode; they must be equal."""
        results = {}
        bodies = {"/v1/chat/completions": {"messages": self.messages},
                  "/v1/completions": {"prompt": self.prompt, **(completion or {})}}
        for path, body in bodies.items():
            body = {**body, "temperature": 0, **fields}
            answer = self.server.post(path, body)
            self.assertEqual(answer.status, 200, answer.body)
            answer = answer.json()
            choice = answer["choices"][0]
            text = choice["text"] if "text" in choice else choice["message"]["content"]
            results[path, "whole"] = (text, choice["finish_reason"], choice["stop_reason"],
                                      self.counts(answer["usage"]))
            events = self.server.events(
                path, {**body, "stream_options": {"include_usage": True}})
            self.assertEqual(events[-1]["choices"], [])
            parts = [event["choices"][0] for event in events[:-1]]
            self.assertTrue(all(event["usage"] is None for event in events[:-1]))
            text = "".join(part["text"] if "text" in part else part["delta"].get("content") or ""
                           for part in parts)
            self.assertEqual([bool(part["finish_reason"]) for part in parts],
                             [False] * (len(parts) - 1) + [True])
            results[path, "stream"] = (text, parts[-1]["finish_reason"], parts[-1]["stop_reason"],
                                       self.counts(events[-1]["usage"]))
        self.assertEqual(len({str(result) for result in results.values()}), 1, results)
        return next(iter(results.values()))

    @staticmethod
    def counts(usage):
        return usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]

    def assert_counts(self, counts, num_tokens):
        self.assertEqual(counts, (len(self.prompt), num_tokens, len(self.prompt) + num_tokens))

    def test_end_of_text_is_stop(self):
        text, finish, stop, counts = self.four({"max_tokens": 60})
        self.assertEqual((finish, stop), ("stop", None))
        self.assertEqual(text, self.natural["message"]["content"])
        self.assert_counts(counts, self.num_natural)

    def test_a_stop_string_is_stop_and_is_named(self):
        text, finish, stop, _ = self.four(max_tokens=60, stop=["Paris"])
        self.assertEqual((finish, stop), ("stop", "Paris"))
        self.assertNotIn("Paris", text)

    def test_a_stop_token_is_stop_and_is_named(self):
        third = self.natural["token_ids"][2]
        _, finish, stop, counts = self.four(max_tokens=60, stop_token_ids=[third])
        self.assertEqual((finish, stop), ("stop", third))
        self.assert_counts(counts, self.natural["token_ids"].index(third) + 1)

    def test_the_limit_is_length(self):
        _, finish, stop, counts = self.four(max_tokens=3)
        self.assertEqual((finish, stop), ("length", None))
        self.assert_counts(counts, 3)

    def test_the_context_is_length(self):
        room = self.context - len(self.prompt)
        for limit in ({"max_tokens": 1000}, {"max_tokens": room}):
            with self.subTest(limit=limit):
                _, finish, stop, counts = self.four(ignore_eos=True, **limit)
                self.assertEqual((finish, stop), ("length", None))
                self.assert_counts(counts, room)

    def test_end_of_text_as_the_last_allowed_token_is_stop(self):
        text, finish, _, counts = self.four(max_tokens=self.num_natural)
        self.assertEqual(finish, "stop")
        self.assertEqual(text, self.natural["message"]["content"])
        self.assert_counts(counts, self.num_natural)
        _, finish, _, counts = self.four(max_tokens=self.num_natural - 1)
        self.assertEqual(finish, "length")
        self.assert_counts(counts, self.num_natural - 1)

    def test_a_stream_has_usage_only_if_asked_for(self):
        for path, body in (("/v1/completions", {"prompt": self.prompt}),
                           ("/v1/chat/completions", {"messages": self.messages})):
            for options in (None, {}, {"include_usage": False}):
                with self.subTest(path=path, options=options):
                    events = self.server.events(
                        path, {**body, "max_tokens": 3, "stream_options": options})
                    self.assertTrue(all(event["choices"] for event in events))
                    self.assertTrue(all(event.get("usage") is None for event in events))

    def test_usage_so_far_grows_to_the_final_one(self):
        events = self.server.events("/v1/completions", {
            "prompt": self.prompt, "max_tokens": 5, "temperature": 0, "ignore_eos": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True}})
        counts = [event["usage"]["completion_tokens"] for event in events]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-2:], [5, 5])

    def test_stream_options_need_a_stream(self):
        answer = self.server.post("/v1/completions", {
            "prompt": "a", "stream_options": {"include_usage": True}})
        self.assert_refused(answer, param="stream_options")


if __name__ == "__main__":
    server.main()
