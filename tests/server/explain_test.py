"""What the cache of a running server holds of a prompt: the /explain paths, and `octavo explain --base-url`."""

import concurrent.futures
import contextlib
import json
import os
import socket
import subprocess
import unittest

import server
from server import Server, ServerTest, ids


def octavo_explain(base_url, *arguments, key=None):
    environment = {name: value for name, value in os.environ.items() if name != "OCTAVO_API_KEY"}
    if key:
        environment["OCTAVO_API_KEY"] = key
    return subprocess.run([server.PROGRAM, "explain", "--base-url", base_url, *arguments], capture_output=True, text=True,
                          env=environment, timeout=120)


def outcomes(explained):
    return [(block["match"], block["num_cached_tokens"], block["reason"]) for block in explained["explanation"]["blocks"]]


class ExplainPathsTest(ServerTest):
    options = ("--block-size", 16)

    def setUp(self):
        """A prompt that no test before has served."""
        type(self).num_prompts = getattr(self, "num_prompts", 0) + 1
        self.prompt = ids(40, 5000 + 100 * self.num_prompts)

    def explain(self, **fields):
        answer = self.server.post("/v1/completions/explain", fields)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def test_a_prompt_reads_as_never_seen_until_it_is_served_and_asking_does_not_change_that(self):
        for _ in range(2):
            explained = self.explain(prompt=self.prompt)
            self.assertEqual(explained["prompt_token_ids"], self.prompt)
            self.assertEqual(outcomes(explained), [("miss", 0, "never_seen")] * 3)
        self.server.complete(self.prompt, max_tokens=1)
        explained = self.explain(prompt=self.prompt)
        self.assertEqual(outcomes(explained), [("hit", 16, None), ("hit", 16, None), ("partial", 8, None)])
        self.assertEqual(explained["explanation"]["num_cached_tokens"], 40)
        self.assertEqual([(block["first_position"], block["num_tokens"]) for block in explained["explanation"]["blocks"]],
                         [(0, 16), (16, 16), (32, 8)])

    def test_another_token_is_named_with_its_position(self):
        self.server.complete(self.prompt, max_tokens=1)
        explained = self.explain(prompt=self.prompt[:20] + ids(20, 7000))
        self.assertEqual(outcomes(explained)[:2], [("hit", 16, None), ("partial", 4, "tokens_differ")])
        self.assertEqual(explained["explanation"]["blocks"][1]["differs_at"], 20)

    def test_what_was_served_under_another_salt_reads_as_never_seen(self):
        self.server.complete(self.prompt, max_tokens=1, cache_salt="mine")
        self.assertEqual(outcomes(self.explain(prompt=self.prompt)), [("miss", 0, "never_seen")] * 3)
        self.assertEqual(outcomes(self.explain(prompt=self.prompt, cache_salt="mine"))[0], ("hit", 16, None))

    def test_a_conversation_is_looked_for_as_its_template_spells_it(self):
        self.server.chat("Say hello to everybody in this room, please.", max_tokens=1)
        messages = [{"role": "user", "content": "Say hello to everybody in this room, please."}]
        explained = self.server.post("/v1/chat/completions/explain", {"messages": messages}).json()
        rendered = self.server.post("/v1/chat/completions/render", {"messages": messages}).json()
        self.assertEqual(explained["prompt_token_ids"], rendered["token_ids"])
        self.assertEqual("".join(block["text"] for block in explained["explanation"]["blocks"]), rendered["prompt"])
        self.assertEqual(explained["explanation"]["num_cached_tokens"], len(rendered["token_ids"]))

    def test_a_body_without_one_prompt_that_fits_is_refused(self):
        for fields, parameter in (({}, "prompt"), ({"prompt": [ids(3), ids(4)]}, "prompt"), ({"prompt": []}, "prompt"),
                                  ({"prompt": ids(9000)}, "prompt"), ({"prompt": "x", "cache_salt": 1}, "cache_salt")):
            with self.subTest(fields):
                self.assert_refused(self.server.post("/v1/completions/explain", fields), param=parameter)
        self.assert_refused(self.server.post("/v1/chat/completions/explain", {"messages": []}), param="messages")
        self.assert_refused(self.server.post("/v1/completions/explain", {"prompt": "x", "model": "other"}), status=404)

    def test_what_cannot_be_generated_from_is_refused_alike_where_nothing_is_generated(self):
        messages = [{"role": "user", "content": "Hi"}]
        for path, prompt in (("/v1/completions", {"prompt": ids(4)}), ("/v1/chat/completions", {"messages": messages})):
            for fields in ({"temperature": -1}, {"top_p": 2}, {"priority": 1}, {"n": 2, "temperature": 0, "top_k": -7},
                           {"use_beam_search": True, "n": 2, "structured_outputs": {"regex": "a"}},
                           {"structured_outputs": {"regex": "a", "choice": ["a"]}},
                           {"structured_outputs": {"grammar": "root ::= root"}}):
                refused = self.server.post(path, {**prompt, **fields})
                self.assert_refused(refused)
                for also in ("/render", "/explain"):
                    with self.subTest(path=path + also, fields=fields):
                        answer = self.server.post(path + also, {**prompt, **fields})
                        self.assertEqual((answer.status, answer.json()), (400, refused.json()))

    def test_clients_that_do_not_read_their_answers_keep_nobody_from_asking(self):
        """As many as may wait for the engine, with answers that no socket's buffer holds."""
        body = json.dumps({"prompt": ids(8000)}).encode()
        head = f"POST /v1/completions/explain HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with contextlib.ExitStack() as stack:
            for _ in range(16):
                slow = stack.enter_context(socket.socket())
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                slow.connect(("127.0.0.1", self.server.port))
                slow.sendall(head + body)
            self.server.wait_until(lambda: self.server.get("/server_info").json()["num_generations"] == 16)
            self.server.wait_until(
                lambda: self.server.post("/v1/completions/explain", {"prompt": ids(9)}).status == 200, timeout=15)
            self.assertEqual(self.server.get("/server_info").json()["num_generations"], 16)

    def test_the_command_shows_the_table_and_the_json_of_the_server(self):
        text = "Once upon a time there was a little fox who lived in the deep green wood and ate berries."
        self.server.complete(text, max_tokens=1)
        table = octavo_explain(self.server.base_url, "-p", text + " The end.")
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertIn('"Once upon a time there was a lit" ...', table.stdout)
        self.assertRegex(table.stdout, r"0-15 +16/16  hit ")
        done = octavo_explain(self.server.base_url + "/v1/", "-p", text + " The end.", "--json")
        self.assertEqual(json.loads(done.stdout), self.explain(prompt=text + " The end."))

    def test_characters_of_several_tokens_are_shown_whole(self):
        table = octavo_explain(self.server.base_url, "-p", "日本語の絵文字 🦊")
        self.assertIn('"日本語の絵文字 🦊"', table.stdout)

    def test_the_command_asks_for_token_ids_and_conversations_under_a_salt(self):
        self.server.complete(self.prompt, max_tokens=1, cache_salt="mine")
        listed = ",".join(map(str, self.prompt))
        for salt, num_cached in ((), 0), (("--cache-salt", "mine"), 40):
            done = octavo_explain(self.server.base_url, "--prompt-token-ids", listed, "--json", *salt)
            self.assertEqual(json.loads(done.stdout)["explanation"]["num_cached_tokens"], num_cached)
        self.server.chat("Say hello.", max_tokens=1)
        done = octavo_explain(self.server.base_url, "--chat", "-p", "Say hello.", "--json")
        explained = json.loads(done.stdout)
        self.assertEqual(explained["explanation"]["num_cached_tokens"], len(explained["prompt_token_ids"]))

    def test_the_command_says_what_is_wrong(self):
        nobody = octavo_explain("http://127.0.0.1:1", "-p", "x")
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("no answer from 127.0.0.1:1", nobody.stderr)
        for arguments, message in ((("-p", "x", "--warm", "y"), "--warm is for a model that is loaded here"),
                                   (("-p", "x", "-m", "model.gguf"), "--model is for a model that is loaded here"),
                                   (("-p", "x", "--timeout", "0"), "--timeout is 0"),
                                   (("-p", "x", "--cache-salt", b"\xff"), "--cache-salt: the byte at offset 0"),
                                   (("-p", "x" * 60000,), "answers 400: ")):
            with self.subTest(arguments[2:]):
                refused = octavo_explain(self.server.base_url, *arguments)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn(message, refused.stderr)
        spoiled = octavo_explain(self.server.base_url, "-p", "x", key="key\r\nX: y")
        self.assertIn("OCTAVO_API_KEY: the byte 0x0d at offset 3", spoiled.stderr)
        unsalted = subprocess.run([server.PROGRAM, "explain", "-p", "x", "--cache-salt", "y"], capture_output=True,
                                  text=True, timeout=60)
        self.assertIn("--cache-salt is for a server: name it with --base-url", unsalted.stderr)


