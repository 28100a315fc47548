"""Several completions of one prompt: each has its own state."""

import collections

import server
from server import ServerTest, ids

PROMPT = "Once upon a time"


def gather(events):
    """index -> what a stream said about that completion."""
    choices = collections.defaultdict(
        lambda: {"text": "", "token_ids": [], "tokens": [], "token_logprobs": [], "offsets": [],
                 "finish_reasons": []})
    for event in events:
        for part in event["choices"]:
            choice = choices[part["index"]]
            choice["text"] += part["text"]
            choice["token_ids"] += part.get("token_ids") or []
            if part["logprobs"]:
                choice["tokens"] += part["logprobs"]["tokens"]
                choice["token_logprobs"] += part["logprobs"]["token_logprobs"]
                choice["offsets"] += part["logprobs"]["text_offset"]
            if part["finish_reason"]:
                choice["finish_reasons"].append((part["finish_reason"], part["stop_reason"]))
    return choices


class ChoicesTest(ServerTest):
    """G1"""

    options = ("--max-model-len", 512)

    # Stops at the first full stop, so that the completions are of different lengths.
    body = {"prompt": PROMPT, "n": 3, "max_tokens": 40, "temperature": 1, "seed": 11, "stop": ".",
            "logprobs": 1, "return_token_ids": True}

    def whole(self, **fields):
        answer = self.server.post("/v1/completions", {**self.body, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def test_each_choice_has_its_own_text_logprobs_and_end(self):
        answer = self.whole()
        choices = answer["choices"]
        self.assertEqual([choice["index"] for choice in choices], [0, 1, 2])
        lengths = [len(choice["token_ids"]) for choice in choices]
        self.assertEqual(len({choice["text"] for choice in choices}), 3)
        self.assertGreater(len(set(lengths)), 1, "the seed gives completions of one length")
        for choice, length in zip(choices, lengths):
            self.assertEqual(len(choice["logprobs"]["tokens"]), length)
            self.assertEqual(len(choice["logprobs"]["token_logprobs"]), length)
            self.assertEqual(len(choice["logprobs"]["top_logprobs"]), length)
            said = "".join(choice["logprobs"]["tokens"])
            if choice["finish_reason"] == "length":
                self.assertEqual(length, 40)
                self.assertEqual(said, choice["text"])
                self.assertIsNone(choice["stop_reason"])
            else:
                self.assertEqual(choice["finish_reason"], "stop")
                self.assertEqual(choice["stop_reason"], ".")
                self.assertLess(length, 40)
                self.assertTrue(said.startswith(choice["text"] + "."))
        usage = answer["usage"]
        num_prompt = self.server.post("/tokenize", {"prompt": PROMPT}).json()["count"]
        self.assertEqual(usage["prompt_tokens"], num_prompt)
        self.assertEqual(usage["completion_tokens"], sum(lengths))
        self.assertEqual(usage["total_tokens"], num_prompt + sum(lengths))

    def test_one_completion_may_reach_the_limit_while_another_stops(self):
        reasons = collections.Counter(
            choice["finish_reason"] for choice in self.whole(n=8, max_tokens=14)["choices"])
        self.assertEqual(set(reasons), {"stop", "length"})

    def test_a_stream_names_the_choice_of_each_piece_and_says_the_same(self):
        whole = self.whole()
        events = self.server.events(
            "/v1/completions", {**self.body, "stream_options": {"include_usage": True}})
        self.assertEqual(events[-1]["choices"], [])
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(events[-1]["usage"][key], whole["usage"][key])
        streamed = gather(events)
        self.assertEqual(sorted(streamed), [0, 1, 2])
        for choice in whole["choices"]:
            said = streamed[choice["index"]]
            self.assertEqual(said["text"], choice["text"])
            self.assertEqual(said["token_ids"], choice["token_ids"])
            self.assertEqual(said["tokens"], choice["logprobs"]["tokens"])
            self.assertEqual(said["token_logprobs"], choice["logprobs"]["token_logprobs"])
            self.assertEqual(said["offsets"], choice["logprobs"]["text_offset"])
            self.assertEqual(said["finish_reasons"],
                             [(choice["finish_reason"], choice["stop_reason"])])

    def test_a_conversation_streams_its_choices_as_it_gives_them_whole(self):
        body = {"messages": [{"role": "user", "content": "Name an animal."}], "n": 3, "seed": 5,
                "temperature": 1.5, "max_tokens": 24, "logprobs": True, "top_logprobs": 2}
        answer = self.server.post("/v1/chat/completions", body)
        self.assertEqual(answer.status, 200, answer.body)
        whole = answer.json()
        events = self.server.events("/v1/chat/completions",
                                    {**body, "stream_options": {"include_usage": True}})
        texts, roles, logprobs, reasons = ({i: [] for i in range(3)} for _ in range(4))
        for event in events:
            for part in event["choices"]:
                index = part["index"]
                texts[index].append(part["delta"].get("content") or "")
                roles[index].append(part["delta"].get("role"))
                logprobs[index] += part["logprobs"]["content"] if part["logprobs"] else []
                reasons[index].append(part["finish_reason"])
        self.assertEqual([choice["index"] for choice in whole["choices"]], [0, 1, 2])
        for choice in whole["choices"]:
            index = choice["index"]
            self.assertEqual("".join(texts[index]), choice["message"]["content"])
            self.assertEqual(logprobs[index], choice["logprobs"]["content"])
            self.assertEqual([r for r in roles[index] if r], ["assistant"])
            self.assertEqual(roles[index][0], "assistant")
            self.assertEqual([r for r in reasons[index] if r], [choice["finish_reason"]])
            self.assertIsNotNone(reasons[index][-1])
        self.assertEqual(events[-1]["usage"]["completion_tokens"],
                         whole["usage"]["completion_tokens"])
        self.assertEqual(whole["usage"]["completion_tokens"],
                         sum(len(choice["logprobs"]["content"]) for choice in whole["choices"]))

    def test_a_choice_does_not_depend_on_how_many_there_are(self):
        three = self.whole()["choices"]
        one = self.whole(n=1)["choices"]
        self.assertEqual(one[0], three[0])

    def test_a_batch_counts_its_choices_through(self):
        """Choice i of prompt p has the index 3p + i; the prompts are counted once each."""
        answer = self.whole(prompt=[ids(5), ids(7, 3000)], stop=None, max_tokens=4, ignore_eos=True)
        self.assertEqual([choice["index"] for choice in answer["choices"]], list(range(6)))
        prompts = [choice["prompt_token_ids"] for choice in answer["choices"]]
        self.assertEqual(prompts, [ids(5)] * 3 + [ids(7, 3000)] * 3)
        self.assertEqual(answer["usage"]["prompt_tokens"], 12)
        self.assertEqual(answer["usage"]["completion_tokens"], 24)
        events = self.server.events(
            "/v1/completions", {**self.body, "prompt": [ids(5), ids(7, 3000)], "stop": None,
                                "max_tokens": 4, "ignore_eos": True})
        streamed = gather(events)
        for choice in answer["choices"]:
            self.assertEqual(streamed[choice["index"]]["text"], choice["text"])

    def test_greedy_choices_are_all_the_same(self):
        choices = self.whole(temperature=0)["choices"]
        self.assertEqual(len({choice["text"] for choice in choices}), 1)

    def test_one_choice_is_the_default_and_may_be_said(self):
        for n in (1, None, 1.0):
            self.assertEqual(len(self.whole(n=n, max_tokens=2)["choices"]), 1)

    def test_no_choices_and_fewer_are_refused(self):
        for route, prompt in (("/v1/completions", {"prompt": "a"}),
                              ("/v1/chat/completions",
                               {"messages": [{"role": "user", "content": "a"}]})):
            for value in (0, -1, -2**40, 1.5, "2", True, 10**9, 2**64):
                with self.subTest(route=route, n=value):
                    self.assert_refused(self.server.post(route, {**prompt, "n": value}), param="n")

    def test_best_of_less_than_n_is_refused(self):
        body = {"prompt": "a", "n": 2, "max_tokens": 1}
        for best_of in (1, 0, -1):
            answer = self.server.post("/v1/completions", {**body, "best_of": best_of})
            self.assert_refused(answer, param="best_of")
        answer = self.server.post("/v1/completions", {**body, "best_of": 2})
        self.assertEqual(answer.status, 200, answer.body)


if __name__ == "__main__":
    server.main()
