"""Serve one GGUF file with llama.cpp until the process that started this one is gone.

It runs as a script of its own, so it imports nothing of this package: the server is up without loading it. Its
settings come as one line of JSON, and its address goes out as another.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which may still have calls to finish
    settings = json.loads(sys.stdin.readline())
    sys.path.append(settings["library"])
    server = import_module("xllamacpp").Server(_params(settings))
    print(json.dumps(server.listening_address), flush=True)  # noqa: T201 - told to the parent
    sys.stdin.read()
    os._exit(0)  # the server's own threads would be waited for


def _params(settings: dict[str, Any]) -> Any:
    params = import_module("xllamacpp").CommonParams()
    params.model.path = settings["file"]
    params.model_alias = {settings["name"]}
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [settings["key"]]
    params.offline, params.ui, params.verbosity = True, False, 1
    params.n_parallel, params.n_ctx = settings["slots"], settings["slots"] * settings["context"]
    params.n_predict = settings["longest"]
    params.cache_ram_mib = settings["cached_prompts_mib"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    return params


if __name__ == "__main__":
    main()