def begin_long_step(busy, threads):
    """The answer to come of a prompt that the engine has just begun to compute, in one step of seconds."""
    first = threads.submit(busy.post, "/v1/completions", {"prompt": ids(1000), "max_tokens": 1}, timeout=500)
    busy.wait_until(lambda: busy.get("/server_info").json()["num_generations"] == 1)
    long = threads.submit(busy.post, "/v1/completions", {"prompt": ids(3000, 5000), "max_tokens": 1}, timeout=500)
    assert first.result().status == 200  # the next step follows at once, or almost
    return long


class BusyEngineTest(unittest.TestCase):
    def test_a_bounded_number_waits_for_the_end_of_a_step(self):
        """The prompt is one step of seconds; what asks meanwhile waits for its end, or is sent away at once."""
        with Server("--threads", 1, "--max-num-batched-tokens", 3000, "--block-size", 16) as busy:
            with concurrent.futures.ThreadPoolExecutor(41) as threads:
                long = threads.submit(busy.post, "/v1/completions", {"prompt": ids(3000), "max_tokens": 1}, timeout=500)
                busy.wait_until(lambda: busy.get("/server_info").json()["num_generations"] == 1)
                asked = [threads.submit(busy.post, "/v1/completions/explain", {"prompt": ids(40)}, timeout=500)
                         for _ in range(40)]
                answers = [each.result() for each in asked]
                self.assertEqual(long.result().status, 200)
            refused = [answer for answer in answers if answer.status == 429]
            explained = [answer for answer in answers if answer.status == 200]
            self.assertEqual(len(refused) + len(explained), 40)
            self.assertGreaterEqual(len(explained), 16)
            self.assertGreater(len(refused), 0)
            self.assertIn("16 prompts wait", refused[0].json()["error"]["message"])
            self.assertIn("Retry-After", refused[0].headers)

    def test_a_bounded_number_of_administrators_waits_for_the_end_of_a_step_beside_clients(self):
        with Server("--threads", 1, "--max-num-batched-tokens", 3000, "--block-size", 16) as busy:
            with concurrent.futures.ThreadPoolExecutor(42) as threads:
                long = begin_long_step(busy, threads)
                asked = [threads.submit(busy.post, path, "", timeout=500)
                         for path in ("/check_integrity", "/reset_prefix_cache") * 20]
                busy.wait_until(lambda: any(each.done() and each.result().status == 429 for each in asked))
                client = threads.submit(busy.post, "/v1/completions/explain", {"prompt": ids(40)}, timeout=500)
                self.assertFalse(long.done())
                answers = [each.result() for each in asked]
                self.assertEqual(client.result().status, 200)
                self.assertEqual(long.result().status, 200)
            refused = [answer for answer in answers if answer.status == 429]
            num_answered = sum(answer.status == 200 for answer in answers)
            self.assertEqual(num_answered + len(refused), 40)
            self.assertGreaterEqual(num_answered, 16)
            self.assertIn("16 questions of administrators wait", refused[0].json()["error"]["message"])
            self.assertIn("Retry-After", refused[0].headers)

    def test_clients_that_leave_while_they_wait_make_room_before_the_step_ends(self):
        """As many as may wait come and go during one step of seconds, but for the 4 that the engine has been asked for;
        who comes then is answered after it."""
        body = json.dumps({"prompt": ids(40)}).encode()
        head = f"POST /v1/completions/explain HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with Server("--threads", 1, "--max-num-batched-tokens", 3000, "--block-size", 16) as busy:

            def num_served():
                return busy.get("/server_info").json()["num_generations"]

            with concurrent.futures.ThreadPoolExecutor(2) as threads:
                long = begin_long_step(busy, threads)
                with contextlib.ExitStack() as stack:

                    def all_places_are_taken():
                        """Those who come before the step has begun are answered: others take their places."""
                        num_missing = 17 - num_served()
                        for _ in range(num_missing):
                            stack.enter_context(busy.open_socket()).sendall(head + body)
                        return num_missing == 0

                    busy.wait_until(all_places_are_taken)
                busy.wait_until(lambda: num_served() == 5)
                self.assertFalse(long.done())
                answer = busy.post("/v1/completions/explain", {"prompt": ids(40)}, timeout=500)
                self.assertEqual(answer.status, 200, answer.body)
                self.assertEqual(long.result().status, 200)


class KeysTest(unittest.TestCase):
    def test_a_key_sees_its_own_cache_alone(self):
        with Server("--api-key", "first-key", "--api-key", "second-key", "--block-size", 16) as keyed:
            answer = keyed.post("/v1/completions", {"prompt": ids(40), "max_tokens": 1},
                                headers={"Authorization": "Bearer first-key"})
            self.assertEqual(answer.status, 200, answer.body)
            listed = ",".join(map(str, ids(40)))
            for key, num_cached in (("first-key", 40), ("second-key", 0)):
                done = octavo_explain(keyed.base_url, "--prompt-token-ids", listed, "--json", key=key)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["explanation"]["num_cached_tokens"], num_cached)
            refused = octavo_explain(keyed.base_url, "-p", "x")
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("set OCTAVO_API_KEY", refused.stderr)


if __name__ == "__main__":
    server.main()
