#!/usr/bin/env python3
"""Makes the expected values of the tokenizer tests with Hugging Face's `tokenizers`.

  python tests/tools/make_text_golden.py tests/golden/text [MODEL.gguf]

Writes pretokenizers.txt (the pieces that each public pre-tokenizer cuts texts into), bpe.txt (a small byte-level
BPE vocabulary trained here, and the ids of texts) and, given the default model, smollm2.txt (the ids of texts with
the vocabulary of the model file). Needs tokenizers 0.23 and gguf from PyPI.

Format: one record a line, fields separated by tabs; texts in hexadecimal, lists separated by spaces.
"""

import json
import os
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PREFIX = r"[^\r\n\p{L}\p{N}]?"
SLASH_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# The letters with case that the deepseek-llm vocabulary lists.
CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿ\u0386\u0388-\u038a\u038c\u038e-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
    "Ḁ-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "ℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
)

# What each value of tokenizer.ggml.pre stands for, in the form of the vocabulary's own tokenizer.json.
PRE_TOKENIZERS = {
    "smollm": [("digits",), GPT2],
    "gpt-2": [GPT2],
    "llama-bpe": [CONTRACTION + "|" + PREFIX + r"\p{L}+|\p{N}{1,3}" + TAIL],
    "qwen2": [CONTRACTION + "|" + PREFIX + r"\p{L}+|\p{N}" + TAIL],
    "qwen35": [
        CONTRACTION
        + "|"
        + PREFIX
        + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "deepseek-llm": [
        r"[\r\n]",
        r"\s?[" + CASED + "]+",
        r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
        r"\s+$",
        "[一-龥ࠀ-一가-\ud7ff]+",
        r"\p{N}+",
    ],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    ],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "tekken": [
        PREFIX + UPPER + "*" + LOWER + "+|" + PREFIX + UPPER + "+" + LOWER + "*" + r"|\p{N}" + SLASH_TAIL
    ],
    "gpt-4o": [
        PREFIX + UPPER + "*" + LOWER + "+" + CONTRACTION + "?|"
        + PREFIX + UPPER + "+" + LOWER + "*" + CONTRACTION + "?"
        + r"|\p{N}{1,3}" + SLASH_TAIL
    ],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}

TEXTS = [
    "",
    "Hello, world!",
    " Hello  World",
    "I'm sure they'll say we've won, it's what I'd do. DON'T SHOUT, IT'S LOUD. 'tis",
    "it'\u017f, '\u017fo, IT'LL'VE",
    "The quick brown fox jumps over the lazy dog.\n\nA second paragraph; with 3 numbers: 1, 22 and 4096.",
    "def f(x):\n    if x > 0:\n        return x ** 2\n\treturn -x  # trailing  \n",
    "for (int i = 0; i < n; ++i) {\r\n  sum += a[i] * b[i];\r\n}\r\n",
    "<div class=\"a\">&amp; https://example.org/a?b=c&d=%20</div>",
    "我想在apple工作1314151天～ 你好，世界！「引用」。",
    "日本語のテキスト、カタカナとひらがな。ㄱ 한국어 문장입니다.",
    "Привет, мир! Ελληνικά: ΰΐ Ἀθῆναι. Ἑλλάς Ω\u2126 K\u212a",
    "مرحبا بالعالم ١٢٣ नमस्ते दुनिया १२३ กำลังโหลด",
    "ǅungla ǈ ʰʷ aʰB ªº ﬁ ﬀ ℌ ⅷ Ⅷ ½ ² ₃ ① 𝟘𝟙 𐐀𐐨 𞤀",
    "e\u0301te\u0301 a\u0308\u0323 \u0301 Ä Ǟ",
    "🚀 (normal) 😶\u200d🌫️ (multiple emojis) ✅ 👨\u200d👩\u200d👧\u200d👦 🇩🇪🇫🇷",
    "3 33 333 3333 33333 333333 1234567890 12a34b 1.5e-3 0x1F ４５６",
    "a b  c   d    e     f      g",
    "\t\ttabs\t and \x0b vertical \x0c feed\x0d\x0a\x0d\x0a",
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \nend   ",
    "nbsp\u00a0\u00a0x en\u2002space\u2003\u2003 thin\u2009. line\u2028sep\u2029par \u3000\u3000wide \u205f \u202f \u1680",
    "\u0085next\u0085 \u180emongolian\u180e \u180e  zero\u200bwidth \ufeffbom \u2060joiner",
    "!!!??? ... --- === +++ $$$ ^^^ ~~~ ||| ``` <<< >>> ««» ‚‘’‛ “”„‟ \u3001\u3002",
    "a_b-c/d\\e@f#g%h&i*j(k)l[m]n{o}p|q:r;s\"t'u,v.w<x>y?z/\n/",
    "camelCaseHTTPServerID iPhone15ProMax XMLHttpRequest's ABC'd",
    "   leading and trailing   ",
    "\x01\x02\x7f control",
    " \u00e9\u00e9 caf\u00e9s na\u00efve \u00c9COLE \u0130stanbul \u00df\u1e9e",
]

