"""Cases M1, K1 and K3: what a prompt may be, and that no character of it is lost."""

from server import ServerTest, ids, main

VOCABULARY = 49152


class PromptShapes(ServerTest):
    """M1."""

    def refused(self, prompt, *named):
        answer = self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
        error = self.assert_refused(answer, param="prompt")
        for name in named:
            self.assertIn(name, error["message"])

    def test_an_empty_prompt_is_refused_for_this_model_has_no_token_to_begin_with(self):
        self.refused("", "empty")

    def test_no_token_ids_are_refused(self):
        self.refused([])

    def test_an_empty_array_in_a_batch_is_refused_by_its_place(self):
        self.refused([[]], "prompt[0]")
        self.refused([[1, 2], []], "prompt[1]")

    def test_an_empty_text_in_a_batch_is_refused_by_its_place(self):
        self.refused(["x", ""], "prompt[1]")

    def test_a_space_is_a_prompt(self):
        _, answer = self.server.complete(" ", max_tokens=1)
        self.assertEqual(1, answer["usage"]["prompt_tokens"])

    def test_token_ids_outside_the_vocabulary_are_refused_by_index_and_value(self):
        for value in (-1, VOCABULARY, 5279552648203111001, 2**62, 2**64 - 1, 2**64, -2**63, 1e300):
            with self.subTest(value=value):
                text = "1e+300" if value == 1e300 else "e+19" if value == 2**64 else str(value)
                self.refused([7, value], "prompt[1]", text)
                self.refused([[7], [8, value]], "prompt[1][1]", text)

    def test_the_last_token_of_the_vocabulary_is_a_prompt(self):
        _, answer = self.server.complete([VOCABULARY - 1], max_tokens=1)
        self.assertEqual(1, answer["usage"]["prompt_tokens"])

    def test_what_is_no_token_id_is_refused_by_index_and_value(self):
        for prompt, *named in (([1.5], "prompt[0]", "1.5"), ([1, "a"], "prompt[1]", '"a"'),
                               ([1, True], "prompt[1]", "true"), ([1, None], "prompt[1]", "null"),
                               ([1, [2]], "prompt[1]"), ([1, {}], "prompt[1]"), ([[1, "a"]], "prompt[0][1]", '"a"'),
                               ([[1, [2]]], "prompt[0][1]")):
            with self.subTest(prompt=prompt):
                self.refused(prompt, *named)

    def test_mixed_batches_and_other_kinds_are_refused(self):
        for prompt in (["a", 1], [True], [None], [{}], {}, True, 5, 1.5, [[[1]]]):
            with self.subTest(prompt=prompt):
                self.refused(prompt)

    def test_no_prompt_is_refused(self):
        self.refused(None)
        self.assert_refused(self.server.post("/v1/completions", {"max_tokens": 1}), param="prompt")

    def test_a_batch_gives_a_choice_per_prompt_in_order(self):
        prompts = [ids(3), ids(9, first=2000), ids(40, first=3000), [1], [2]]
        alone = [self.server.complete(prompt, max_tokens=8)[0]["text"] for prompt in prompts]
        _, answer = self.server.complete(prompts, max_tokens=8)
        self.assertEqual(list(range(len(prompts))), [choice["index"] for choice in answer["choices"]])
        self.assertEqual(alone, [choice["text"] for choice in answer["choices"]])
        self.assertEqual(3 + 9 + 40 + 1 + 1, answer["usage"]["prompt_tokens"])

    def test_a_batch_with_n_numbers_the_choices_of_each_prompt_in_a_row(self):
        answer = self.server.post("/v1/completions", {
            "prompt": [ids(5), ids(6)], "n": 2, "seed": 1, "max_tokens": 4, "return_token_ids": True}).json()
        self.assertEqual([0, 1, 2, 3], [choice["index"] for choice in answer["choices"]])
        self.assertEqual([ids(5), ids(5), ids(6), ids(6)], [choice["prompt_token_ids"] for choice in answer["choices"]])

    def test_one_bad_prompt_of_a_batch_refuses_it_before_anything_is_computed(self):
        before = self.server.metrics()["vllm:prompt_tokens_total"]
        self.refused([ids(5), [-1]])
        self.assertEqual(before, self.server.metrics()["vllm:prompt_tokens_total"])

    def test_bodies_that_are_no_object_are_refused(self):
        for body in (b"", b"[]", b"null", b'"x"', b"{", b'{"prompt": "x",}', b"{'prompt': 'x'}", b'{"prompt": NaN}',
                     b'\xff\xfe{"prompt": "x"}', b'{"prompt": "\xff"}', b'{"prompt": "x"} {}'):
            with self.subTest(body=body):
                self.assert_refused(self.server.post("/v1/completions", body))

    def test_a_deeply_nested_body_is_refused(self):
        for body in (b"[" * 100_000, b'{"prompt": ' + b"[" * 100_000, b'{"x": ' * 100_000):
            self.assert_refused(self.server.post("/v1/completions", body))


