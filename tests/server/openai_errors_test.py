"""What the official `openai` package makes of the server's errors."""

import signal
import threading

import openai
from openai_client import ClientTest, connect, user
from paused import other_threads_paused
from server import Server, main


class OpenAiErrors(ClientTest):
    def refusal(self, kind, call, *arguments, **fields):
        with self.assertRaises(kind) as caught:
            call(*arguments, **fields)
        self.assertIs(kind, type(caught.exception))
        return caught.exception

    def test_a_bad_value_is_a_bad_request_that_names_the_field(self):
        error = self.refusal(openai.BadRequestError, self.complete, "x", temperature=-1)
        self.assertEqual(400, error.status_code)
        self.assertEqual("temperature", error.param)
        self.assertIn("temperature", error.message)
        self.assertEqual("BadRequestError", error.type)

    def test_a_stream_that_cannot_begin_is_an_error_not_an_event(self):
        self.refusal(openai.BadRequestError, self.chat, user("x"), stream=True, top_p=2)

    def test_too_long_a_prompt_is_a_bad_request_with_openai_s_code(self):
        error = self.refusal(openai.BadRequestError, self.complete, [1000] * 8192)
        self.assertEqual("context_length_exceeded", error.code)
        self.assertIn("8192", error.message)

    def test_an_unknown_model_is_not_found(self):
        error = self.refusal(openai.NotFoundError, self.client.completions.create, model="gpt-4", prompt="x")
        self.assertEqual("model_not_found", error.code)
        self.assertIn("gpt-4", error.message)

    def test_an_api_that_is_not_there_is_not_found(self):
        self.refusal(openai.NotFoundError, self.client.embeddings.create, model=self.model, input="x")

    def test_a_schema_that_cannot_be_is_a_bad_request(self):
        schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
        self.refusal(openai.BadRequestError, self.chat, user("x"), response_format=schema)

    def test_tool_choice_without_such_a_tool_is_a_bad_request(self):
        error = self.refusal(openai.BadRequestError, self.chat, user("x"),
                             tool_choice={"type": "function", "function": {"name": "nothing"}})
        self.assertEqual("tool_choice", error.param)

    def test_errors_carry_the_request_s_id(self):
        error = self.refusal(openai.BadRequestError, self.complete, "x", top_p=2,
                             extra_headers={"X-Request-Id": "mine"})
        self.assertEqual("mine", error.request_id)


class OpenAiKeys(ClientTest):
    ARGUMENTS = ("--api-key", "key-of-one", "--api-key", "key-of-two")

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server(*cls.ARGUMENTS))

    def test_each_key_is_let_in(self):
        for key in ("key-of-one", "key-of-two"):
            with self.subTest(key=key), connect(self.server, api_key=key) as client:
                self.assertEqual(1, len(client.models.list().data))

    def test_a_wrong_key_is_an_authentication_error(self):
        with connect(self.server, api_key="key-of-three") as client:
            with self.assertRaises(openai.AuthenticationError) as caught:
                client.models.list()
        self.assertEqual("invalid_api_key", caught.exception.code)
        self.assertNotIn("key-of", caught.exception.message)

    def test_keys_do_not_share_cached_prompts(self):
        prompt = list(range(1000, 1100))
        cached = []
        for key in ("key-of-one", "key-of-two", "key-of-two"):
            with connect(self.server, api_key=key) as client:
                answer = client.completions.create(model="", prompt=prompt, max_tokens=1, temperature=0)
                cached.append(answer.usage.prompt_tokens_details.cached_tokens)
        self.assertEqual([0, 0], cached[:2])
        self.assertGreaterEqual(cached[2], 96)


class OpenAiBusyServer(ClientTest):
    ARGUMENTS = ("--max-concurrent-requests", "1")

    def test_one_request_too_many_is_a_rate_limit_error_and_a_retry_gets_through(self):
        stream = self.complete("Once upon a time", max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        with self.assertRaises(openai.RateLimitError) as caught:
            self.complete("x", max_tokens=1)
        self.assertEqual(429, caught.exception.status_code)
        self.assertEqual("1", caught.exception.response.headers["retry-after"])

        with connect(self.server, max_retries=20) as patient:
            answers = []
            thread = threading.Thread(target=lambda: answers.append(
                patient.completions.create(model=self.model, prompt="x", max_tokens=1)))
            thread.start()
            stream.close()  # what lets the other request in
            thread.join(60)
            self.assertEqual(1, len(answers))


class OpenAiUnreadyServer(ClientTest):
    @classmethod
    def setUpClass(cls):
        pass

    def test_a_request_while_the_server_shuts_down_is_a_503(self):
        with Server() as server, connect(server) as client:
            # The connection that asks stays open: it had a request under way when the signal came.
            stream = client.completions.create(model="", prompt="Once", max_tokens=300, stream=True,
                                               extra_body={"ignore_eos": True})
            next(iter(stream))
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("draining")
            with self.assertRaises(openai.APIStatusError) as caught:
                client.completions.create(model="", prompt="x", max_tokens=1)
            self.assertEqual(503, caught.exception.status_code)
            self.assertEqual("shutting_down", caught.exception.code)
            self.assertEqual(0, server.stop())

    def test_a_request_while_the_model_is_loaded_is_a_503(self):
        with Server(wait=False) as server, connect(server) as client:
            try:
                with other_threads_paused(server.process.pid):
                    with self.assertRaises(openai.APIStatusError) as caught:
                        client.completions.create(model="", prompt="x", max_tokens=1)
            except PermissionError as error:
                self.skipTest(f"threads cannot be paused: {error}")
            self.assertEqual(503, caught.exception.status_code)
            self.assertEqual("loading", caught.exception.code)
            server.wait_for_log("ready: ")
            self.assertEqual(1, len(client.models.list().data))


if __name__ == "__main__":
    main()
