"""What deploy/ shows fits the product: its variables are keys, what it copies exists, its timeouts are in the right order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.settings import load_settings
from tests.house.tree import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SIDECAR = list(yaml.safe_load_all((DEPLOY / "sidecar.yaml").read_text()))
FILLED = {"POSTGRES_PASSWORD": "secret"}


def compose_variables() -> dict[str, str]:
    return {name: str(value) for name, value in COMPOSE["x-gateway"]["environment"].items()}


def sidecar_container() -> Any:
    return SIDECAR[1]["spec"]["template"]["spec"]["initContainers"][0]


def sidecar_variables() -> dict[str, str]:
    return {each["name"]: each["value"] for each in sidecar_container()["env"] if "value" in each}


def unit_variables() -> dict[str, str]:
    lines = re.findall(r"^Environment=(.*)$", (DEPLOY / "gateway.service").read_text(), re.MULTILINE)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def expanded(value: str) -> str:
    return re.sub(r"\$\{(\w+)(?::[?-][^}]*)?\}", lambda match: FILLED.get(match[1], ""), value)


@pytest.mark.parametrize(
    "variables", [compose_variables(), sidecar_variables(), unit_variables()], ids=["compose", "sidecar", "unit"]
)
def test_the_variables_are_keys_of_the_configuration(variables: dict[str, str], tmp_path: Path) -> None:
    own = {name: expanded(value) for name, value in variables.items() if name.startswith("SLUICEGATE_")}
    assert own
    load_settings(tmp_path, own)


def test_the_sidecars_configuration_is_valid(tmp_path: Path) -> None:
    files = SIDECAR[0]["data"]
    (tmp_path / "gateway.toml").write_text(files["gateway.toml"])
    settings = load_settings(tmp_path, {"OPENAI_API_KEY": "x"} | sidecar_variables())
    assert settings.server.host == "127.0.0.1"
    places = SIDECAR[1]["spec"]["template"]["spec"]["volumes"][0]["configMap"]["items"]
    assert {each["key"] for each in places} == set(files)


def copied() -> Iterator[str]:
    for line in (DEPLOY / "Dockerfile").read_text().splitlines():
        words = line.split()
        if words[:1] == ["COPY"] and not words[1].startswith("--from"):
            yield from words[1:-1]


@pytest.mark.parametrize("path", sorted(set(copied())))
def test_what_the_image_is_made_of_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_a_gateway_has_more_time_to_end_than_its_grace() -> None:
    grace = int(compose_variables()["SLUICEGATE_SERVER__SHUTDOWN_GRACE_S"])
    assert int(COMPOSE["x-gateway"]["stop_grace_period"].removesuffix("s")) > grace
    assert SIDECAR[1]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > int(
        sidecar_variables()["SLUICEGATE_SERVER__SHUTDOWN_GRACE_S"]
    )


def test_nginx_waits_longer_than_the_gateway_and_takes_larger_bodies(tmp_path: Path) -> None:
    text, settings = (DEPLOY / "nginx.conf").read_text(), load_settings(tmp_path, {})
    (read,) = re.findall(r"proxy_read_timeout (\d+)s", text)
    (size,) = re.findall(r"client_max_body_size (\d+)m", text)
    assert int(read) > settings.timeouts.total_s
    assert int(size) * 2**20 > settings.server.max_body_bytes
