"""Which generations of which clients are tried, and how each one's driver is started in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ENVIRONMENTS = FOLDER / ".venv"  # made by requirements/install.py
TIME_LIMIT_S = 90
QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "*"}  # nothing is fetched from anywhere


@dataclass(frozen=True, slots=True)
class Generation:
    """One major version of one client. `version` is how what its driver tells begins."""

    name: str
    family: str
    version: str
    driver: str
    package: str = ""

    def command(self, url: str) -> list[str]:
        """How its driver is started for a gateway."""
        driver = str(FOLDER / "drivers" / self.driver)
        if self.driver.endswith(".py"):
            return [str(ENVIRONMENTS / self.name / "bin" / "python"), driver, url]
        return ["node", driver, url, str(ENVIRONMENTS / "node"), self.package]

    def outcomes(self, url: str, requests: Sequence[dict[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
        """What the client made of each request, by name; its version under the name `version`."""
        seen = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        run = subprocess.run(  # noqa: S603  # our own driver
            self.command(url),
            cwd=folder,
            env={**seen, **QUIET, "HOME": str(folder)},
            input="".join(json.dumps(request) + "\n" for request in requests),
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        assert run.returncode == 0, f"{self.name}: {run.stderr}"
        return {line.get("name", "version"): line for line in lines}


GENERATIONS = [
    Generation("openai-1", "openai-python", "1.", "openai_python.py"),
    Generation("openai-2", "openai-python", "2.", "openai_python.py"),
    Generation("openai-3", "openai-python", "3.", "openai_python.py"),
    Generation("langchain-openai-1", "langchain", "1.", "langchain_python.py"),
    Generation("litellm-1", "litellm", "1.", "litellm_python.py"),
    Generation("openai-node-4", "openai-node", "4.", "openai_node.mjs", "openai-4"),
    Generation("openai-node-7", "openai-node", "7.", "openai_node.mjs", "openai-7"),
    Generation("ai-sdk-6", "ai-sdk", "6.", "ai_sdk.mjs"),
]
