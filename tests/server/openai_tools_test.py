"""Tools and structured answers through the official `openai` package."""

import json

from openai_client import CLOCK, WEATHER, ClientTest, user
from server import main

TOOLS = [WEATHER, CLOCK]
QUESTION = user("What is the weather in Paris?")
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12},
                   "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def accumulated(chunks):
    """The tool calls that a stream's deltas make up: [(id, name, arguments)], and the finish reason."""
    calls, reason = {}, None
    for chunk in chunks:
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            for delta in choice.delta.tool_calls or []:
                call = calls.setdefault(delta.index, ["", "", ""])
                call[0] += delta.id or ""
                call[1] += (delta.function.name or "")
                call[2] += (delta.function.arguments or "")
    return [tuple(calls[index]) for index in sorted(calls)], reason


class OpenAiTools(ClientTest):
    def ask(self, **fields):
        return self.chat(QUESTION, max_completion_tokens=100, **fields)

    def check_weather(self, arguments):
        arguments = json.loads(arguments)
        self.assertEqual(["city"], list(arguments))
        self.assertIn(arguments["city"], ["Paris", "Oslo"])

    def check_call(self, name, arguments):
        if name == "get_weather":
            return self.check_weather(arguments)
        self.assertEqual("get_time", name)
        self.assertIn(json.loads(arguments)["hour"], range(24))

    def test_a_named_function_is_called_with_arguments_of_its_schema(self):
        choice = self.ask(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "get_weather"}}).choices[0]
        (call,) = choice.message.tool_calls
        self.assertEqual(("function", "get_weather"), (call.type, call.function.name))
        self.check_weather(call.function.arguments)
        self.assertTrue(call.id)
        self.assertFalse(choice.message.content)
        self.assertEqual("stop", choice.finish_reason)  # OpenAI's reason for a forced function

    def test_required_calls_some_function(self):
        choice = self.ask(tools=TOOLS, tool_choice="required", parallel_tool_calls=False).choices[0]
        (call,) = choice.message.tool_calls
        self.check_call(call.function.name, call.function.arguments)
        self.assertEqual("tool_calls", choice.finish_reason)

    def test_a_named_call_streams_its_arguments(self):
        chunks = list(self.ask(tools=TOOLS, stream=True,
                               tool_choice={"type": "function", "function": {"name": "get_weather"}}))
        ((call_id, name, arguments),), reason = accumulated(chunks)
        self.assertTrue(call_id)
        self.assertEqual("get_weather", name)  # said once, not in each delta
        self.check_weather(arguments)
        self.assertEqual("stop", reason)
        self.assertEqual("", "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices))

    def test_a_required_call_streams(self):
        fields = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
        whole = self.ask(**fields).choices[0].message.tool_calls
        calls, reason = accumulated(self.ask(stream=True, **fields))
        self.assertEqual([(call.function.name, call.function.arguments) for call in whole],
                         [call[1:] for call in calls])
        self.assertEqual("tool_calls", reason)

    def test_auto_answers_in_words_or_with_calls_alike_whole_and_streamed(self):
        whole = self.ask(tools=TOOLS, tool_choice="auto").choices[0]
        chunks = list(self.ask(tools=TOOLS, tool_choice="auto", stream=True))
        calls, reason = accumulated(chunks)
        self.assertEqual(whole.finish_reason, reason)
        self.assertEqual([(c.function.name, c.function.arguments) for c in whole.message.tool_calls or []],
                         [call[1:] for call in calls])
        self.assertEqual(whole.message.content or "",
                         "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices))

    def test_auto_reads_a_call_that_the_model_spells(self):
        spelled = '<tool_call>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]</tool_call>'
        fields = {"tools": TOOLS, "extra_body": {"structured_outputs": {"choice": [spelled]}}}
        choice = self.ask(**fields).choices[0]
        self.assertEqual("tool_calls", choice.finish_reason)
        self.assertEqual([("get_weather", {"city": "Oslo"})],
                         [(c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls])
        chunks = list(self.ask(stream=True, **fields))
        calls, reason = accumulated(chunks)
        self.assertEqual(("get_weather", {"city": "Oslo"}), (calls[0][1], json.loads(calls[0][2])))
        self.assertEqual("tool_calls", reason)
        self.assertEqual("", "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices))

    def test_tool_choice_none_calls_nothing(self):
        choice = self.ask(tools=TOOLS, tool_choice="none").choices[0]
        self.assertFalse(choice.message.tool_calls)
        self.assertTrue(choice.message.content)

    def test_a_call_and_its_result_go_back_into_the_conversation(self):
        call = {"id": "call_1", "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
        history = QUESTION + [{"role": "assistant", "content": None, "tool_calls": [call]},
                              {"role": "tool", "tool_call_id": "call_1", "content": '{"sky": "clear"}'}]
        answer = self.chat(history, tools=TOOLS)
        self.assertTrue(answer.choices[0].message.content or answer.choices[0].message.tool_calls)
        self.assertGreater(answer.usage.prompt_tokens, self.chat(QUESTION, tools=TOOLS).usage.prompt_tokens)


class OpenAiStructuredAnswers(ClientTest):
    def check_person(self, text):
        person = json.loads(text)
        self.assertEqual(["name", "age"], list(person))
        self.assertIsInstance(person["name"], str)
        self.assertIn(person["age"], range(121))

    def response_format(self):
        return {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}

    def test_a_message_follows_the_schema(self):
        choice = self.chat(user("Describe a person."), max_completion_tokens=100,
                           response_format=self.response_format()).choices[0]
        self.assertEqual("stop", choice.finish_reason)
        self.check_person(choice.message.content)

    def test_a_streamed_message_follows_the_schema(self):
        chunks = self.chat(user("Describe a person."), max_completion_tokens=100, stream=True,
                           response_format=self.response_format())
        self.check_person("".join(c.delta.content or "" for chunk in chunks for c in chunk.choices))

    def test_the_schema_binds_each_sampled_choice(self):
        answer = self.chat(user("Describe a person."), max_completion_tokens=100,
                           response_format=self.response_format(), n=4, temperature=0.7, seed=1)
        finished = [choice for choice in answer.choices if choice.finish_reason == "stop"]
        self.assertGreater(len(finished), 0)
        for choice in finished:
            self.check_person(choice.message.content)
        self.assertGreater(len({choice.message.content for choice in finished}), 1)

    def test_json_object_gives_an_object(self):
        choice = self.chat(user("Answer with JSON."), max_completion_tokens=200, stop="}",
                           response_format={"type": "json_object"}).choices[0]
        self.assertTrue(choice.message.content.lstrip().startswith("{"), choice.message.content)
        if choice.finish_reason == "stop":
            self.assertIsInstance(json.loads(choice.message.content + "}"), dict)

    def test_the_package_parses_a_pydantic_model(self):
        from pydantic import BaseModel, Field

        class Person(BaseModel):
            name: str = Field(max_length=12)
            age: int = Field(ge=0, le=120)

        answer = self.client.chat.completions.parse(
            model=self.model, messages=user("Describe a person."), temperature=0, max_completion_tokens=100,
            response_format=Person)
        self.assertIn(answer.choices[0].message.parsed.age, range(121))


if __name__ == "__main__":
    main()
