"""What every engine offers to the run, and how commands are run and failures told."""

import dataclasses
import os
import pathlib
import shlex
import subprocess

COMMAND_SECONDS = 3600
ERROR_LINES = 3


class NotMeasured(Exception):
    """Why a metric, or a whole engine, has no figure."""


@dataclasses.dataclass(frozen=True)
class Setup:
    """What the command line says of the run, the same for all engines."""

    model: str
    threads: int
    work: pathlib.Path
    amx: bool = True
    context: int = 0  # the most tokens that one sequence of any metric has

    def log(self, name):
        folder = self.work / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.log"


class Engine:
    """An engine to be measured. `prepare` builds or installs; `measure` may be called in any order after it."""

    key = ""
    name = ""

    def __init__(self, setup):
        self.setup = setup

    def prepare(self):
        """Raises NotMeasured if this engine cannot be measured at all."""

    def measure(self, metric, seed):
        """Tokens per second. Raises NotMeasured if the engine has no such thing, or fails."""
        raise NotImplementedError

    def command(self, metric):
        """The words of the command that measures it; None for an engine that is asked step by step."""
        return None

    def about(self):
        """{"version": ..., and what else says what was measured}; complete after the first measurement."""
        return {}

    def close(self):
        """Ends what still runs."""


def first_lines(text, count=ERROR_LINES):
    """What a failed program said: its first lines that speak of an error, or else its last lines; in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "failed" in line.lower()]
    return " / ".join(telling[:count] or lines[-count:]) or "it printed nothing"


def run(command, environment=None, log=None, seconds=COMMAND_SECONDS, folder=None):
    """(stdout, stderr) of a command, started in `folder`; NotMeasured with its complaint if it fails. `log` keeps both."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, timeout=seconds, cwd=folder,
                              stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
    except OSError as error:
        raise NotMeasured(f"{words[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise NotMeasured(f"no answer after {seconds} s: {shlex.join(words)}") from error
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"$ {shlex.join(words)}\n{done.stdout}{done.stderr}\n")
    if done.returncode != 0:
        complaint = first_lines(done.stderr + "\n" + done.stdout)
        ended = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise NotMeasured(f"{pathlib.Path(words[0]).name}: {ended}: {complaint}")
    return done.stdout, done.stderr
