"""Case X1: /metrics through Prometheus's own parser, and against the sum of what clients were told."""

import threading
import time

from prometheus_client.parser import text_string_to_metric_families
from server import ServerTest, ids, main

TOTALS = ("vllm:prompt_tokens", "vllm:generation_tokens", "vllm:prompt_tokens_cached", "vllm:prefix_cache_hits",
          "vllm:prefix_cache_queries")


class Exposition(ServerTest):
    def families(self):
        text = self.server.get("/metrics").body.decode()
        self.assertTrue(text.endswith("\n"))
        return {family.name: family for family in text_string_to_metric_families(text)}

    def samples(self, *types):
        """(sample's name, labels) -> value of the families of these types."""
        return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
                for family in self.families().values() if family.type in types for sample in family.samples}

    def totals(self):
        families = self.families()
        return {name: sum(s.value for s in families[name].samples if s.name == name + "_total") for name in TOTALS}

    def check_format(self):
        families = self.families()
        self.assertGreater(len(families), 25)
        seen = set()
        for family in families.values():
            self.assertIn(family.type, ("counter", "gauge", "histogram"), family.name)
            self.assertTrue(family.documentation, family.name)
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                self.assertNotIn(key, seen)
                seen.add(key)
                self.assertIn("model_name", sample.labels)
                self.assertIn("engine", sample.labels)
                self.assertEqual(sample.value, sample.value, sample)  # no NaN
                self.assertGreaterEqual(sample.value, 0, sample)
            if family.type == "histogram":
                self.check_histogram(family)
        return families

    def check_histogram(self, family):
        """Buckets grow up to +Inf, which is the count."""
        buckets, counts = {}, {}
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "le"}
            key = tuple(sorted(labels.items()))
            if sample.name == family.name + "_bucket":
                buckets.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
            elif sample.name == family.name + "_count":
                counts[key] = sample.value
        self.assertEqual(buckets.keys(), counts.keys(), family.name)
        for key, values in buckets.items():
            self.assertEqual(sorted(values), values, family.name)
            self.assertEqual(sorted(v for _, v in values), [v for _, v in values], family.name)
            self.assertEqual((float("inf"), counts[key]), values[-1], family.name)

    def load(self, requests, at_once):
        """Sends the requests, at most `at_once` at a time; the sums of their usage."""
        usages, lock, left = [], threading.Lock(), list(enumerate(requests))

        def work():
            while True:
                with lock:
                    if not left:
                        return
                    index, body = left.pop()
                path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
                if index % 2:
                    usage = self.server.events(path, {**body, "stream_options": {"include_usage": True}})[-1]["usage"]
                else:
                    usage = self.server.post(path, body).json()["usage"]
                with lock:
                    usages.append(usage)

        threads = [threading.Thread(target=work) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(requests), len(usages))
        return {"prompt": sum(u["prompt_tokens"] for u in usages),
                "generated": sum(u["completion_tokens"] for u in usages),
                "cached": sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)}

    def check_load(self, requests, at_once):
        """The totals grow by exactly what the usage fields add up to."""
        self.server.wait_until(self.server.is_idle)
        before = self.totals()
        told = self.load(requests, at_once)
        self.server.wait_until(self.server.is_idle)
        grown = {name: value - before[name] for name, value in self.totals().items()}
        self.assertEqual(told["prompt"], grown["vllm:prompt_tokens"])
        self.assertEqual(told["generated"], grown["vllm:generation_tokens"])
        self.assertEqual(told["cached"], grown["vllm:prompt_tokens_cached"])
        self.assertEqual(told["cached"], grown["vllm:prefix_cache_hits"])
        self.assertGreater(told["cached"], 0)
        self.check_format()


