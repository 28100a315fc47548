"""Virtual environments for the engines that come from PyPI."""

import json
import re
import sys

from peers.base import run

INSTALL_SECONDS = 2 * 3600


def python_of(folder):
    return folder / "bin" / "python"


def make(folder, log, steps):
    """The Python of a virtual environment with what `steps` install, each a list of pip's arguments; made once."""
    python = python_of(folder)
    done = folder / "complete"
    if done.exists():
        return python
    run([sys.executable, "-m", "venv", folder], log=log)
    for step in steps:
        arguments = step(python) if callable(step) else step
        run([python, "-m", "pip", "install", "--disable-pip-version-check", *arguments], log=log, seconds=INSTALL_SECONDS)
    done.touch()
    return python


def requirements(python, package, without):
    """What an installed package requires, without the packages whose names begin with one of `without`."""
    script = "import importlib.metadata, json, sys; print(json.dumps(importlib.metadata.requires(sys.argv[1]) or []))"
    return select(json.loads(run([python, "-c", script, package])[0]), without)


def select(required, without):
    """Of a package's requirements, those that every installation has; options ("extra") and `without` left out."""
    kept = []
    for requirement in required:
        name = re.match(r"[A-Za-z0-9._-]+", requirement).group(0).lower().replace("_", "-")
        if "extra ==" not in requirement and not any(name == prefix or name.startswith(prefix + "-") for prefix in without):
            kept.append(requirement)
    return kept
