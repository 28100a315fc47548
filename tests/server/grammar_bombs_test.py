"""Case P1: no grammar or schema of a request may hang, fell or bloat the server."""

import json
import time

from server import ServerTest, main

LIMIT_SECONDS = 10  # 1 s on a quiet machine; this is for busy ones
MOST_GROWTH = 512 << 20  # bytes


def nested_object(depth):
    """The text of a schema of `depth` objects in objects."""
    return '{"type":"object","properties":{"a":' * depth + '{"type":"string"}' + "}}" * depth


def nested_array(depth):
    return '{"type":"array","items":' * depth + '{"type":"string"}' + "}" * depth


class GrammarBombs(ServerTest):
    def resident_bytes(self):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))

    def setUp(self):
        self.before = self.resident_bytes()

    def send(self, body):
        """The answer to the text of a body, which came soon and cost little."""
        start = time.monotonic()
        answer = self.server.post("/v1/completions", body)
        seconds = time.monotonic() - start
        self.assertLess(seconds, LIMIT_SECONDS)
        self.assertLess(self.resident_bytes() - self.before, MOST_GROWTH)
        if seconds > 1:
            print(f"{self.id()}: {seconds:.1f} s")
        return answer

    def outputs(self, **kind):
        return json.dumps({"prompt": "x", "max_tokens": 4, "temperature": 0, "structured_outputs": kind})

    def schema_text(self, schema):
        return ('{"prompt": "x", "max_tokens": 4, "response_format": {"type": "json_schema", "json_schema": '
                '{"name": "s", "schema": ' + schema + "}}}")

    def refused(self, body):
        return self.assert_refused(self.send(body))

    def test_60000_parentheses_in_a_grammar(self):
        self.refused(self.outputs(grammar="root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000))

    def test_60000_parentheses_that_are_not_closed(self):
        self.refused(self.outputs(grammar="root ::= " + "(" * 60_000))

    def test_a_rule_that_is_itself(self):
        self.refused(self.outputs(grammar="root ::= root"))

    def test_a_rule_that_begins_with_itself(self):
        self.refused(self.outputs(grammar='root ::= root "a"'))

    def test_two_rules_that_begin_with_each_other(self):
        self.refused(self.outputs(grammar='root ::= a "x"\na ::= root "y"'))

    def test_a_rule_that_begins_with_itself_after_what_may_be_empty(self):
        self.refused(self.outputs(grammar='root ::= e root "a" | "b"\ne ::= ""'))

    def test_a_chain_of_5000_rules(self):
        rules = "\n".join(f"r{i} ::= r{i + 1}" for i in range(5000))
        self.refused(self.outputs(grammar=f"root ::= r0\n{rules}\nr5000 ::= \"a\""))

    def test_counts_of_repeats_near_2_to_the_64(self):
        for count in ("{18446744073709551615}", "{18446744073709551616}", "{1000000000}", "{0,99999999}", "{5,2}"):
            with self.subTest(count):
                self.refused(self.outputs(grammar=f'root ::= "a"{count}'))

    def test_repeats_of_repeats(self):
        self.refused(self.outputs(grammar='root ::= ((((("a"{1000}){1000}){1000}){1000}){1000})'))

    def test_a_reference_to_itself(self):
        self.refused(self.schema_text('{"$ref":"#/$defs/N","$defs":{"N":{"$ref":"#/$defs/N"}}}'))

    def test_references_in_a_circle(self):
        circle = '{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}'
        self.refused(self.schema_text('{"$ref":"#/$defs/A","$defs":' + circle + "}"))

    def test_a_circle_through_any_of(self):
        self.refused(self.schema_text('{"$ref":"#/$defs/A","$defs":{"A":{"anyOf":[{"$ref":"#/$defs/A"}]}}}'))

    def test_counts_of_items_near_2_to_the_64(self):
        for name in ("maxItems", "minItems"):
            with self.subTest(name):
                schema = '{"type":"array","items":{"type":"integer"},"%s":18446744073709551615}' % name
                self.refused(self.schema_text(schema))

    def test_lengths_near_2_to_the_64(self):
        for name in ("maxLength", "minLength"):
            with self.subTest(name):
                self.refused(self.schema_text('{"type":"string","%s":18446744073709551615}' % name))

    def test_a_pattern_of_60000_parentheses(self):
        self.refused(self.schema_text('{"type":"string","pattern":"' + "(" * 60_000 + '"}'))
        self.refused(self.schema_text('{"type":"string","pattern":"' + "(" * 60_000 + "a" + ")" * 60_000 + '"}'))

    def test_a_regular_expression_of_60000_parentheses(self):
        self.refused(self.outputs(regex="(" * 60_000 + "a" + ")" * 60_000))

    def test_a_regular_expression_with_repeats_of_repeats(self):
        self.refused(self.outputs(regex="((((a{1,1000}){1,1000}){1,1000}){1,1000})"))

    def test_objects_10000_deep(self):
        self.refused(self.schema_text(nested_object(10_000)))
        self.refused(self.outputs(json=nested_object(10_000)))  # as a text, past the limit on the body's depth

    def test_arrays_10000_deep(self):
        self.refused(self.outputs(json=nested_array(10_000)))

    def test_20000_properties(self):
        properties = {f"p{i}": {"type": "string"} for i in range(20_000)}
        answer = self.send(self.outputs(json={"type": "object", "properties": properties}))
        self.assertIn(answer.status, (200, 400))

    def test_20000_choices(self):
        answer = self.send(self.outputs(choice=[f"choice number {i}" for i in range(20_000)]))
        self.assertIn(answer.status, (200, 400))

    def test_what_is_no_grammar_schema_or_expression(self):
        for kind in ({"grammar": ""}, {"grammar": "root"}, {"grammar": "x ::= \"a\""}, {"grammar": "root ::= y"},
                     {"grammar": "\0"}, {"regex": "("}, {"regex": "[z-a]"}, {"regex": "*"}, {"json": "{"},
                     {"json": {"type": "nonsense"}}, {"json": {"$ref": "#/nowhere"}}, {"choice": []}):
            with self.subTest(kind=kind):
                self.refused(self.outputs(**kind))

    def test_a_tool_s_schema_is_held_to_the_same_limits(self):
        tool = ('{"type":"function","function":{"name":"f","parameters":'
                '{"$ref":"#/$defs/N","$defs":{"N":{"$ref":"#/$defs/N"}}}}}')
        start = time.monotonic()
        answer = self.server.post("/v1/chat/completions", '{"messages":[{"role":"user","content":"x"}],"max_tokens":4,'
                                  '"tool_choice":"required","tools":[' + tool + "]}")
        self.assertLess(time.monotonic() - start, LIMIT_SECONDS)
        self.assert_refused(answer)

    def test_recursion_that_ends_is_served(self):
        schema = {"$ref": "#/$defs/tree", "$defs": {"tree": {
            "type": "object", "properties": {"child": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
            "required": ["child"], "additionalProperties": False}}}
        answer = self.send(json.dumps({"prompt": "x", "max_tokens": 30, "temperature": 0,
                                       "structured_outputs": {"json": schema}}))
        self.assertEqual(200, answer.status, answer.body)
        self.assertTrue(answer.json()["choices"][0]["text"].lstrip().startswith("{"))


if __name__ == "__main__":
    main()
