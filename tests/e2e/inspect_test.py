"""`octavo inspect` on the default model, whose geometry is known."""

import tempfile
import unittest

import program
from program import MODEL, octavo, parse_json


class InspectTest(unittest.TestCase):
    def test_json_reports_metadata_tensors_and_bytes_per_token(self):
        done = octavo("inspect", MODEL, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        report = parse_json(done.stdout)

        self.assertEqual(report["metadata"]["general.architecture"], "llama")
        self.assertEqual(report["metadata"]["tokenizer.ggml.tokens"]["length"], 49152)
        self.assertEqual(len(report["tensors"]), 272)
        self.assertEqual(sum(tensor["dtype"] == "Q4_1" for tensor in report["tensors"]), 210)
        geometry = {key: report["model"][key] for key in ("num_layers", "num_heads", "num_kv_heads", "head_dim")}
        self.assertEqual(geometry, {"num_layers": 30, "num_heads": 9, "num_kv_heads": 3, "head_dim": 64})
        # 2 (K and V) x 30 layers x 3 KV heads x (64 x element bytes + scale bytes)
        self.assertEqual(report["kv_bytes_per_token"],
                         {"float32": 46080, "float16": 23040, "bfloat16": 23040, "int8": 11880})
        block_bytes = 16 * 23040  # the default pool: whole blocks in 2 GiB
        self.assertEqual(report["memory"]["kv_cache"], 2**31 // block_bytes * block_bytes)

    def test_text_shows_the_same(self):
        done = octavo("inspect", MODEL)
        self.assertEqual(done.returncode, 0)
        for words in (b"llama.block_count", b"blk.0.attn_q.weight", b"23040", b"11880", b"kv_cache"):
            self.assertIn(words, done.stdout)

    def test_names_in_a_file_cannot_steer_the_terminal(self):
        with open(MODEL, "rb") as file, tempfile.NamedTemporaryFile() as copy:
            copy.write(file.read().replace(b"blk.0.attn_q.weight", b"blk.0.\x1b[31m_q.weight"[:19]))
            copy.flush()
            done = octavo("inspect", copy.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"blk.0. [31m_q.weigh", done.stdout)
        self.assertNotIn(b"\x1b", done.stdout)


if __name__ == "__main__":
    program.main()
