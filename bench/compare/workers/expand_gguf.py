"""expand_gguf.py MODEL.gguf FOLDER: the weights in bfloat16, in Hugging Face's layout. Runs in vLLM's environment."""

import pathlib
import sys

import torch
import transformers

source, target = map(pathlib.Path, sys.argv[1:])
where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
config = model.config
if hasattr(config, "quantization_config"):  # what is written is not quantised any more
    del config.quantization_config
plain = type(model)(config).to(torch.bfloat16)
plain.load_state_dict(model.state_dict())
partial = target.with_name(target.name + ".partial")
plain.save_pretrained(partial)
transformers.AutoTokenizer.from_pretrained(**where).save_pretrained(partial)
partial.rename(target)
