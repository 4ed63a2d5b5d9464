"""A changed tree is swapped in, a broken one leaves the old value."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from pathlib import Path

import pytest

from gateway.config_watch import ConfigWatch
from gateway.toml_tree import ConfigError, Place


class Tree:
    """A directory whose value is the text of one file; "broken" can't be loaded."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.loads = 0
        self.threads: list[int] = []
        self.swapped: list[str] = []
        self.write("one")

    def write(self, text: str, name: str = "gateway.toml") -> None:
        """Replaces a file, as editors do."""
        (self.root / "new.tmp").write_text(text)
        os.replace(self.root / "new.tmp", self.root / name)

    def load(self) -> str:
        """The value."""
        self.loads += 1
        self.threads.append(threading.get_ident())
        text = (self.root / "gateway.toml").read_text()
        if text.startswith("broken"):
            raise Place("config/gateway.toml", "server.port").error(text)
        return text

    def watch(self) -> ConfigWatch[str]:
        """A watch over this directory."""
        return ConfigWatch(self.root, self.load, "one", swap=self.swapped.append, interval_s=0.001)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def check(watch: ConfigWatch[str], *, force: bool = False) -> bool:
    return asyncio.run(watch.check(force=force))


def test_an_unchanged_tree_is_not_loaded(tree: Tree) -> None:
    watch = tree.watch()
    assert not check(watch)
    assert (tree.loads, tree.swapped, watch.current) == (0, [], "one")


def test_a_changed_tree_is_loaded_in_a_thread_and_swapped(tree: Tree) -> None:
    watch = tree.watch()
    tree.write("two")
    assert check(watch)
    assert (watch.current, watch.problem, watch.reloads, tree.swapped) == ("two", None, 1, ["two"])
    assert tree.threads != [threading.get_ident()]
    assert not check(watch)


def test_a_forced_check_loads_an_unchanged_tree(tree: Tree) -> None:
    assert check(tree.watch(), force=True)


@pytest.mark.parametrize("name", ["models/a.toml", "characters/deep/er/b.json"])
def test_a_new_and_a_removed_file_are_changes(tree: Tree, name: str) -> None:
    watch = tree.watch()
    (tree.root / name).parent.mkdir(parents=True)
    tree.write("x", name)
    assert check(watch)
    (tree.root / name).unlink()
    assert check(watch)
    assert not check(watch)


def test_a_change_of_the_same_size_and_time_is_seen_by_its_inode(tree: Tree) -> None:
    watch = tree.watch()
    before = (tree.root / "gateway.toml").stat()
    tree.write("two")
    os.utime(tree.root / "gateway.toml", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert check(watch)


def test_a_broken_tree_keeps_the_old_value_and_is_logged_once(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    watch = tree.watch()
    tree.write("broken")
    assert not check(watch)
    assert not check(watch)
    assert (watch.current, tree.swapped, watch.failures) == ("one", [], 1)
    assert watch.problem == "config/gateway.toml: server.port: broken"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert watch.problem in caplog.text
    tree.write("broken otherwise")
    assert not check(watch)
    assert (watch.failures, len(caplog.records)) == (2, 2)


def test_a_mended_tree_heals(tree: Tree) -> None:
    watch = tree.watch()
    tree.write("broken")
    check(watch)
    tree.write("three")
    assert check(watch)
    assert (watch.current, watch.problem) == ("three", None)


def test_a_tree_that_was_broken_by_something_outside_heals_without_a_change(tree: Tree) -> None:
    reasons = ["a secret file is missing"]

    def load() -> str:
        if reasons:
            raise ConfigError([Place("f", "k").problem(reasons.pop())])
        return "two"

    watch = ConfigWatch(tree.root, load, "one")
    assert not check(watch, force=True)
    assert check(watch)
    assert watch.current == "two"


def test_what_a_running_gateway_writes_is_no_change(tree: Tree) -> None:
    watch = tree.watch()
    (tree.root / "var").mkdir()
    for name in ("var/sluicegate.db", "other.db", "other.db-wal", "gateway.log"):
        (tree.root / name).write_text("x")
    assert not check(watch)


def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    for version in ("one", "two"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "gateway.toml").write_text(version)
    (tmp_path / "..data").symlink_to("..one")
    (tmp_path / "gateway.toml").symlink_to("..data/gateway.toml")
    watch = ConfigWatch(tmp_path, (tmp_path / "gateway.toml").read_text, "one")
    assert not check(watch)
    (tmp_path / "..data_tmp").symlink_to("..two")
    os.replace(tmp_path / "..data_tmp", tmp_path / "..data")
    assert check(watch)
    assert watch.current == "two"


def test_links_that_lead_nowhere_or_in_circles_are_survived(tree: Tree) -> None:
    (tree.root / "loop").symlink_to(tree.root)
    (tree.root / "self").symlink_to(tree.root / "self")
    (tree.root / "gone").symlink_to(tree.root / "nowhere")
    watch = tree.watch()
    assert not check(watch)
    (tree.root / "nowhere").write_text("x")
    assert check(watch)


def test_a_directory_that_goes_away_is_a_change(tmp_path: Path) -> None:
    watch = ConfigWatch(tmp_path, lambda: "two", "one")
    tmp_path.rmdir()
    assert check(watch)


def test_it_checks_until_it_is_cancelled(tree: Tree) -> None:
    async def story() -> None:
        swapped = asyncio.Event()
        watch = ConfigWatch(tree.root, tree.load, "one", swap=lambda _: swapped.set(), interval_s=0.001)
        running = asyncio.create_task(watch.run())
        tree.write("two")
        await swapped.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(story(), 10))


def test_checks_at_the_same_moment_load_once(tree: Tree) -> None:
    async def story() -> tuple[bool, bool]:
        watch = tree.watch()
        tree.write("two")
        first, second = await asyncio.gather(watch.check(), watch.check())
        return first, second

    assert asyncio.run(story()) == (True, False)
