"""Runs the gateway and, beside it, a small real model on this machine; `make run` calls it.

Starts both, waits until they answer, prints what to try, and ends both on Ctrl-C or when one of them ends.
Without the model the gateway still starts when OPENAI_API_KEY is set. LOCAL_MODEL_PORT moves the model from port 8788.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVE = Path(__file__).with_name("serve.py")
ADDRESS = re.compile(r"https?://[^\s/'\"]+")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
START_LIMIT_S = 60.0
END_LIMIT_S = 35.0  # a little more than the gateway's own shutdown grace
HINTS = """
  gateway  {url}
  model    {model}

Try, in another terminal:

  curl {url}/v1/chat/completions -H 'content-type: application/json' -H 'x-context-chat-id: demo' \\
    -d '{{"model": "{name}", "max_tokens": 48, "messages": [{{"role": "user", "content": "Name three rivers."}}]}}'

  curl '{url}/api/v2/chats/demo/context-audit?view=summary'

Ctrl-C ends it.
"""


class StartError(Exception):
    """Something didn't start; the message is for the person who ran it."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="config", help="folder of the gateway's configuration (default config)")
    parser.add_argument("--n-ctx", type=int, default=2048, help="the local model's context, in tokens (default 2048)")
    return parser.parse_args(arguments)


class Child:
    """One process: its output is passed on line by line, and it ends with us."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches us alone; a second signal would cut the gateway's grace short
        )
        self.reader = threading.Thread(target=self.pass_on, daemon=True)
        self.reader.start()

    def pass_on(self) -> None:
        """Prints what the process prints and keeps the lines that came before it was ready."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if len(self.lines) < 1000:
                self.lines.append(line)
            print(line, end="", flush=True)

    def answering(self, path: str) -> str | None:
        """The address, of those it has named, that answers there."""
        named = {match for line in list(self.lines) for match in ADDRESS.findall(line)}
        return next((address for address in sorted(named) if answers(address + path)), None)

    def wait_until_answering(self, path: str) -> str:
        """The address, once it answers. Raises StartError."""
        deadline = time.monotonic() + START_LIMIT_S
        while (address := self.answering(path)) is None:
            if self.process.poll() is not None:
                raise StartError(f"the {self.name} ended with code {self.process.returncode}")
            if time.monotonic() > deadline:
                raise StartError(f"the {self.name} wasn't ready after {START_LIMIT_S:.0f} s")
            time.sleep(0.1)
        return address

    def end(self) -> None:
        """Asks it to end, then makes it."""
        try:
            self.process.terminate()
            self.process.wait(END_LIMIT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()
        self.reader.join(1)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def answers(url: str) -> bool:
    """Whether a GET is answered with 200."""
    try:
        with DIRECT.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def start_model(children: list[Child], command: list[str], port: int) -> bool:
    """Starts the local model; False, with a line that says why, when it can't and the gateway is useful without it."""
    model = Child("local model", [*command, "--port", str(port), "--end-with-stdin"])
    children.append(model)
    try:
        model.wait_until_answering("/health")
    except StartError as reason:
        model.end()
        children.remove(model)
        if not os.environ.get("OPENAI_API_KEY"):
            raise StartError(
                f"{reason}, and OPENAI_API_KEY isn't set: no model to talk to (LOCAL_MODEL_PORT moves it)"
            ) from reason
        print(f"{reason}: going on with the models of OPENAI_API_KEY", flush=True)
        return False
    return True


def start_gateway(children: list[Child], command: list[str]) -> str:
    """Starts the gateway and gives its address."""
    gateway = Child("gateway", command)
    children.append(gateway)
    return gateway.wait_until_answering("/healthz")


def run(children: list[Child], model: list[str], gateway: list[str]) -> int:
    """Starts both, says what to try and stays until one ends; its code. Raises StartError."""
    port = int(os.environ.get("LOCAL_MODEL_PORT") or 8788)
    local = start_model(children, model, port)
    url = start_gateway(children, gateway)
    name = "smollm2" if local else "gpt-4o-mini"
    where = f"{name}, on this machine (port {port})" if local else "none on this machine"
    print(HINTS.format(url=url, model=where, name=name), flush=True)
    while True:
        for child in children:
            code = child.process.poll()
            if code is not None:
                print(f"the {child.name} ended with code {code}", flush=True)
                return code or 1
        time.sleep(0.2)


def supervise(model: list[str], gateway: list[str]) -> int:
    """Runs both and ends both, whatever happens."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    children: list[Child] = []
    try:
        return run(children, model, gateway)
    except StartError as reason:
        print(reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        for child in reversed(children):
            child.end()


def main(arguments: list[str]) -> int:
    """The command line."""
    options = parse(arguments)
    model = [sys.executable, str(SERVE), "--n-ctx", str(options.n_ctx)]
    return supervise(model, [sys.executable, "-m", "gateway", "serve", "--config", options.config])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
