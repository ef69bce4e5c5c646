"""A real inference server for tests: llama.cpp in a child process, with a tiny model of random weights.

The model is written here, with the letters of ASCII for its words. It talks nonsense, in the time and in the forms
of a real one: free text, JSON that fits a schema, events, token counts, replies cut short, overflowing contexts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gguf

WIDTH, HEADS, LAYERS, HIDDEN, TRAINED_CONTEXT = 64, 1, 1, 128, 65_536
"""One head and one layer: more would only cost time, on prompts of thousands of letters."""
SLOTS, CONTEXT = 4, 8_192
"""How many requests are answered at once, and how many tokens each may hold."""

TEMPLATE = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}<|assistant|>"
CONTROLS = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{number:02X}>" for number in range(256)]
LETTERS = ["\u2581", *map(chr, range(33, 127))]
WORDS = [*CONTROLS, *BYTES, *LETTERS]
LIKING = {**dict.fromkeys(CONTROLS + BYTES, -10.0), "</s>": 0.2, '"': 0.4}
"""What is added to a word's chance: single bytes would be broken UTF-8, ends and quotes keep texts short."""


def write_model(path: Path) -> None:
    """Write a model file: a llama of 1 layer with normally distributed weights.

    One dimension of what flows through the layer is kept constant (5 in every embedding, nothing is ever added to
    it), so that its column of the output matrix is a bias for each word.
    """
    import gguf  # noqa: PLC0415 - installed where the server is
    import numpy as np  # noqa: PLC0415 - likewise

    chance = np.random.default_rng(0)
    model = gguf.GGUFWriter(path, "llama")
    _describe(model)

    def add(name: str, *shape: int) -> None:
        weights = (chance.standard_normal(shape) * 0.05).astype(np.float32)
        if name == "token_embd":
            weights[:, 0] = 5.0
        if name.endswith(("attn_output", "ffn_down")):
            weights[0, :] = 0.0
        if name == "output":
            weights[:, 0] = [LIKING.get(word, 0.0) for word in WORDS]
        model.add_tensor(f"{name}.weight", weights)

    def add_norm(name: str) -> None:
        model.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))

    add("token_embd", len(WORDS), WIDTH)
    add("output", len(WORDS), WIDTH)
    add_norm("output_norm")
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            add_norm(f"blk.{layer}.{name}")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}", WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{name}", HIDDEN, WIDTH)
        add(f"blk.{layer}.ffn_down", WIDTH, HIDDEN)
    model.write_header_to_file()
    model.write_kv_data_to_file()
    model.write_tensors_to_file()
    model.close()


def _describe(model: gguf.GGUFWriter) -> None:
    import gguf  # noqa: PLC0415 - as above

    model.add_name("tiny-random")
    model.add_file_type(gguf.LlamaFileType.ALL_F32)
    model.add_context_length(TRAINED_CONTEXT)
    model.add_embedding_length(WIDTH)
    model.add_block_count(LAYERS)
    model.add_feed_forward_length(HIDDEN)
    model.add_head_count(HEADS)
    model.add_head_count_kv(HEADS)
    model.add_rope_dimension_count(WIDTH // HEADS)
    model.add_layer_norm_rms_eps(1e-5)
    kinds = {**dict.fromkeys(CONTROLS, gguf.TokenType.CONTROL), **dict.fromkeys(BYTES, gguf.TokenType.BYTE)}
    model.add_tokenizer_model("llama")
    model.add_tokenizer_pre("default")
    model.add_token_list(WORDS)
    model.add_token_scores([0.0] * len(WORDS))
    model.add_token_types([kinds.get(word, gguf.TokenType.NORMAL) for word in WORDS])
    model.add_vocab_size(len(WORDS))
    model.add_unk_token_id(WORDS.index("<unk>"))
    model.add_bos_token_id(WORDS.index("<s>"))
    model.add_eos_token_id(WORDS.index("</s>"))
    model.add_chat_template(TEMPLATE)


@contextmanager
def serving_llama(folder: Path) -> Iterator[str]:
    """Run the server while the block runs; give its base URL.

    Args:
        folder: Where the model and the server's log are written.
    """
    model, log = folder / "tiny.gguf", folder / "server.log"
    write_model(model)
    with log.open("wb") as file:
        command = [sys.executable, __file__, str(model)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                address = child.stdout.readline().decode().strip()
                assert address.startswith("http://127.0.0.1:"), f"the server did not start; see {log}"
                yield f"{address}/v1"
            finally:
                child.kill()


def _serve(model: str) -> None:
    """Serve in this process until the parent goes."""
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.offline, params.warmup = True, False
    params.n_parallel, params.n_ctx = SLOTS, SLOTS * CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - told to the parent
    sys.stdin.read()


if __name__ == "__main__":
    _serve(sys.argv[1])
