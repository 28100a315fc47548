#!/usr/bin/env python3
"""Makes the expected values of the Jinja engine's tests with jinja2.

  python tests/tools/make_jinja_golden.py tests/golden/text/jinja.txt

Renders each line of tests/conformance/templates/expressions.txt with Hugging Face's settings, as
tests/conformance/chat_templates.py does. Needs jinja2.

Format: one record a line, fields separated by tabs, texts in hexadecimal.
  messages   JSON
  kwargs     JSON
  text       template  rendered text
  refused    template
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))

from chat_templates import HERE, expressions, reference  # noqa: E402


def main():
    case = json.loads((HERE / "templates/expressions.json").read_text(encoding="utf-8"))
    lines = ["# Made by tests/tools/make_jinja_golden.py with jinja2; the format is described there."]
    for name in ("messages", "kwargs"):
        lines.append(f"{name}\t{json.dumps(case[name], ensure_ascii=False).encode().hex()}")
    for source in expressions():
        text = reference(source, case)
        if isinstance(text, str):
            lines.append(f"text\t{source.encode().hex()}\t{text.encode().hex()}")
        else:
            lines.append(f"refused\t{source.encode().hex()}")
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