class MetricsOfAServer(Exposition):
    def test_the_format_is_prometheus_s_at_the_start_and_after_requests(self):
        self.check_format()
        self.server.complete("x", max_tokens=3)
        self.server.post("/v1/completions", {"prompt": []})
        families = self.check_format()
        self.assertEqual("counter", families["vllm:generation_tokens"].type)
        self.assertEqual("gauge", families["vllm:num_requests_running"].type)
        self.assertEqual("histogram", families["vllm:time_to_first_token_seconds"].type)

    def test_nothing_rises_on_an_idle_server_but_by_being_asked(self):
        self.server.complete("x", max_tokens=3)
        self.server.wait_until(self.server.is_idle)
        before = self.samples("counter", "histogram")
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            self.assertEqual(before, self.samples("counter", "histogram"))
            time.sleep(0.1)

    def test_totals_of_100_requests_are_the_sums_of_their_usage(self):
        requests = []
        for i in range(100):
            body = {"max_tokens": 1 + i % 4, "temperature": 0}
            if i % 10 == 3:
                requests.append({**body, "messages": [{"role": "user", "content": f"What is {i} and {i}?"}]})
            elif i % 10 == 7:
                requests.append({**body, "prompt": [ids(20), ids(20), ids(30, first=4000 + i)]})
            elif i % 10 == 5:
                requests.append({**body, "prompt": ids(25, first=5000 + i), "n": 2, "temperature": 1, "seed": 1})
            else:
                requests.append({**body, "prompt": ids(33 + i % 3, first=1000 + i % 5)})
        self.check_load(requests, at_once=8)

    def test_counters_never_fall(self):
        last = self.samples("counter")
        threads = [threading.Thread(target=self.server.complete, args=(ids(40, first=6000 + i),),
                                    kwargs={"max_tokens": 20}) for i in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            now = self.samples("counter")
            for key, value in last.items():
                self.assertGreaterEqual(now[key], value, key)
            last = now
        for thread in threads:
            thread.join()

    def test_finished_requests_are_counted_by_their_reason(self):
        def counts():
            return {dict(labels)["finished_reason"]: value for (name, labels), value in self.samples("counter").items()
                    if name == "vllm:request_success_total"}
        self.server.wait_until(self.server.is_idle)
        before = counts()
        self.server.complete("1, 2, 3, 4,", max_tokens=3)
        self.server.complete("1, 2, 3, 4,", max_tokens=8, stop=",")
        self.server.complete("1, 2, 3, 4,", max_tokens=8, stop=",")
        self.server.wait_until(lambda: sum(counts().values()) == sum(before.values()) + 3)
        after = counts()
        self.assertEqual(1, after["length"] - before.get("length", 0))
        self.assertEqual(2, after["stop"] - before.get("stop", 0))


class MetricsOfACrowdedCache(Exposition):
    """24 blocks of 16 tokens, which few of these requests fit in together: most of them wait for admission."""

    options = ("--max-model-len", "256", "--kv-cache-memory-bytes", str(24 * 16 * 30 * 3 * 64 * 2 * 2))

    def check_crowd(self, max_tokens):
        """16 requests of 124 tokens, of which they share 64."""
        self.assertEqual(200, self.server.post("/reset_prefix_cache", {}).status)
        self.server.complete(ids(64), max_tokens=1)
        requests = [{"prompt": ids(64) + ids(60, first=2000 + 100 * i), "max_tokens": max_tokens, "temperature": 0}
                    for i in range(16)]
        waiting = []
        watcher = threading.Thread(target=lambda: waiting.append(self.server.wait_until(
            lambda: self.server.metrics()["vllm:num_requests_waiting"] > 1)))
        watcher.start()
        self.check_load(requests, at_once=16)
        watcher.join(60)
        self.assertEqual([True], waiting)

    def preemptions(self):
        return self.server.metrics()["vllm:num_preemptions_total"]

    def test_a_hit_counts_once_however_often_admission_failed(self):
        before = self.preemptions()
        self.check_crowd(max_tokens=4)  # 128 tokens: none grows beyond the blocks of its prompt
        self.assertEqual(before, self.preemptions())

    def test_a_sequence_that_was_preempted_is_no_second_hit(self):
        before = self.preemptions()
        self.check_crowd(max_tokens=40)
        self.assertGreater(self.preemptions(), before)


class Lookups(Exposition):
    def test_a_prompt_whose_every_position_is_computed_is_not_looked_up(self):
        def queries():
            return self.server.metrics()["vllm:prefix_cache_queries_total"]

        before = queries()
        self.server.complete(ids(40), max_tokens=1)
        self.server.complete(ids(30), max_tokens=1, prompt_logprobs=1)
        self.assertEqual(queries() - before, 40)


class MetricsUnderFormerNames(Exposition):
    options = ("--legacy-metric-names", "--kv-cache-metrics")

    def test_former_names_stand_beside_the_present_ones(self):
        self.server.complete(ids(40), max_tokens=2)
        families = self.check_format()
        for name in ("vllm:gpu_cache_usage_perc", "vllm:gpu_prefix_cache_hits", "vllm:gpu_prefix_cache_queries",
                     "vllm:kv_cache_usage_perc", "vllm:prefix_cache_hits", "vllm:prefix_cache_queries"):
            self.assertIn(name, families)


if __name__ == "__main__":
    main()