class TextIsKept(ServerTest):
    """K3: no character is lost on the way in."""

    def tokens(self, text):
        answer = self.server.post("/tokenize", {"prompt": text})
        self.assertEqual(200, answer.status, answer.body)
        return answer.json()["tokens"]

    def test_a_nul_is_a_character_like_any_other(self):
        before, after = self.tokens("before"), self.tokens("before\0after, what is the last word?")
        self.assertEqual(before, after[:len(before)])
        self.assertGreater(len(after), len(before) + 6)
        text = self.server.post("/detokenize", {"tokens": after}).json()["prompt"]
        self.assertEqual("before\0after, what is the last word?", text)

    def test_what_follows_a_nul_in_a_message_is_read(self):
        counts = [self.server.chat(text, max_tokens=1)[1]["usage"]["prompt_tokens"]
                  for text in ("before", "before\0after, what is the last word?")]
        self.assertGreater(counts[1], counts[0] + 6)
        rendered = self.server.post("/v1/chat/completions/render", {
            "messages": [{"role": "user", "content": "before\0after"}]}).json()
        self.assertIn("before\0after", rendered["prompt"])

    def test_a_nul_in_a_stop_string_is_part_of_it(self):
        choice, _ = self.server.complete("1, 2, 3, 4,", max_tokens=8, stop="\0")
        self.assertEqual("length", choice["finish_reason"])

    def test_a_lone_surrogate_is_refused_or_replaced(self):
        for text in (b"\\ud800", b"x\\udc00y", b"\\ud800\\ud800"):
            with self.subTest(text=text):
                answer = self.server.post("/tokenize", b'{"prompt": "' + text + b'"}')
                self.assertIn(answer.status, (200, 400))
                if answer.status == 200:
                    back = self.server.post("/detokenize", {"tokens": answer.json()["tokens"]}).json()["prompt"]
                    self.assertIn("\ufffd", back)

    def test_a_pair_of_surrogates_is_one_character(self):
        answer = self.server.post("/tokenize", b'{"prompt": "\\ud83d\\ude38"}').json()
        self.assertEqual("\U0001f638", self.server.post("/detokenize", {"tokens": answer["tokens"]}).json()["prompt"])

    def test_half_a_character_becomes_a_replacement_character(self):
        whole = self.tokens("\U0001f638")
        self.assertGreater(len(whole), 1)
        for count in range(1, len(whole)):
            answer = self.server.post("/detokenize", {"tokens": whole[:count]})
            self.assertEqual(200, answer.status)
            self.assertIn("\ufffd", answer.json()["prompt"])

    def test_text_comes_back_from_its_tokens(self):
        """J3, the round trip."""
        for text in ("a    b", " leading x", "  two", "\n\n  code", "tab\tx", " " * 40 + "x", "\r\n", "é", "e\u0301",
                     "\u202ertl", "\ufeffbom", "\u0661\u0662\u0663", "\U0001f468\u200d\U0001f469\u200d\U0001f467"):
            with self.subTest(text=text):
                self.assertEqual(text, self.server.post("/detokenize", {"tokens": self.tokens(text)}).json()["prompt"])

    def test_numbers_are_split_as_the_model_was_trained(self):
        """K1. SmolLM2's own tokenizer gives each digit a token of its own (Digits(individual_digits=True))."""
        digit = {d: self.tokens(d) for d in "0123456789"}
        self.assertEqual([17 + ord("1") - ord("!")], digit["1"])  # 17 special tokens, then the bytes from "!" on
        for text in ("12", "123", "1234", "12345"):
            with self.subTest(text=text):
                self.assertEqual([digit[d][0] for d in text], self.tokens(text))
        for text in ("3.14159", "1,000,000", "0x1F", "a1b22"):
            with self.subTest(text=text):
                pieces = self.server.post("/tokenize", {"prompt": text, "return_token_strs": True}).json()["token_strs"]
                self.assertEqual(text, "".join(pieces))
                self.assertEqual([d for d in text if d.isdigit()], [p for p in pieces if any(c.isdigit() for c in p)])


if __name__ == "__main__":
    main()
