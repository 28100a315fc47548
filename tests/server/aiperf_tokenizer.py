"""Makes a Hugging Face cache that holds the tokenizer of a GGUF file: aiperf_tokenizer.py MODEL HF_HOME NAME.

aiperf looks for its tokenizer there. Only a byte-level BPE with digits of their own, as the default model has.
"""

import json
import pathlib
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

CONTROL = 3  # token_type
REVISION = "0" * 40


def read_tokenizer(model):
    reader = GGUFReader(model)

    def field(name):
        return reader.fields["tokenizer.ggml." + name].contents()

    tokens = field("tokens")
    tokenizer = Tokenizer(BPE({token: i for i, token in enumerate(tokens)},
                              [tuple(merge.split(" ")) for merge in field("merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True) for token, kind in zip(tokens, field("token_type")) if kind == CONTROL])
    return tokenizer, {"bos_token": tokens[field("bos_token_id")], "eos_token": tokens[field("eos_token_id")]}


def main():
    model, home, name = sys.argv[1:]
    folder = pathlib.Path(home, "hub", "models--" + name.replace("/", "--"))
    snapshot = folder / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(REVISION)
    tokenizer, special = read_tokenizer(model)
    tokenizer.save(str(snapshot / "tokenizer.json"))
    (snapshot / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special}))
    (snapshot / "config.json").write_text(json.dumps({"model_type": "llama"}))


if __name__ == "__main__":
    main()
