"""The command line: serve, check, preview, count, models, profiles, key. It ends with 0 when all is fine, 1 on wrong input, 2 on
wrong usage, never with a traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from gateway import __version__, previewing
from gateway.app import (
    CONFIG_VARIABLE,
    Configuration,
    Gateway,
    app_from_environment,
    load_configuration,
    make_providers,
    require_store,
    stored_lessons,
)
from gateway.config_listing import describe, describe_lessons
from gateway.errors import InvalidRequest, ModelNotFound
from gateway.model_catalog import ModelConfig, effective_limits
from gateway.settings import Settings, require_safe_bind
from gateway.tenants import new_key
from gateway.toml_tree import ConfigError, Place
from tokenizer_profiles.errors import ProfileError
from tokenizer_profiles.kinds import ProfileDescription
from tokenizer_profiles.registry import ProfileRegistry

FINE, WRONG_INPUT = 0, 1
_CONFIG_DIR, _SETTINGS_FILE = Path("config"), "gateway.toml"
_FACTORY = f"{app_from_environment.__module__}:{app_from_environment.__name__}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the process's exit code. Wrong usage ends the process with 2."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except (ConfigError, ProfileError) as error:
        _complain(str(error))
        return WRONG_INPUT
    except (InvalidRequest, ModelNotFound) as error:
        _complain(f"{options.file}: {error.message}")
        return WRONG_INPUT
    except KeyboardInterrupt:
        return FINE
    except BrokenPipeError:  # what reads our output has had enough
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())  # or the last flush of the process would complain
        return FINE


def serve(options: argparse.Namespace) -> int:
    """Runs the gateway until it is told to stop."""
    from gateway.server import serve_many, serve_one  # uvicorn is needed here alone

    _override("SLUICEGATE_SERVER__HOST", options.host)
    _override("SLUICEGATE_SERVER__PORT", options.port)
    configuration = load_configuration(options.config, os.environ)
    settings = configuration.settings
    require_safe_bind(settings)
    asyncio.run(require_store(settings))
    if options.workers > 1:
        if settings.store.url.reveal().startswith("memory:"):
            raise Place(settings.provenance.file, "store.url").error(
                "memory: can't be shared by several workers; use sqlite:///FILE"
            )
        _override(CONFIG_VARIABLE, str(options.config))
        _override("SLUICEGATE_SERVER__HOST", settings.server.host)  # a worker that starts later is bound to it all the same
        return FINE if serve_many(_FACTORY, settings.server, options.workers, _bound(settings), _say) else WRONG_INPUT
    bound = _bound(settings)
    return FINE if serve_one(Gateway(configuration, options.config).app, settings.server, bound, _say) else WRONG_INPUT


def check(options: argparse.Namespace) -> int:
    """Validates everything and prints the effective values with their sources."""
    configuration = load_configuration(options.config, os.environ)
    require_safe_bind(configuration.settings)
    asked = asyncio.run(_ask_limits(configuration))
    lessons = describe_lessons(asyncio.run(stored_lessons(configuration.settings)))
    for key, value, source in [*describe(configuration.settings, configuration.models, asked), *lessons]:
        _print(f"{key} = {value}  ({source})")
    for config in configuration.models.all():
        warning = effective_limits(config, asked.get(config.name)).warning
        if warning:
            _print(f"warning: {warning}")
    _print("The configuration is valid.")
    return FINE


def preview(options: argparse.Namespace) -> int:
    """Tells what would be sent of a request, what left out and why; sends and stores nothing.

    With several strategies each is tried. Over budget is an answer, not an error.
    """
    configuration = load_configuration(options.config, os.environ)
    found = asyncio.run(previewing.preview(configuration, previewing.read_input(options.file), options.strategy))
    if options.json:
        _print(msgspec.json.encode(found[0] if len(found) == 1 else {"previews": found}).decode())
        return FINE
    for number, each in enumerate(found):
        _print_all(["", *previewing.preview_lines(each)] if number else previewing.preview_lines(each))
    return FINE


def count(options: argparse.Namespace) -> int:
    """Counts a request, message by message.

    By the tokenizer that is configured for the model; without a configuration by the model's name.
    """
    config_dir = options.config or (_CONFIG_DIR if (_CONFIG_DIR / _SETTINGS_FILE).exists() else None)
    configuration = None if config_dir is None else load_configuration(config_dir, os.environ)
    tally = asyncio.run(previewing.count(configuration, previewing.read_input(options.file), options.model))
    _print_all(previewing.count_lines(tally))
    return FINE


def models(options: argparse.Namespace) -> int:
    """Prints what is configured, a line a model."""
    configuration = load_configuration(options.config, os.environ)
    asked = asyncio.run(_ask_limits(configuration))
    for config in configuration.models.all():
        limits = effective_limits(config, asked.get(config.name))
        names = ", ".join((config.name, *config.aliases))
        room = f"{limits.context_limit} tokens ({limits.source})"
        _print(f"{names}  provider {config.provider}, {room}, tokenizer {config.tokenizer}")
    return FINE


def profiles(options: argparse.Namespace) -> int:
    """Prints the tokenizer profiles: for which models, exact or approximate, data present or not.

    A prompt may be approximate though its text is exact: for its tools, its images, or a template that is not known.
    """
    for profile in ProfileRegistry.with_builtins().describe():
        _print(_profile_line(profile))
    return FINE


def key(options: argparse.Namespace) -> int:
    """Makes a new client key, shown once, and the lines for the configuration."""
    secret, lines = new_key(options.name)
    _print(f"{secret}\n\n# for gateway.toml; the key itself is stored nowhere\n{lines}")
    return FINE


def _profile_line(profile: ProfileDescription) -> str:
    exactness = "approximate" if profile.approximate else "text exact"
    data = "data present" if profile.data_present else f"data missing: {profile.install or 'its package is not installed'}"
    models = f", for {', '.join(profile.models)}" if profile.models else ""
    return f"{profile.name}  {exactness}, {data}{models}"


async def _ask_limits(configuration: Configuration) -> dict[str, int | None]:
    providers = make_providers(configuration.settings)

    async def ask(config: ModelConfig) -> tuple[str, int | None]:
        known = config.context_limit is not None
        return config.name, None if known else await providers[config.provider].context_limit(config.upstream_name(config.name))

    try:
        return dict(await asyncio.gather(*(ask(config) for config in configuration.models.all())))
    finally:
        for provider in providers.values():
            await provider.aclose()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluicegate", description="Fits conversations into a model's context window.")
    parser.add_argument("--version", action="version", version=f"sluicegate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    where = "configuration directory (default: ./config)"
    added = {}
    for command in (serve, check, preview, count, models, profiles, key):
        sub = commands.add_parser(command.__name__, help=(command.__doc__ or "").splitlines()[0])
        sub.set_defaults(command=command)
        if command not in (profiles, key):
            sub.add_argument("--config", type=Path, default=None if command is count else _CONFIG_DIR, metavar="DIR", help=where)
        added[command.__name__] = sub
    added["serve"].add_argument("--host", help="address to bind (default: server.host)")
    added["serve"].add_argument("--port", help="port to bind, 0 for any (default: server.port)")
    added["serve"].add_argument("--workers", type=_workers, default=1, metavar="N", help="number of processes (default: 1)")
    for name in ("preview", "count"):
        added[name].add_argument("file", metavar="FILE", help="a chat completion request as JSON; - for standard input")
    added["preview"].add_argument(
        "--strategy", action="append", default=[], metavar="S", help="a context strategy to try; repeat it to compare several"
    )
    added["preview"].add_argument("--json", action="store_true", help="one JSON object for programs")
    added["count"].add_argument("--model", metavar="M", help="count for this model (default: the request's)")
    added["key"].add_argument("new", choices=["new"], help="make a new key")
    added["key"].add_argument("name", metavar="NAME", help="the tenant it belongs to")
    return parser


def _bound(settings: Settings) -> socket.socket:
    """The listening socket, taken before anything starts. Raises ConfigError when the address can't be had."""
    host, port = settings.server.host.strip("[]"), settings.server.port
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # from now on the address is taken for everybody else
    except (OSError, UnicodeError) as error:  # the latter for what can be no name of a host
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "it is no address"
        raise Place(settings.provenance.file, "server.port").error(f"{host} port {port} can't be used: {reason}") from None
    listening.set_inheritable(True)
    return listening


def _workers(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 64")
    return int(text)


def _override(variable: str, value: str | None) -> None:
    """Options become environment overrides, so that a reload and worker processes see them too."""
    if value is not None:
        os.environ[variable] = value


def _say(url: str) -> None:
    _print(f"sluicegate answers at {url}")


def _print(line: str) -> None:
    _print_all([line])


def _print_all(lines: Iterable[str]) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")  # a terminal may know few characters
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"sluicegate: {text}\n")
