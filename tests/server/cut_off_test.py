"""Clients that leave before their answer is there."""

import socket
import threading

import raw
import server
from server import ServerTest, ids

ENDLESS = {"prompt": ids(8), "max_tokens": 4096, "ignore_eos": True, "temperature": 0}


class CutOff(ServerTest):
    options = ("--max-model-len", 4200)

    def num_cut_off(self):
        metrics = self.server.metrics()
        return (metrics["octavo:requests_cut_off_total"],
                metrics['vllm:request_success_total{finished_reason="abort"}'])

    def num_running(self):
        return self.server.metrics()["vllm:num_requests_running"]

    def wait_until_running(self):
        self.server.wait_until(self.num_running)

    def send(self, path="/v1/completions", **fields):
        connection = self.server.open_socket()
        self.addCleanup(connection.close)
        connection.sendall(raw.post_text(path, {**ENDLESS, **fields}))
        return connection


class OneAtATimeTest(CutOff):
    """C3. One place to run, so that a request that goes on keeps the next one out."""

    options = CutOff.options + ("--max-num-seqs", 1)

    def assert_gives_way(self, leave):
        """After `leave`, what ran is counted as aborted, and the next request is served."""
        before = self.num_cut_off()
        num_tokens = self.server.metrics()["vllm:generation_tokens_total"]
        leave()
        choice, _ = self.server.complete(ids(4), max_tokens=2, ignore_eos=True)
        self.assertEqual(choice["finish_reason"], "length")
        wanted = (before[0] + 1, before[1] + 1)
        self.server.wait_until(lambda: self.num_cut_off() == wanted)
        num_tokens = self.server.metrics()["vllm:generation_tokens_total"] - num_tokens
        self.assertLess(num_tokens, ENDLESS["max_tokens"])

    def read_events(self, connection, count):
        data = b""
        while data.count(b"data: ") < count:
            data += connection.recv(4096)

    def test_a_stream_whose_client_closes_after_three_events_ends(self):
        """C3a"""
        connection = self.send(stream=True)
        self.read_events(connection, 3)
        self.assert_gives_way(connection.close)

    def test_a_stream_whose_client_resets_ends(self):
        """C3a"""
        connection = self.send(stream=True)
        self.read_events(connection, 3)
        self.assert_gives_way(lambda: raw.reset(connection))

    def test_an_unstreamed_answer_whose_client_closes_is_not_computed_to_its_end(self):
        """C3b"""
        connection = self.send()
        self.wait_until_running()
        self.assert_gives_way(connection.close)

    def test_an_unstreamed_answer_whose_client_resets_is_not_computed_to_its_end(self):
        """C3b"""
        connection = self.send()
        self.wait_until_running()
        self.assert_gives_way(lambda: raw.reset(connection))

    def test_a_conversation_whose_client_closes_is_not_computed_to_its_end(self):
        """C3b"""
        connection = self.send("/v1/chat/completions",
                               messages=[{"role": "user", "content": "Count for ever."}])
        self.wait_until_running()
        self.assert_gives_way(connection.close)

    def test_a_request_that_waits_leaves_the_queue_with_its_client(self):
        """C3b"""
        running = self.send()
        self.wait_until_running()
        waiting = self.send(prompt=ids(8, 3000))
        self.server.wait_until(lambda: self.server.metrics()["vllm:num_requests_waiting"] == 1)
        waiting.close()
        self.server.wait_until(lambda: self.server.metrics()["vllm:num_requests_waiting"] == 0)
        self.assertEqual(self.server.metrics()["vllm:num_requests_running"], 1)
        running.close()

    def test_a_half_closed_client_gets_its_whole_answer(self):
        """C3c"""
        expected, _ = self.server.complete(ids(8), max_tokens=24, ignore_eos=True)
        connection = self.send(max_tokens=24)
        raw.half_close(connection)
        head, _, body = raw.read_to_end(connection).rpartition(b"\r\n\r\n")
        connection.close()
        self.assertIn(b"HTTP/1.1 200 ", head)
        choice = server.Answer(200, {}, body).json()["choices"][0]
        self.assertEqual(choice["text"], expected["text"])

    def test_a_half_closed_client_gets_its_whole_stream(self):
        """C3c"""
        expected, _ = self.server.complete(ids(8), max_tokens=24, ignore_eos=True)
        connection = self.send(max_tokens=24, stream=True)
        raw.half_close(connection)
        data = raw.read_to_end(connection)
        connection.close()
        self.assertIn(b"data: [DONE]", data)
        lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: {")]
        text = "".join(server.Answer(200, {}, line).json()["choices"][0]["text"] for line in lines)
        self.assertEqual(text, expected["text"])

    def test_a_client_that_half_closes_and_then_leaves_is_noticed(self):
        """C3c"""
        connection = self.send()
        self.wait_until_running()
        raw.half_close(connection)
        self.assert_gives_way(connection.close)

    def test_a_client_that_closes_with_its_next_request_already_sent_is_noticed(self):
        """C3b: there is always something to read, so only the connection's state tells."""
        for stream in (False, True):
            for leave in (socket.socket.close, raw.reset):
                with self.subTest(stream=stream, leave=leave.__name__):
                    connection = self.send(stream=stream)
                    connection.sendall(raw.post_text("/v1/completions", ENDLESS))
                    self.wait_until_running()
                    self.assert_gives_way(lambda: leave(connection))
                    self.server.wait_until(self.server.is_idle)

    def test_a_client_that_leaves_during_a_long_prompt_is_noticed(self):
        """C3b"""
        for stream in (False, True):
            with self.subTest(stream=stream):
                connection = self.send(prompt=ids(4000, 1000 + stream), stream=stream)
                self.wait_until_running()
                num_computed = self.server.metrics()["octavo:computed_tokens_total"]
                self.assert_gives_way(connection.close)
                num_computed = self.server.metrics()["octavo:computed_tokens_total"] - num_computed
                self.assertLess(num_computed, 4000)

    def test_a_pipelined_request_is_answered_after_the_first(self):
        """C3, the other side: what lies there already is no sign that the client has left."""
        body = {**ENDLESS, "max_tokens": 2}
        connection = self.server.open_socket()
        self.addCleanup(connection.close)
        connection.sendall(raw.post_text("/v1/completions", {**body, "max_tokens": 16}) +
                           raw.post_text("/v1/completions", body))
        raw.half_close(connection)
        self.assertEqual(raw.read_to_end(connection).count(b'"finish_reason":"length"'), 2)


class ManyTest(CutOff):
    def test_several_completions_of_one_request_end_with_their_client(self):
        """C3b"""
        connection = self.send(n=3, temperature=1, seed=1)
        self.server.wait_until(lambda: self.num_running() == 3)
        connection.close()
        self.server.wait_until(self.server.is_idle)

    def test_beams_end_with_their_client(self):
        """C3b"""
        connection = self.send(n=4, use_beam_search=True, max_tokens=400)
        self.server.wait_until(self.num_running)
        connection.close()
        self.server.wait_until(self.server.is_idle)
        self.assertLess(self.server.metrics()["vllm:generation_tokens_total"], 4 * 400)

    def test_several_prompts_of_one_request_end_with_their_client(self):
        """C3b"""
        connection = self.send(prompt=[ids(8, 2000), ids(20, 3000), ids(40, 4000)])
        self.server.wait_until(lambda: self.num_running() == 3)
        connection.close()
        self.server.wait_until(self.server.is_idle)

    def test_many_clients_that_leave_at_once_leave_no_block_behind(self):
        """C3"""
        before = self.num_cut_off()[0]
        connections = [self.send(stream=bool(i % 2), prompt=ids(20 + i)) for i in range(24)]
        threads = [threading.Thread(target=one.close) for one in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.server.wait_until(lambda: self.num_cut_off()[0] == before + 24)
        self.server.wait_until(self.server.is_idle)


if __name__ == "__main__":
    server.main()
