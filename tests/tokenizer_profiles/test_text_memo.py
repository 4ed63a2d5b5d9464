from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tokenizer_profiles.text_memo import RememberingCounter, TextMemo, memo_key


def test_a_text_is_counted_once() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    counter = RememberingCounter(count)
    assert [counter("abc"), counter("abc"), counter("x" * 5000), counter("x" * 5000)] == [3, 3, 5000, 5000]
    assert counted == ["abc", "x" * 5000]


def test_a_long_text_is_not_kept_alive() -> None:
    assert memo_key("short") == "short"
    assert len(memo_key("x" * 5_000_000)) == 16
    assert memo_key("\ud800" * 300) != memo_key("\ud801" * 300)


def test_the_memory_is_bounded_by_bytes() -> None:
    memo = TextMemo(max_bytes=100_000)
    for number in range(10_000):
        memo.put(memo_key(f"text {number}"), number)
    assert 100 < len(memo) < 1000
    assert memo.get(memo_key("text 9999")) == 9999
    assert memo.get(memo_key("text 0")) is None


def test_what_is_read_stays() -> None:
    memo = TextMemo(max_bytes=20_000)
    memo.put("wanted", 7)
    for number in range(2_000):
        memo.put(f"text {number}", number)
        assert memo.get("wanted") == 7


def test_clearing_forgets_everything() -> None:
    memo = TextMemo()
    memo.put("a", 1)
    memo.clear()
    assert memo.get("a") is None
    assert len(memo) == 0


def test_threads_may_share_it() -> None:
    memo = TextMemo(max_bytes=5_000)
    counter = RememberingCounter(len, memo)

    def work(seed: int) -> bool:
        return all(counter("x" * (number % 97 + seed)) == number % 97 + seed for number in range(3_000))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
