"""Cases J1 and J3: characters that lie over several tokens, streamed."""

import json

from server import ServerTest, main

CAT = "\U0001f638"
TEXTS = {
    "a cat": CAT,
    "a rare ideograph": "\u8d4b",
    "a family": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "a flag": "\U0001f1e9\U0001f1ea",
    "Arabic with marks": "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627",
    "spaces": "a    b  \n\n  code\ttab" + " " * 40 + "x",
    "a leading space": " leading x",
    "controls": "\x01\x1f\x7f\u0080\u2028",
}


class StreamedCharacters(ServerTest):
    @staticmethod
    def forced(text, prompt="Say:", **fields):
        """A request whose answer is `text`, or a beginning of it."""
        return {"prompt": prompt, "max_tokens": 200, "temperature": 0,
                "structured_outputs": {"choice": [text]}, **fields}

    def stream(self, body):
        """The events' texts; that each is valid UTF-8 by itself is checked as bytes."""
        answer = self.server.post("/v1/completions", {**body, "stream": True})
        self.assertEqual(200, answer.status, answer.body)
        texts = []
        for event in answer.body.split(b"\n\n"):
            data = event.removeprefix(b"data: ").decode("utf-8")
            if data and data != "[DONE]":
                texts.append(json.loads(data)["choices"][0]["text"])
        return texts

    def test_a_character_is_streamed_once_it_is_whole(self):
        for name, text in TEXTS.items():
            with self.subTest(name):
                choice, _ = self.server.complete(**self.forced(text))
                self.assertEqual(text, choice["text"])
                pieces = self.stream(self.forced(text))
                self.assertEqual(text, "".join(pieces))
                for piece in pieces:
                    self.assertNotIn("\ufffd", piece)
                    piece.encode("utf-8")  # no half of a surrogate pair

    def test_conversations_stream_whole_characters(self):
        for name, text in TEXTS.items():
            with self.subTest(name):
                body = {"messages": [{"role": "user", "content": "Say it."}], "temperature": 0, "max_tokens": 200,
                        "structured_outputs": {"choice": [text]}}
                events = self.server.events("/v1/chat/completions", body)
                deltas = [event["choices"][0]["delta"].get("content") or "" for event in events]
                self.assertEqual(text, "".join(deltas))

    def test_a_character_that_max_tokens_cuts_becomes_one_replacement_character_at_the_end(self):
        _, answer = self.server.complete(**self.forced("x" + CAT))
        count = answer["usage"]["completion_tokens"]
        self.assertGreater(count, 3)  # the cat alone takes several tokens
        seen = set()
        for max_tokens in range(1, count):
            with self.subTest(max_tokens=max_tokens):
                body = self.forced("x" + CAT, max_tokens=max_tokens)
                whole = self.server.complete(**body)[0]["text"]
                pieces = self.stream(body)
                self.assertEqual(whole, "".join(pieces))
                self.assertIn(whole, ("x", "x\ufffd", "x" + CAT))
                self.assertNotIn("\ufffd", "".join(pieces[:-1]))
                seen.add(whole)
        self.assertGreaterEqual(len(seen), 1)

    def test_a_stop_string_within_wide_characters_is_found(self):
        choice, _ = self.server.complete(**self.forced("a" + CAT + "b" + CAT + "c", stop=CAT + "c"))
        self.assertEqual("a" + CAT + "b", choice["text"])
        self.assertEqual("stop", choice["finish_reason"])

    def test_logprobs_give_the_bytes_of_parts_of_characters(self):
        body = {"messages": [{"role": "user", "content": "Say it."}], "temperature": 0, "max_tokens": 200,
                "logprobs": True, "structured_outputs": {"choice": [CAT + "\u8d4b"]}}
        answer = self.server.post("/v1/chat/completions", body).json()
        entries = answer["choices"][0]["logprobs"]["content"]
        joined = b"".join(bytes(entry["bytes"]) for entry in entries)
        self.assertEqual((CAT + "\u8d4b").encode(), joined.partition(b"<|")[0])

    def test_the_first_piece_keeps_its_space_after_a_prompt_that_ends_in_one(self):
        pieces = self.stream(self.forced("  two", prompt="one "))
        self.assertEqual("  two", "".join(pieces))


if __name__ == "__main__":
    main()
