"""Case Y1: how many threads compute when the machine may not be used whole."""

import contextlib
import os
import time
import unittest

from server import Server, main

CGROUP = "/sys/fs/cgroup"


@contextlib.contextmanager
def only_processors(processors):
    """What is started inside may use these processors only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_controller():
    """(folder of this process in the cpu controller's hierarchy, whether it is version 2), or None."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        entries = [line.strip().split(":", 2) for line in file]
    for _, controllers, group in entries:
        if "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                folder = os.path.join(CGROUP, name) + group.rstrip("/")
                if os.path.isdir(folder):
                    return folder, False
    for number, _, group in entries:
        if number == "0" and os.path.exists(os.path.join(CGROUP, "cgroup.controllers")):
            return CGROUP + group.rstrip("/"), True
    return None


class QuotaGroup:
    """A control group with a quota of processor time, below this process's own; OSError where that is not allowed."""

    def __init__(self, *shares):
        """A group in a group for each share of a processor."""
        found = cpu_controller()
        if found is None:
            raise OSError("no cpu controller")
        self.folders, (folder, self.is_v2) = [], found
        try:
            for share in shares:
                folder = os.path.join(folder, f"octavo-test-{os.getpid()}")
                os.mkdir(folder)
                self.folders.append(folder)
                self.write_quota(folder, share)
        except OSError:
            self.remove()
            raise

    def write_quota(self, folder, share):
        quota = int(share * 100_000)
        if self.is_v2:
            texts = {"cpu.max": f"{quota} 100000"}
        else:
            texts = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": str(quota)}
        for name, text in texts.items():
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)

    def launcher(self):
        """Runs what follows it in the group."""
        return ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', self.folders[-1]]

    def remove(self):
        for folder in reversed(self.folders):
            os.rmdir(folder)


class DefaultThreads(unittest.TestCase):
    def threads(self, *options, launcher=()):
        """The number of compute threads of a server."""
        with Server(*options, launcher=launcher) as server:
            choice, _ = server.complete("The capital of France is", max_tokens=1)
            self.assertEqual(" Paris", choice["text"])
            return server.get("/server_info").json()["model_info"]["threads"]

    def launcher(self, *shares):
        try:
            group = QuotaGroup(*shares)
        except OSError as error:
            self.skipTest(f"no control group can be made: {error}")
        self.addCleanup(group.remove)
        return group.launcher()

    def test_as_many_as_the_processors_this_process_may_use(self):
        # Fewer where this process is in a group with a quota.
        self.assertIn(self.threads(), range(1, len(os.sched_getaffinity(0)) + 1))

    def test_one_on_one_processor(self):
        with only_processors({min(os.sched_getaffinity(0))}):
            self.assertEqual(1, self.threads())

    def test_the_log_names_the_number(self):
        with Server("--threads", 3) as server:
            self.assertRegex(server.log_text(), r"\b3 threads\b")

    def test_as_many_as_are_asked_for(self):
        self.assertEqual(3, self.threads("--threads", 3))

    def test_a_quota_of_one_and_a_half_processors_makes_one(self):
        self.assertEqual(1, self.threads(launcher=self.launcher(1.5)))

    def test_a_quota_of_half_a_processor_makes_one(self):
        self.assertEqual(1, self.threads(launcher=self.launcher(0.5)))

    def test_the_smallest_of_nested_quotas_counts(self):
        self.assertEqual(1, self.threads(launcher=self.launcher(1, 0.8)))

    def test_a_quota_beyond_the_processors_limits_nothing(self):
        self.assertEqual(self.threads(), self.threads(launcher=self.launcher(os.cpu_count() + 1)))


class Oversubscription(unittest.TestCase):
    def seconds(self, *options):
        with Server(*options) as server:
            server.complete("warm", max_tokens=4)
            start = time.monotonic()
            choice, _ = server.complete("Once upon a time", max_tokens=32, ignore_eos=True)
            return time.monotonic() - start, choice["text"]

    def test_16_threads_are_not_much_slower_than_the_default_and_say_the_same(self):
        default, text = self.seconds()
        many, text_of_many = self.seconds("--threads", 16)
        print(f"32 tokens: {default:.2f} s with the default threads, {many:.2f} s with 16")
        self.assertEqual(text, text_of_many)
        # Spinning threads on a machine with few processors would be slower by orders of magnitude.
        self.assertLess(many, 20 * default + 10)


if __name__ == "__main__":
    main()
