"""What the API has beyond OpenAI's: fields of vLLM's and Octavo's own, and limits that the command line sets."""

import json
import urllib.parse

import raw
import server
from server import ServerTest, ids

STREAM = {"prompt": ids(40), "max_tokens": 3, "temperature": 0}


class Fields(ServerTest):
    options = ("--block-size", 16)

    def test_an_explanation_names_each_block_of_the_prompt_in_answers_and_streams(self):
        body = {**STREAM, "prompt": ids(40, 5000), "explain": True}
        for path, fields in (("/v1/completions", body),
                             ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 40}],
                                                       "max_tokens": 3, "explain": True})):
            with self.subTest(path):
                whole = self.server.post(path, fields).json()
                explained = whole.get("explanation") or whole["choices"][0]["explanation"]
                self.assertEqual(len(explained), -(-whole["usage"]["prompt_tokens"] // 16))
                last = self.server.events(path, fields)[-1]
                self.assertEqual(last["choices"], [])
                self.assertEqual(len(last["explanation"]), len(explained))
                self.assertNotEqual(last["explanation"], explained)  # now it is in the cache
        answer = self.server.post("/v1/completions", {**body, "prompt": [ids(4), ids(5)], "stream": True})
        self.assert_refused(answer, param="explain")

    def test_a_stream_ends_with_the_times_that_were_asked_for(self):
        events = self.server.events("/v1/completions", {**STREAM, "include_metrics": True})
        self.assertEqual(events[-1]["choices"], [])
        self.assertGreater(events[-1]["metrics"]["time_to_first_token_ms"], 0)
        self.assertNotIn("usage", events[-1])

    def test_a_stream_begins_with_the_ids_of_its_prompt(self):
        events = self.server.events("/v1/completions", {**STREAM, "prompt": [ids(4), ids(5)], "return_token_ids": True})
        choices = [event["choices"][0] for event in events]
        shown = {choice["index"]: choice["prompt_token_ids"] for choice in choices if "prompt_token_ids" in choice}
        self.assertEqual(shown, {0: ids(4), 1: ids(5)})
        events = self.server.events("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}],
                                                             "max_tokens": 3, "return_token_ids": True})
        self.assertEqual([bool(event.get("prompt_token_ids")) for event in events], [True] + [False] * (len(events) - 1))

    def test_fields_that_would_change_the_answer_are_refused_where_they_are_not_supported(self):
        for name, value in (("bad_words", ["a"]), ("truncate_prompt_tokens", 5), ("prompt_embeds", "AA=="),
                            ("logprob_token_ids", [1]), ("thinking_token_budget", 5), ("allowed_token_ids", [])):
            with self.subTest(name):
                answer = self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, name: value})
                self.assert_refused(answer, param=name)
        self.server.complete("x", max_tokens=1, bad_words=[], truncate_prompt_tokens=None)

    def test_a_model_is_described_under_its_name(self):
        models = self.server.get("/v1/models").json()["data"]
        answer = self.server.get("/v1/models/" + urllib.parse.quote(models[0]["id"]))
        self.assertEqual(answer.json(), models[0])
        self.assert_refused(self.server.get("/v1/models/other"), status=404)
        self.assertEqual(self.server.get("/v1/models/").status, 404)

    def test_loads_count_the_place_of_a_running_request(self):
        idle = self.server.get("/v1/loads").json()["loads"][0]
        self.assertEqual((idle["num_running_reqs"], idle["num_used_tokens"]), (0, 0))
        with self.server.open_socket() as connection:
            connection.sendall(raw.post_text("/v1/completions", {"prompt": ids(40), "max_tokens": 1500, "ignore_eos": True}))
            busy = self.server.wait_until(
                lambda: next((load for load in self.server.get("/v1/loads").json()["loads"] if load["num_running_reqs"]), None))
        self.assertGreaterEqual(busy["num_used_tokens"], 40)
        self.assertEqual(busy["num_total_reqs"], 1)
        self.assertGreater(busy["token_usage"], 0)


