#!/usr/bin/env python3
"""Holds the C++ sources to the size budget; the exceptions are in tools/sizes_allow.toml.

Usage: tools/check_sizes.py [ROOT]     (exit code 1 and one line per violation)

Lines per file: 600 (public header 250); lines per function: 70; parameters: 6; nesting: 4; columns: 100. Test files are
held to lines per file and columns alone. Functions are found by their braces, after comments and literals are blanked:
a heuristic that suits code laid out by clang-format.
"""

import pathlib
import re
import sys
import tomllib

MAX_FILE, MAX_PUBLIC_HEADER, MAX_COLUMNS = 600, 250, 100
MAX_FUNCTION, MAX_PARAMETERS, MAX_NESTING = 70, 6, 4

BLANKED = re.compile(
    r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()=]*$")
CONTROL = re.compile(r"\b(if|for|while|switch|do|else|try|catch)\b")
NAME = re.compile(r"([A-Za-z_~][\w:~]*(?:\s*(?:<=>|[=!<>+\-*/\[\]()&|]+))?)\s*\($")


def blank(text):
    """Replaces comments, literals and preprocessor lines by spaces; keeps every line break."""
    spaces = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    text = BLANKED.sub(spaces, text)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", spaces, text, flags=re.MULTILINE)


def parameter_list(header):
    """Returns (name, number of parameters) of a function's header, or None if it has none."""
    start = header.find("(")
    while start >= 0:
        match = NAME.search(header[: start + 1])
        if match and match.group(1) not in ("requires", "noexcept", "decltype", "alignas", "__attribute__"):
            break
        start = header.find("(", start + 1)
    else:
        return None
    depth, angle, commas, empty = 0, 0, 0, True
    for position, char in enumerate(header[start:], start):
        depth += char in "([{"
        angle += char == "<"
        angle -= char == ">" and header[position - 1] != "-"
        if char in ")]}":
            depth -= 1
            if depth == 0:
                break
        elif position > start and not char.isspace():
            empty = False
            commas += char == "," and depth == 1 and angle == 0
    return match.group(1), 0 if empty else commas + 1


def functions(text):
    """Yields (name, first line, lines, parameters, deepest nesting) of each function with a body."""
    code = blank(text)
    scopes, header_start, line = [], 0, 1
    for position, char in enumerate(code):
        line += char == "\n"
        if char == "{":
            header = code[header_start:position]
            inside = next((s for s in scopes if s["kind"] == "function"), None)
            scope = {"kind": "other", "control": False}
            if inside:
                scope["control"] = bool(CONTROL.search(header))
                depth = sum(s["control"] for s in scopes) + scope["control"]
                inside["nesting"] = max(inside["nesting"], depth)
            elif not CONTAINER.search(header) and (found := parameter_list(header)):
                first = line - header.lstrip().count("\n")
                scope.update(kind="function", name=found[0], parameters=found[1], first=first, nesting=0)
            scopes.append(scope)
            header_start = position + 1
        elif char == "}":
            scope = scopes.pop() if scopes else {"kind": "other"}
            if scope["kind"] == "function":
                yield (scope["name"], scope["first"], line - scope["first"] + 1, scope["parameters"], scope["nesting"])
            header_start = position + 1
        elif char == ";":
            header_start = position + 1


def findings(name, text):
    """Yields (line, what, measure, size, limit) for everything over its limit."""
    lines = text.splitlines()
    is_test = name.endswith(("_test.cc", "_fuzz.cc"))
    limit = MAX_PUBLIC_HEADER if name.startswith("include/") else MAX_FILE
    if len(lines) > limit:
        yield 1, "file", "lines", len(lines), limit
    for number, content in enumerate(lines, 1):
        if len(content) > MAX_COLUMNS:
            yield number, "line", "columns", len(content), MAX_COLUMNS
    if is_test:
        return
    for function, first, length, parameters, nesting in functions(text):
        if length > MAX_FUNCTION:
            yield first, function, "lines", length, MAX_FUNCTION
        if parameters > MAX_PARAMETERS:
            yield first, function, "parameters", parameters, MAX_PARAMETERS
        if nesting > MAX_NESTING:
            yield first, function, "levels of nesting", nesting, MAX_NESTING


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    allow = tomllib.loads((root / "tools/sizes_allow.toml").read_text())["allow"]
    allowed = {(entry["file"], entry["what"]): entry["limit"] for entry in allow}
    num_files, num_problems, used = 0, 0, set()
    for folder in ("include", "src", "fuzz", "bench", "examples", "tests"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            num_files += 1
            name = str(path.relative_to(root))
            for line, what, measure, size, limit in findings(name, path.read_text(encoding="utf-8")):
                used.add((name, what))
                if size <= allowed.get((name, what), limit):
                    continue
                num_problems += 1
                print(f"{name}:{line}: {what}: {size} {measure}, the limit is {limit}")
    for name, what in sorted(set(allowed) - used):
        num_problems += 1
        print(f"tools/sizes_allow.toml: the exception for {what} in {name} is no longer needed")
    print(f"sizes: {num_files} files checked, {num_problems} problems")
    return 1 if num_problems else 0


if __name__ == "__main__":
    sys.exit(main())
