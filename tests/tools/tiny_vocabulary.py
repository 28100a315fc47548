"""Two small vocabularies for the tiny models, written into a GGUF file's metadata.

byte-level BPE: the 256 bytes in GPT-2's alphabet, a few merges, three control tokens.
SentencePiece: three control tokens, 256 byte tokens, a space and letters with scores.
"""

import gguf

_MERGES = ["t h", "Ġ t", "i n", "e r", "Ġt h", "Ġth e", "Ġ a", "o n"]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def _byte_alphabet():
    """GPT-2's character for each byte: printable ones stand for themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet, extra = {}, 0
    for byte in range(256):
        if byte in printable:
            alphabet[byte] = chr(byte)
        else:
            alphabet[byte] = chr(256 + extra)
            extra += 1
    return alphabet


def add_bpe(writer, vocab_size):
    tokens = CONTROL + list(_byte_alphabet().values()) + [m.replace(" ", "") for m in _MERGES]
    types = [gguf.TokenType.CONTROL] * len(CONTROL)
    types += [gguf.TokenType.NORMAL] * (len(tokens) - len(CONTROL))
    unused = vocab_size - len(tokens)
    tokens += [f"<unused{i}>" for i in range(unused)]
    types += [gguf.TokenType.UNUSED] * unused
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(_MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def add_spm(writer, vocab_size):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    types += [gguf.TokenType.BYTE] * 256
    scores = [0.0] * len(tokens)
    pieces = ["▁", "t", "h", "e", "a", "n", "th", "▁th", "▁the", "an", "▁a"]
    tokens += pieces
    types += [gguf.TokenType.NORMAL] * len(pieces)
    scores += [-100.0] * 6 + [-1.0, -2.0, -3.0, -4.0, -5.0]
    unused = vocab_size - len(tokens)
    tokens += [f"<unused{i}>" for i in range(unused)]
    types += [gguf.TokenType.UNUSED] * unused
    scores += [-1000.0] * unused
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_scores(scores)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
