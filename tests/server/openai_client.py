"""The official `openai` package as a client of a test's server, and what its tests share."""

import os
import unittest

os.environ["NO_PROXY"] = "*"

import openai  # noqa: E402

from server import Server  # noqa: E402

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Paris", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "get_time",
        "parameters": {
            "type": "object",
            "properties": {"hour": {"type": "integer", "minimum": 0, "maximum": 23}},
            "required": ["hour"],
            "additionalProperties": False,
        },
    },
}


def connect(server, **options):
    """A client that does not retry, so that a test sees the first answer."""
    options = {"api_key": "none", "max_retries": 0, "timeout": 120, **options}
    return openai.OpenAI(base_url=server.base_url + "/v1", **options)


def user(text):
    return [{"role": "user", "content": text}]


class ClientTest(unittest.TestCase):
    """One server and one client for the tests of a class."""

    ARGUMENTS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server(*cls.ARGUMENTS))
        cls.client = cls.enterClassContext(connect(cls.server))
        cls.model = cls.client.models.list().data[0].id

    def chat(self, messages, **fields):
        fields = {"temperature": 0, "max_completion_tokens": 16, **fields}
        return self.client.chat.completions.create(model=self.model, messages=messages, **fields)

    def complete(self, prompt, **fields):
        fields = {"temperature": 0, "max_tokens": 16, **fields}
        return self.client.completions.create(model=self.model, prompt=prompt, **fields)
