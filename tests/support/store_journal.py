"""What may be found in a store after its writer was killed, told by what the writer said before and after each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

AGED = "aged"  # the chat whose audits are old enough to be purged
COMPLETED, FAILED, RESTARTED = "completed", "failed", "GATEWAY_RESTARTED"


def document(generation: str, *, amended: bool) -> bytes:
    """What a head says, of this generation alone."""
    return f"head of {generation}{' amended' * amended}".encode()


def body(generation: str, *, amended: bool) -> bytes:
    """What its body says: too long for one page of the file."""
    return f"body of {generation}{' amended' * amended}. ".encode() * 700


class Row(NamedTuple):
    """An audit as it lies in the file."""

    chat: str
    generation: str
    status: str
    code: str | None
    document: str
    body: str | None
    tenant: str


@dataclass
class Figures:
    """What came of it. `wrong` holds everything that may not be."""

    kills: int = 0
    audits: int = 0  # found, all of them ended
    restarted: int = 0  # of them failed with GATEWAY_RESTARTED
    late_ends: int = 0  # handed over, not written when the kill came
    latest_end_ms: float = 0.0  # how long before the kill the oldest of them was handed over
    without_body: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Adds another's."""
        self.kills += other.kills
        self.audits += other.audits
        self.restarted += other.restarted
        self.late_ends += other.late_ends
        self.latest_end_ms = max(self.latest_end_ms, other.latest_end_ms)
        self.without_body += other.without_body
        self.wrong += other.wrong

    def told(self) -> dict[str, Any]:
        """As JSON tells it."""
        return asdict(self)


@dataclass
class _Chat:
    """What may be found of a chat: one of these generations, or nothing where None is among them."""

    possible: list[str | None]
    amended: dict[str, set[bool]] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)  # when the end was handed over

    def take_up(self, what: str, generation: str, at: float) -> None:
        match what:
            case "replacing":
                self.possible.append(generation)
            case "replaced":
                self.possible = [generation]
            case "amending":
                self.amended[generation] = {False, True}
            case "amended":
                self.amended[generation] = {True}
            case "finishing":
                self.ended[generation] = at
            case "deleting":
                self.possible.append(None)
            case "deleted":
                self.possible = [None]


class Journal:
    """Follows one store over the lives of its writers."""

    def __init__(self) -> None:
        self.figures = Figures()
        self._chats: dict[str, _Chat] = {}
        self._before: dict[str, Row] = {}  # as found after the kill before
        self._written: set[str] = set()  # generations whose body and end must be there

    def start_over(self, chat: str, generation: str) -> None:
        """The file is another one now: it holds one prepared audit."""
        self._chats = {chat: _Chat([generation])}
        self._before = {}

    def take_up(self, told: Sequence[Sequence[Any]]) -> None:
        """What a writer said it did. When a deletion is answered, all that was handed over before it has been written."""
        self._written, before = set(), dict[str, set[str]]()
        for what, *about, at in told:
            if not about:
                continue
            chat, generation = about
            self._chats.setdefault(chat, _Chat([None])).take_up(what, generation, at)
            if what == "deleting":
                before[chat] = {ended for other in self._chats.values() for ended in other.ended}
            elif what == "deleted":
                self._written |= before.pop(chat)

    def compare(self, problems: Sequence[str], rows: Sequence[Row], killed_at: float, *, quiet: bool) -> None:
        """Holds what is found after a kill against what may be."""
        figures, found = self.figures, {row.chat: row for row in rows}
        figures.kills += 1
        figures.audits += len(rows)
        figures.wrong += [f"kill {figures.kills}: {problem}" for problem in problems]
        if len(found) != len(rows):
            self._wrong("two audits in one chat")
        for chat in found.keys() - self._chats.keys():
            self._wrong(f"{chat}: nobody wrote it")
        for name, written in self._chats.items():
            self._compare(name, written, found.get(name), killed_at, quiet=quiet)
        self._before = found
        self._chats = {name: _Chat([row.generation]) for name, row in found.items()}

    def _compare(self, name: str, chat: _Chat, row: Row | None, killed_at: float, *, quiet: bool) -> None:
        generation = None if row is None else row.generation
        if generation not in chat.possible:
            self._wrong(f"{name}: {generation} instead of {chat.possible}")
        before = self._before.get(name)
        if row is None:
            return
        if before is not None and before.generation == generation:
            if row != before:
                self._wrong(f"{name}: changed after its end, {before} -> {row}")
            return
        self._compare_row(chat, row, killed_at, quiet=quiet)

    def _compare_row(self, chat: _Chat, row: Row, killed_at: float, *, quiet: bool) -> None:
        ways = [
            way
            for way in chat.amended.get(row.generation, {False})
            if row.document == document(row.generation, amended=way).decode()
            and row.body in (None, body(row.generation, amended=way).decode())
        ]
        if not ways or row.tenant:
            self._wrong(f"{row.chat}: mixed, {row.document!r} with {(row.body or '')[:30]!r}")
        handed_over = chat.ended.get(row.generation)
        if (row.status, row.code) not in [(COMPLETED, None)] * (handed_over is not None) + [(FAILED, RESTARTED)]:
            self._wrong(f"{row.chat}: {row.status} {row.code}")
        restarted, bodiless = row.code == RESTARTED, row.body is None and row.generation != "old"
        must_be_whole = quiet or row.generation in self._written
        if must_be_whole and (bodiless or (restarted and handed_over is not None)):
            self._wrong(f"{row.chat}: {row.status}, or without a body, though both must have been written")
        self.figures.restarted += restarted
        self.figures.without_body += bodiless
        if restarted and handed_over is not None:
            self.figures.late_ends += 1
            self.figures.latest_end_ms = round(max(self.figures.latest_end_ms, (killed_at - handed_over) * 1000), 1)

    def _wrong(self, what: str) -> None:
        self.figures.wrong.append(f"kill {self.figures.kills}: {what}")
