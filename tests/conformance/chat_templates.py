"""Chat templates: `octavo render` against Python's jinja2 with Hugging Face's settings, byte for byte.

Every line of templates/expressions.txt, and every *.jinja in templates/ beside this file and in the folder that OCTAVO_CHAT_TEMPLATES names (or
../shared/data/chat-templates beside the repository, if that exists), is rendered over many conversations. Where jinja2
refuses, octavo must refuse. Needs jinja2 (Debian's python3-jinja2); exit code 77 means skipped.
"""

import concurrent.futures
import datetime
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("skipped: Python's jinja2 is not installed")
    sys.exit(77)

from conversations import CONVERSATIONS

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("OCTAVO_PROGRAM", "build/release/octavo")
FOREIGN = pathlib.Path(os.environ.get("OCTAVO_CHAT_TEMPLATES")
                       or HERE.parents[1].parent / "shared/data/chat-templates")
BOS, EOS = "<s>", "</s>"


class GenerationTag(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: a block that is printed as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("print_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def print_body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@functools.lru_cache(maxsize=None)
def compiled(source):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment.from_string(source)


def reference(source, case):
    """jinja2's text, or the exception that it raised."""
    variables = {"bos_token": BOS, "eos_token": EOS, **case.get("kwargs", {})}
    try:
        return compiled(source).render(
            messages=case["messages"], tools=case.get("tools"), documents=None,
            add_generation_prompt=case.get("add_generation_prompt", True), **variables)
    except Exception as error:  # pylint: disable=broad-except
        return error


def render(template, case, folder):
    """octavo's text, or its finished process if it refused."""
    messages = folder / "messages.json"
    messages.write_text(json.dumps(case["messages"], ensure_ascii=False), encoding="utf-8")
    command = [PROGRAM, "render", "--chat-template", str(template), "--messages", str(messages), "--json",
               "--bos-token", BOS, "--eos-token", EOS]
    if case.get("tools") is not None:
        (folder / "tools.json").write_text(json.dumps(case["tools"]), encoding="utf-8")
        command += ["--tools", str(folder / "tools.json")]
    if case.get("kwargs"):
        command += ["--kwargs", json.dumps(case["kwargs"])]
    if not case.get("add_generation_prompt", True):
        command += ["--no-generation-prompt"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        return done
    return json.loads(done.stdout)["prompt"]


def difference(template, name, case):
    """One line about a disagreement, or nothing."""
    source = template.read_bytes().decode()
    with tempfile.TemporaryDirectory() as folder:
        expected = reference(source, case)
        text = render(template, case, pathlib.Path(folder))
        if text != expected and isinstance(text, str):
            expected = reference(source, case)  # the day may have changed in between
    where = f"{template.name}, {name}"
    if isinstance(expected, Exception):
        if isinstance(text, str):
            return f"{where}: jinja2 refuses ({type(expected).__name__}: {expected}), octavo gives {text[:80]!r}"
        if text.returncode != 2:
            return f"{where}: exit code {text.returncode}, not 2: {text.stderr.decode()[:200]}"
        if isinstance(expected, jinja2.exceptions.TemplateError) and type(expected) is jinja2.exceptions.TemplateError:
            message = " ".join(str(expected).split())
            if message not in " ".join(text.stderr.decode().split()):
                return f"{where}: the template's message {message!r} is missing in {text.stderr.decode()!r}"
        return None
    if not isinstance(text, str):
        return f"{where}: octavo refuses: {text.stderr.decode()[:300]}"
    if text == expected:
        return None
    at = next((i for i, (a, b) in enumerate(zip(text, expected)) if a != b), min(len(text), len(expected)))
    start = max(0, at - 40)
    return f"{where}: at {at} octavo {text[start:at + 60]!r}, jinja2 {expected[start:at + 60]!r}"


def expressions():
    """The templates of expressions.txt."""
    lines = (HERE / "templates/expressions.txt").read_text(encoding="utf-8").split("\n")
    return [line.replace("⏎", "\n") for line in lines if line and not line.startswith("# ")]


class ChatTemplates(unittest.TestCase):
    def test_expressions(self):
        case = json.loads((HERE / "templates/expressions.json").read_text(encoding="utf-8"))
        problems = []
        with tempfile.TemporaryDirectory() as folder:
            template = pathlib.Path(folder) / "expression.jinja"
            for source in expressions():
                template.write_text(source, encoding="utf-8")
                problem = difference(template, repr(source), case)
                if problem:
                    problems.append(problem)
        print(f"{len(expressions())} expressions")
        self.assertEqual(problems, [], "\n".join([f"{len(problems)} differences:", *problems]))

    def check_folder(self, folder):
        templates = sorted(folder.glob("*.jinja"))
        self.assertTrue(templates, f"no templates in {folder}")
        jobs = [(template, name, case) for template in templates for name, case in CONVERSATIONS.items()]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            problems = [problem for problem in pool.map(lambda job: difference(*job), jobs) if problem]
        rendered = sum(isinstance(reference(t.read_bytes().decode(), c), str) for t, _, c in jobs)
        print(f"{folder}: {len(templates)} templates, {len(jobs)} prompts, of which jinja2 refuses {len(jobs) - rendered}")
        self.assertEqual(problems, [], "\n".join([f"{len(problems)} differences:", *problems[:60]]))
        self.assertGreater(rendered, 0)

    def test_own_templates(self):
        self.check_folder(HERE / "templates")

    def test_templates_of_models(self):
        if not FOREIGN.is_dir():
            self.skipTest(f"no folder {FOREIGN}; OCTAVO_CHAT_TEMPLATES names one")
        self.check_folder(FOREIGN)


if __name__ == "__main__":
    unittest.main(verbosity=2)