# Latin text for a vocabulary of its own.
CORPUS = [text for text in TEXTS if text] + [
    "the cat sat on the mat and the dog sat on the log",
    "there is nothing that they would rather have than this, then and there",
    "return value; if (value != other) { value = other; } else { return other; }",
    "import numpy as np\nfrom collections import defaultdict\n\nclass Node:\n    def __init__(self):\n        self.children = {}\n",
    "one two three four five six seven eight nine ten eleven twelve thirteen",
    "aaaa aaaaaaaa aaaaaaaaaaaaaaaa    \n        \n                \n",
] * 3


def pre_tokenizer(steps):
    parts = []
    for step in steps:
        if step == ("digits",):
            parts.append(pre_tokenizers.Digits(individual_digits=True))
        else:
            parts.append(pre_tokenizers.Split(Regex(step), behavior="isolated"))
    return pre_tokenizers.Sequence(parts)


def write(path, comment, lines):
    with open(path, "w", encoding="ascii") as out:
        for line in comment:
            out.write("# " + line + "\n")
        for line in lines:
            out.write(line + "\n")


def pre_tokenizer_lines():
    for name, steps in PRE_TOKENIZERS.items():
        splitter = pre_tokenizer(steps)
        for text in TEXTS:
            pieces = [piece for piece, _ in splitter.pre_tokenize_str(text)]
            assert "".join(pieces) == text
            lengths = " ".join(str(len(piece.encode())) for piece in pieces)
            yield f"{name}\t{text.encode().hex()}\t{lengths}"


def byte_level(steps):
    return pre_tokenizers.Sequence(
        [pre_tokenizer(steps), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def bpe_lines():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = byte_level(PRE_TOKENIZERS["smollm"])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    vocabulary = tokenizer.get_vocab()
    model = json.loads(tokenizer.to_str())["model"]
    for token, _ in sorted(vocabulary.items(), key=lambda item: item[1]):
        yield f"token\t{token.encode().hex()}"
    for left, right in model["merges"]:
        yield f"merge\t{(left + ' ' + right).encode().hex()}"
    for name in ["smollm", "gpt-2", "llama-bpe", "deepseek-v3"]:
        tokenizer.model.ignore_merges = name == "llama-bpe"
        tokenizer.pre_tokenizer = byte_level(PRE_TOKENIZERS[name])
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            assert tokenizer.decode(ids, skip_special_tokens=False) == text
            yield f"ids\t{name}\t{text.encode().hex()}\t{' '.join(map(str, ids))}"


SPECIAL_TEXTS = [
    "<|im_start|>user\nHi<|im_end|>\n",
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|><|im_end|><|endoftext|>",
    "<|im_start|",
    "<|im_start|<|im_start|>|>",
    "a<repo_name>b<reponame>c<file_sep> d <filename>\n",
    " <|im_end|> \n",
]


def gguf_tokenizer(path, with_specials):
    import gguf

    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ", 1)) for m in fields["tokenizer.ggml.merges"].contents()]
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    # The published configuration: Digits, then ByteLevel with its own pattern.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    if with_specials:
        tokenizer.add_special_tokens(
            [AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == 3]
        )
    return tokenizer


def model_lines(path):
    plain, special = gguf_tokenizer(path, False), gguf_tokenizer(path, True)
    for text in TEXTS + SPECIAL_TEXTS:
        for parse_special, tokenizer in ((0, plain), (1, special)):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            if tokenizer.decode(ids, skip_special_tokens=False) != text:
                print("left out, the vocabulary lacks a byte:", ascii(text))
                continue
            yield f"{parse_special}\t{text.encode().hex()}\t{' '.join(map(str, ids))}"


def main():
    folder = sys.argv[1]
    write(
        os.path.join(folder, "pretokenizers.txt"),
        ["Made by tests/tools/make_text_golden.py with Hugging Face tokenizers.",
         "tokenizer.ggml.pre, the text in hexadecimal, the pieces' lengths in bytes."],
        pre_tokenizer_lines(),
    )
    write(
        os.path.join(folder, "bpe.txt"),
        ["Made by tests/tools/make_text_golden.py with Hugging Face tokenizers.",
         "token: spelling in hexadecimal; merge: \"left right\" in hexadecimal; ids: pre-tokenizer, text, token ids."],
        bpe_lines(),
    )
    if len(sys.argv) > 2:
        write(
            os.path.join(folder, "smollm2.txt"),
            ["Made by tests/tools/make_text_golden.py with Hugging Face tokenizers and SmolLM2's vocabulary.",
             "1 if special tokens are parsed, the text in hexadecimal, the token ids."],
            model_lines(sys.argv[2]),
        )


if __name__ == "__main__":
    main()
