"""The conversations that chat_templates.py renders: a name, and what the template is given."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the <current> weather & \"forecast\" of a city; it's free.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city's name, e.g. 'Zürich'"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "integer", "minimum": 1, "maximum": 14.5, "nullable": True},
                "tags": {"type": "array", "items": {"type": "string"}},
                "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}},
                "any": {"type": ["string", "null"], "description": "two types"},
            },
            "required": ["city"],
        },
        "return": {"type": "string"},
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the web 🔎",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}
NO_PARAMETERS = {"type": "function", "function": {"name": "ping", "description": "Ping.", "parameters": {}}}
TOOLS = [WEATHER, SEARCH]


def call(name, arguments, call_id="call_1"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(content):
    return {"role": "user", "content": content}


def system(content):
    return {"role": "system", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def tool(content, call_id="call_1", name="get_weather"):
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


NESTED = {"city": "Zürich \"HB\"", "days": 3, "where": {"lat": 47.37, "lon": -8.5e-7, "ok": True, "none": None},
          "tags": ["a", "b\nc", ""], "empty": {}, "list": []}
CALLED = [user("Weather?"), assistant("", tool_calls=[call("get_weather", {"city": "Bern"})]), tool("{\"t\": 21}")]
UNICODE = "我想在apple工作 1314151天～ 🚀👩‍👩‍👧 e\u0301 \u2028 \u00a0 \u200b ÄÖÜß ﬁ Σς"
QUOTES = "it's \"quoted\" \\n `code` {{ 7 * 7 }} {% raw %} <b>&amp;</b> <|im_start|>system\n<|im_end|> [INST] </s>"
THINKING = "<think>\nLet me think.\n</think>\n\nThe answer is 4."

CONVERSATIONS = {
    "user": {"messages": [user("Hi")]},
    "user, no prompt": {"messages": [user("Hi")], "add_generation_prompt": False},
    "system": {"messages": [system("Be brief."), user("What is 2+2?")]},
    "turns": {"messages": [system("S"), user("1"), assistant("one"), user("2"), assistant("two"), user("3")]},
    "turns, no prompt": {"messages": [user("1"), assistant("one"), user("2"), assistant("two")],
                         "add_generation_prompt": False},
    "nothing": {"messages": []},
    "system only": {"messages": [system("Only.")]},
    "developer": {"messages": [{"role": "developer", "content": "Dev."}, user("Hi")]},
    "late system": {"messages": [user("1"), system("late"), user("2")]},
    "assistant first": {"messages": [assistant("I begin.")]},
    "two users": {"messages": [user("a"), user("b")]},
    "unknown role": {"messages": [{"role": "narrator", "content": "Once"}, user("Hi")]},
    "unicode": {"messages": [system(UNICODE), user(UNICODE), assistant(UNICODE), user("🇨🇭")]},
    "quotes": {"messages": [user(QUOTES), assistant(QUOTES), user("'")]},
    "spaces": {"messages": [system("  s  "), user("  lead and trail  \n"), assistant("\n\n a \t"), user("\n")]},
    "line ends": {"messages": [user("a\r\nb\rc\n\nd\v\fe\x1f\x85"), assistant("x\r\n"), user("y")]},
    "empty content": {"messages": [system(""), user(""), assistant(""), user("")]},
    "null content": {"messages": [user("q"), assistant(None), user("r")]},
    "no content": {"messages": [user("q"), {"role": "assistant"}, user("r")]},
    "parts": {"messages": [user([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])]},
    "system parts": {"messages": [system([{"type": "text", "text": "sys"}]), user([{"type": "text", "text": "q"}]),
                                  assistant([{"type": "text", "text": "a"}]), user("r")]},
    "image part": {"messages": [user([{"type": "image"}, {"type": "text", "text": "what?"}])]},
    "image url part": {"messages": [user([{"type": "image_url", "image_url": {"url": "x"}}])]},
    "number content": {"messages": [user(5), assistant(1.5), user(True)]},
    "tools": {"messages": [user("Weather in Bern?")], "tools": TOOLS},
    "tools, system": {"messages": [system("Use tools."), user("Weather?")], "tools": TOOLS},
    "no tools": {"messages": [user("Hi")], "tools": []},
    "tool without parameters": {"messages": [user("Hi")], "tools": [NO_PARAMETERS]},
    "bare tool": {"messages": [user("Hi")], "tools": [WEATHER["function"]]},
    "call": {"messages": CALLED[:2], "tools": TOOLS, "add_generation_prompt": False},
    "result": {"messages": CALLED, "tools": TOOLS},
    "result without tools": {"messages": CALLED},
    "null content with a call": {"messages": [user("W?"), assistant(None, tool_calls=[call("get_weather", NESTED)]),
                                              tool("21")], "tools": TOOLS},
    "answer after a result": {"messages": [*CALLED, assistant("21 degrees."), user("Thanks")], "tools": TOOLS},
    "two calls": {"messages": [user("W?"), assistant("Looking.", tool_calls=[
        call("get_weather", NESTED, "functions.get_weather:0"), call("search", {"query": "x & <y>"}, "functions.search:1")]),
        tool("21", "functions.get_weather:0"), tool("found", "functions.search:1", "search")], "tools": TOOLS},
    "arguments as text": {"messages": [user("W?"), assistant(None, tool_calls=[
        call("get_weather", "{\"city\": \"Bern\", \"days\": 2}", "abcdefghi")]), tool("21", "abcdefghi")],
        "tools": TOOLS},
    "no arguments": {"messages": [user("W?"), assistant("", tool_calls=[call("ping", {})]), tool("pong")],
                     "tools": [NO_PARAMETERS]},
    "calls in two turns": {"messages": [*CALLED, assistant("So."), user("Zürich?"), assistant("", tool_calls=[
        call("get_weather", {"city": "Zürich"}, "call_2")]), tool("22", "call_2"), tool("more", "call_3")],
        "tools": TOOLS},
    "result in parts": {"messages": [*CALLED[:2], tool([{"type": "text", "text": "21"}])], "tools": TOOLS},
    "result as object": {"messages": [*CALLED[:2], tool({"t": 21, "list": [1, 2.0, None]})], "tools": TOOLS},
    "empty calls": {"messages": [user("q"), assistant("a", tool_calls=[]), user("r")]},
    "null calls": {"messages": [user("q"), assistant("a", tool_calls=None), user("r")]},
    "thinking": {"messages": [user("2+2?"), assistant(THINKING), user("And 3?")]},
    "thinking last": {"messages": [user("2+2?"), assistant(THINKING)], "add_generation_prompt": False},
    "reasoning": {"messages": [user("2+2?"), assistant("4", reasoning_content="Easy: 4."), user("And 3?"),
                               assistant("6", reasoning="Twice.")], "add_generation_prompt": False},
    "reasoning with a call": {"messages": [user("W?"), assistant("", reasoning_content="Hm.", thinking="Hm!", tool_calls=[
        call("get_weather", {"city": "Bern"})]), tool("21")], "tools": TOOLS},
    "thinking on": {"messages": [user("Hi")], "kwargs": {"enable_thinking": True, "thinking": True}},
    "thinking off": {"messages": [user("Hi")], "kwargs": {"enable_thinking": False, "thinking": False}},
    "thinking off, turns": {"messages": [system("S /no_think"), user("1"), assistant(THINKING), user("2 /think")],
                            "kwargs": {"enable_thinking": False, "clear_thinking": False}},
    "effort": {"messages": [user("Hi")], "kwargs": {"reasoning_effort": "high", "model_identity": "You are Bob.",
                                                    "thinking_budget": 512, "builtin_tools": ["browser", "python"]}},
    "date": {"messages": [user("Hi")], "kwargs": {"date_string": "26 Jul 2024", "tools_in_user_message": False}},
    "date, tools": {"messages": [system("S"), user("Hi")], "tools": TOOLS,
                    "kwargs": {"tools_in_user_message": False, "custom_tools": TOOLS, "keep_past_thinking": True}},
    "documents": {"messages": [user("Hi")], "kwargs": {"citation_mode": "fast", "controls": {"length": "short"}}},
}
