"""Completions and conversations through the official `openai` package: whole and streamed."""

import asyncio
import math

import openai
from openai_client import ClientTest, user
from server import ids, main

COUNTING = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,"


class OpenAiModels(ClientTest):
    ARGUMENTS = ("--served-model-name", "smol", "--served-model-name", "small")

    def test_lists_each_name_that_the_model_is_served_under(self):
        models = self.client.models.list()
        self.assertEqual(["smol", "small"], [model.id for model in models])
        self.assertEqual("model", models.data[0].object)
        self.assertGreater(models.data[0].created, 0)

    def test_any_served_name_is_accepted_and_the_first_stands_in_the_answer(self):
        answer = self.client.completions.create(model="small", prompt="Hello", max_tokens=1)
        self.assertEqual("smol", answer.model)


class OpenAiCompletions(ClientTest):
    def test_answers_a_prompt(self):
        answer = self.complete(COUNTING)
        self.assertEqual("text_completion", answer.object)
        self.assertTrue(answer.id.startswith("cmpl-"))
        self.assertTrue(answer.choices[0].text.startswith(" 13, 14, 15"), answer.choices[0].text)
        self.assertEqual("length", answer.choices[0].finish_reason)
        self.assertEqual(16, answer.usage.completion_tokens)
        self.assertEqual(answer.usage.prompt_tokens + 16, answer.usage.total_tokens)

    def test_the_pieces_of_a_stream_make_up_the_whole_answer(self):
        whole = self.complete(COUNTING)
        chunks = list(self.complete(COUNTING, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(whole.choices[0].text,
                         "".join(choice.text for chunk in chunks for choice in chunk.choices))
        self.assertGreater(len(chunks), 8)
        self.assertEqual({whole.usage.total_tokens},
                         {chunk.usage.total_tokens for chunk in chunks if chunk.usage})
        self.assertEqual([], chunks[-1].choices)
        self.assertEqual(1, len({chunk.id for chunk in chunks}))

    def test_a_stream_has_no_usage_unless_it_is_asked_for(self):
        chunks = list(self.complete(COUNTING, stream=True, max_tokens=2))
        self.assertEqual([None] * len(chunks), [chunk.usage for chunk in chunks])
        self.assertEqual("length", chunks[-1].choices[0].finish_reason)

    def test_n_gives_choices_that_a_seed_repeats(self):
        first, second = (self.complete("Once upon a time", n=3, temperature=1, seed=7) for _ in range(2))
        self.assertEqual([0, 1, 2], [choice.index for choice in first.choices])
        self.assertEqual(3, len({choice.text for choice in first.choices}))
        self.assertEqual([c.text for c in first.choices], [c.text for c in second.choices])
        self.assertEqual(48, first.usage.completion_tokens)

    def test_logprobs_are_those_of_the_chosen_tokens(self):
        answer = self.complete(COUNTING, logprobs=3, max_tokens=4)
        logprobs = answer.choices[0].logprobs
        self.assertEqual(answer.choices[0].text, "".join(logprobs.tokens))
        for token, value, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
            self.assertEqual(3, len(top))
            self.assertEqual(max(top.values()), value)  # greedy
            self.assertEqual(value, top[token])
            self.assertLess(sum(map(math.exp, top.values())), 1.0001)
        offsets = [sum(map(len, logprobs.tokens[:i])) for i in range(4)]
        self.assertEqual(offsets, [offset - logprobs.text_offset[0] for offset in logprobs.text_offset])

    def test_several_prompts_give_one_choice_each_in_order(self):
        prompts = ["A B C D E F", COUNTING]
        alone = [self.complete(prompt).choices[0].text for prompt in prompts]
        self.assertEqual(alone, [choice.text for choice in self.complete(prompts).choices])

    def test_stop_ends_the_text_before_the_string(self):
        answer = self.complete(COUNTING, stop=["15", "never"])
        self.assertEqual(" 13, 14, ", answer.choices[0].text)
        self.assertEqual("stop", answer.choices[0].finish_reason)

    def test_echo_puts_the_prompt_first(self):
        self.assertTrue(self.complete(COUNTING, echo=True, max_tokens=3).choices[0].text.startswith(COUNTING))

    def test_extra_body_reaches_what_vllm_adds(self):
        answer = self.complete(ids(20), max_tokens=4, extra_body={
            "top_k": 1, "ignore_eos": True, "return_token_ids": True, "allowed_token_ids": [11, 12]})
        self.assertEqual(ids(20), answer.choices[0].prompt_token_ids)
        self.assertEqual(4, len(answer.choices[0].token_ids))
        self.assertLessEqual(set(answer.choices[0].token_ids), {11, 12})

    def test_extra_body_carries_structured_outputs(self):
        answer = self.complete("Answer yes or no:", extra_body={"structured_outputs": {"choice": ["maybe", "never"]}})
        self.assertIn(answer.choices[0].text, ["maybe", "never"])
        self.assertEqual("stop", answer.choices[0].finish_reason)

    def test_usage_counts_the_cached_part_of_a_prompt(self):
        prompt = ids(100, first=2000)
        cold, warm = (self.complete(prompt, max_tokens=4) for _ in range(2))
        self.assertEqual(0, cold.usage.prompt_tokens_details.cached_tokens)
        self.assertGreaterEqual(warm.usage.prompt_tokens_details.cached_tokens, 96)
        self.assertLess(warm.usage.prompt_tokens_details.cached_tokens, 100)
        self.assertEqual(cold.choices[0].text, warm.choices[0].text)

    def test_cache_salts_do_not_share(self):
        prompt = ids(100, first=3000)
        cached = [self.complete(prompt, max_tokens=1, extra_body={"cache_salt": salt})
                  .usage.prompt_tokens_details.cached_tokens for salt in ("a", "b", "a")]
        self.assertEqual([0, 0], cached[:2])
        self.assertGreaterEqual(cached[2], 96)


class OpenAiConversations(ClientTest):
    def test_answers_a_message(self):
        answer = self.chat(user("What is the capital of France?"))
        self.assertEqual("chat.completion", answer.object)
        self.assertEqual("assistant", answer.choices[0].message.role)
        self.assertTrue(answer.choices[0].message.content)
        self.assertIsNone(answer.choices[0].message.tool_calls)
        self.assertLessEqual(answer.usage.completion_tokens, 16)

    def test_the_deltas_of_a_stream_make_up_the_message(self):
        whole = self.chat(user("Count to ten."))
        chunks = list(self.chat(user("Count to ten."), stream=True, stream_options={"include_usage": True}))
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        self.assertEqual("assistant", deltas[0].role)
        self.assertEqual(whole.choices[0].message.content, "".join(delta.content or "" for delta in deltas))
        reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
        self.assertEqual([None] * (len(reasons) - 1) + [whole.choices[0].finish_reason], reasons)
        self.assertEqual(whole.usage.completion_tokens, chunks[-1].usage.completion_tokens)
        self.assertEqual(whole.usage.prompt_tokens, chunks[-1].usage.prompt_tokens)

    def test_the_package_s_own_accumulation_of_a_stream_agrees(self):
        fields = {"messages": user("Are you well?"), "temperature": 0,
                  "extra_body": {"structured_outputs": {"choice": ["Yes, very.", "No, not at all."]}}}
        whole = self.client.chat.completions.create(model=self.model, **fields)
        with self.client.chat.completions.stream(model=self.model, **fields) as stream:
            final = stream.get_final_completion()
        self.assertEqual(whole.choices[0].message.content, final.choices[0].message.content)
        self.assertEqual("stop", final.choices[0].finish_reason)

    def test_n_streams_each_choice_under_its_index(self):
        fields = {"n": 2, "temperature": 1, "seed": 3}
        whole = self.chat(user("Tell me a story."), **fields)
        texts = {0: "", 1: ""}
        for chunk in self.chat(user("Tell me a story."), stream=True, **fields):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        self.assertEqual([c.message.content for c in whole.choices], [texts[0], texts[1]])
        self.assertNotEqual(texts[0], texts[1])

    def test_top_logprobs_name_the_chosen_token_first(self):
        choice = self.chat(user("Hello!"), logprobs=True, top_logprobs=2, max_completion_tokens=4).choices[0]
        self.assertEqual(choice.message.content, "".join(entry.token for entry in choice.logprobs.content))
        for entry in choice.logprobs.content:
            self.assertEqual(2, len(entry.top_logprobs))
            self.assertEqual(entry.token, entry.top_logprobs[0].token)
            self.assertEqual(entry.logprob, entry.top_logprobs[0].logprob)
            self.assertEqual(entry.token, bytes(entry.bytes).decode())

    def test_logprobs_come_with_the_chunks_of_a_stream(self):
        chunks = list(self.chat(user("Hello!"), logprobs=True, stream=True, max_completion_tokens=4))
        entries = [entry for chunk in chunks for choice in chunk.choices if choice.logprobs
                   for entry in choice.logprobs.content]
        whole = self.chat(user("Hello!"), logprobs=True, max_completion_tokens=4).choices[0].logprobs.content
        self.assertEqual([(e.token, e.logprob) for e in whole], [(e.token, e.logprob) for e in entries])

    def test_stop_ends_a_message(self):
        whole = self.chat(user("Count to ten."), max_completion_tokens=32).choices[0].message.content
        stop = whole[10:14]
        choice = self.chat(user("Count to ten."), max_completion_tokens=32, stop=stop).choices[0]
        self.assertEqual("stop", choice.finish_reason)
        self.assertEqual(whole[:whole.index(stop)], choice.message.content)

    def test_content_in_parts_is_the_same_as_a_text(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": "Count to ten."}]}]
        self.assertEqual(self.chat(user("Count to ten.")).choices[0].message.content,
                         self.chat(parts).choices[0].message.content)

    def test_the_raw_response_carries_the_request_s_id(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model=self.model, messages=user("Hi"), max_completion_tokens=1,
            extra_headers={"X-Request-Id": "from-the-client-1"})
        self.assertEqual("from-the-client-1", raw.headers["x-request-id"])
        self.assertEqual("from-the-client-1", raw.request_id)
        self.assertEqual("chatcmpl-from-the-client-1", raw.parse().id)

    def test_many_asynchronous_streams_at_once_say_what_each_says_alone(self):
        questions = [f"What is {i} and {i}?" for i in range(8)]

        async def ask(client, question):
            stream = await client.chat.completions.create(
                model=self.model, messages=user(question), temperature=0, max_completion_tokens=12, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        async def ask_all():
            url = self.server.base_url + "/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
                return await asyncio.gather(*(ask(client, question) for question in questions))

        alone = [self.chat(user(q), max_completion_tokens=12).choices[0].message.content for q in questions]
        self.assertEqual(alone, asyncio.run(ask_all()))

    def test_a_drawn_request_id_reaches_the_answer(self):
        first, second = (self.chat(user("Hi"), max_completion_tokens=1) for _ in range(2))
        self.assertTrue(first._request_id)
        self.assertNotEqual(first._request_id, second._request_id)


if __name__ == "__main__":
    main()