class Pins(ServerTest):
    options = ("--block-size", 16, "--max-model-len", 512, "--kv-cache-memory-bytes", 16 << 20)  # 45 blocks

    def num_pins(self):
        return self.server.metrics()["octavo:kv_pins"]

    def tearDown(self):
        self.server.wait_until(lambda: self.num_pins() == 0)  # at rest, too
        super().tearDown()

    def evict_others(self):
        for first in range(3000, 6000, 500):
            self.server.complete(ids(200, first), max_tokens=1)

    def test_a_pinned_prompt_stays_and_another_is_evicted(self):
        self.server.complete(ids(64, 1000), max_tokens=1, pin_ttl_ms=3_600_000)
        self.server.complete(ids(64, 2000), max_tokens=1)
        self.assertEqual(self.num_pins(), 1)
        self.evict_others()
        cached = [self.server.complete(ids(64, first), max_tokens=1)[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
                  for first in (1000, 2000)]
        self.assertEqual(cached, [63, 0])
        self.assertEqual(self.server.post("/reset_prefix_cache", "").status, 200)  # ends pins, too

    def test_a_pin_ends_with_its_time_while_nothing_else_happens(self):
        self.server.complete(ids(64, 1000), max_tokens=1, pin_ttl_ms=1)
        self.server.wait_until(lambda: self.num_pins() == 0)

    def test_a_time_that_is_none_is_refused(self):
        for value in (0, -1, "1"):
            answer = self.server.post("/v1/completions", {"prompt": "x", "pin_ttl_ms": value})
            self.assert_refused(answer, param="pin_ttl_ms")


class Limits(ServerTest):
    options = ("--request-timeout", 1, "--idle-timeout", 1, "--max-prompts", 2, "--log-json", "--max-model-len", 8192)

    def test_a_request_that_takes_too_long_is_ended_with_a_status_of_its_own(self):
        body = {"prompt": ids(8), "max_tokens": 8000, "ignore_eos": True}
        error = self.assert_refused(self.server.post("/v1/completions", body), status=504)
        self.assertIn("1000 ms", error["message"])
        last = self.server.events("/v1/completions", body)[-1]
        self.assertEqual(last["error"]["code"], error["code"])

    def test_a_connection_that_asks_nothing_is_closed(self):
        with self.server.open_socket() as connection:
            connection.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(raw.read_to_end(connection).startswith(b"HTTP/1.1 200"))  # to its end, which comes

    def test_prompts_beyond_the_limit_are_refused(self):
        answer = self.server.post("/v1/completions", {"prompt": ["a", "b", "c"], "max_tokens": 1})
        self.assertIn("2", self.assert_refused(answer, param="prompt")["message"])

    def test_the_log_is_json_and_names_the_request(self):
        self.server.get("/version", headers={"X-Request-Id": "my-request"})
        found = self.server.wait_for_log("my-request")
        entry = json.loads(found.string)
        self.assertEqual(entry["request_id"], "my-request")
        for line in self.server.log_text().splitlines():
            json.loads(line)


class Grammars(ServerTest):
    def outputs(self, **kind):
        return {"prompt": "x", "max_tokens": 2, "temperature": 0, "structured_outputs": kind}

    def test_a_grammar_that_is_known_does_not_wait_for_others_that_are_compiled(self):
        known = self.outputs(json={"type": "integer"})
        self.assertEqual(self.server.post("/v1/completions", known).status, 200)
        slow = []
        for length in range(118, 122):
            connection = self.server.open_socket()
            self.addCleanup(connection.close)
            connection.sendall(raw.post_text("/v1/completions", self.outputs(json={"type": "string", "maxLength": length})))
            slow.append(connection)
        self.assertEqual(self.server.post("/v1/completions", known).status, 200)
        for connection in slow[2:]:  # two are compiled at a time
            connection.setblocking(False)
            self.assertRaises(BlockingIOError, connection.recv, 1)
        for connection in slow:
            raw.reset(connection)


class Tools(ServerTest):
    def test_a_required_tool_may_have_references_within_its_parameters(self):
        parameters = {"$defs": {"P": {"enum": ["left", "right"]}}, "type": "object", "required": ["side"],
                      "properties": {"side": {"$ref": "#/$defs/P"}}, "additionalProperties": False}
        tool = {"type": "function", "function": {"name": "turn", "parameters": parameters}}
        choice, _ = self.server.chat("Turn.", tools=[tool], tool_choice="required", parallel_tool_calls=False, max_tokens=60)
        call = choice["message"]["tool_calls"][0]["function"]
        self.assertEqual(call["name"], "turn")
        self.assertIn(json.loads(call["arguments"])["side"], ("left", "right"))


class Priority(ServerTest):
    def test_a_priority_without_its_policy_is_refused(self):
        answer = self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "priority": 5})
        error = self.assert_refused(answer)
        self.assertIn("--scheduling-policy priority", error["message"])
        self.server.complete("x", max_tokens=1, priority=0)


class PriorityPolicy(ServerTest):
    options = ("--scheduling-policy", "priority", "--max-num-seqs", 1)

    def test_the_more_urgent_of_two_that_wait_comes_first(self):
        def send(**fields):
            connection = self.server.open_socket()
            self.addCleanup(connection.close)
            connection.sendall(raw.post_text("/v1/completions", {"prompt": ids(8), "ignore_eos": True, **fields}))
            return connection

        def num_waiting():
            return self.server.metrics()["vllm:num_requests_waiting"]

        first = send(max_tokens=1500, priority=-5)
        self.server.wait_until(lambda: self.server.metrics()["vllm:num_requests_running"] == 1)
        later = send(max_tokens=1500, priority=3)
        self.server.wait_until(lambda: num_waiting() == 1)
        urgent = send(max_tokens=2, priority=-1)
        self.server.wait_until(lambda: num_waiting() == 2)
        first.close()
        self.assertTrue(urgent.recv(12).startswith(b"HTTP/1.1 200"))
        later.setblocking(False)
        self.assertRaises(BlockingIOError, later.recv, 1)
        later.close()


if __name__ == "__main__":
    server.main()
