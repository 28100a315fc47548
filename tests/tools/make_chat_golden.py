#!/usr/bin/env python3
"""Makes the expected values of the chat template tests with jinja2.

  python tests/tools/make_chat_golden.py tests/golden/text/chat.txt [MODEL.gguf]

Renders ChatML templates over conversations as Transformers does: trim_blocks and lstrip_blocks on. With the default
model at hand it checks that its template is the first one here, and adds the token ids of the rendered prompts by
Hugging Face's `tokenizers`. Needs jinja2 (and gguf, tokenizers 0.23) from PyPI.

Format: one record a line, fields separated by tabs, texts in hexadecimal.
  template   name  Jinja text
  prompt     name of the template  add_generation_prompt (0 or 1)  rendered text  role content role content ...
  ids        as prompt, with the token ids instead of the rendered text
"""

import sys

import jinja2.sandbox

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEMPLATES = {
    "smollm2": SMOLLM2,
    "plain": PLAIN,
    "escaped": SMOLLM2.replace("\n", "\\n").replace("named SmolLM, trained by Hugging Face", "called Q"),
    "line feed at the end": PLAIN + "\n",
}

CONVERSATIONS = [
    [],
    [("user", "Hi")],
    [("system", "Be brief."), ("user", "What is 2+2?")],
    [("user", "What is 2+2?"), ("assistant", "4"), ("user", "And 3 + 3 ?")],
    [("user", "  leading and trailing spaces  \n"), ("assistant", ""), ("user", "\n\n")],
    [("user", "I said 'no' and \"yes\" \\n {{ 7 * 7 }} {% raw %} <b>&amp;</b>")],
    [("user", "我想在apple工作1314151天～ 🚀"), ("assistant", "def f(x):\n    return x\n")],
    [("user", "first"), ("system", "late"), ("tool", "other role")],
    [("system", ""), ("user", "123\r\n456")],
]


def render(template, conversation, add_generation_prompt):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    messages = [{"role": role, "content": content} for role, content in conversation]
    return environment.from_string(template).render(
        messages=messages, add_generation_prompt=add_generation_prompt
    )


def hexed(text):
    return text.encode().hex()


def fields_of(conversation):
    return [hexed(part) for message in conversation for part in message]


def main():
    lines = ["# Made by tests/tools/make_chat_golden.py with jinja2; the format is described there."]
    for name, template in TEMPLATES.items():
        lines.append("\t".join(["template", name, hexed(template)]))
        for conversation in CONVERSATIONS:
            for prompt in (False, True):
                rendered = render(template, conversation, prompt)
                record = ["prompt", name, str(int(prompt)), hexed(rendered)]
                lines.append("\t".join(record + fields_of(conversation)))
    if len(sys.argv) > 2:
        import gguf

        from make_text_golden import gguf_tokenizer

        fields = gguf.GGUFReader(sys.argv[2]).fields
        assert fields["tokenizer.chat_template"].contents() == SMOLLM2
        tokenizer = gguf_tokenizer(sys.argv[2], True)
        for conversation in CONVERSATIONS:
            for prompt in (False, True):
                rendered = render(SMOLLM2, conversation, prompt)
                ids = tokenizer.encode(rendered, add_special_tokens=False).ids
                record = ["ids", "smollm2", str(int(prompt)), " ".join(map(str, ids))]
                lines.append("\t".join(record + fields_of(conversation)))
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
