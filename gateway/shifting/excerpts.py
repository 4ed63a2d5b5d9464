"""Which sentences tell most of what many texts said, within so many tokens. Knows no roles, no budgets and no languages.

A word is worth more the more often it is said and the fewer sentences it stands in (term frequency by inverse document
frequency, Salton and Buckley 1988), and double with a digit in it. Sentences are taken greedily by the worth of the words that no
sentence before them has told, for the root of their cost (budgeted coverage after Lin and Bilmes 2011), so none is told twice.
Newer texts weigh more, and a text of which a sentence was taken less. Same input, same choice: nothing depends on a hash.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gateway.shifting.graphemes import cut_before, may_cut
from gateway.shifting.sentences import SentenceSplitter

_HALF_AS_NEW = 16  # so many texts back a sentence weighs half
_READ = 1_048_576  # characters that are read of all texts together, of each at least its start and its end
_LEAST_WINDOW = 512
_MOST_WINDOW = 16_384
_DIGIT_WORTH = 2.0
_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # scripts without spaces: each character is a word
_WORD = re.compile(rf"[{_WIDE}]|[^\W_{_WIDE}]+")


class Passage(NamedTuple):
    """A text to choose from: about how many tokens a character of it costs, and how much it weighs against others."""

    text: str
    tokens_per_character: float
    weight: float = 1.0


class Excerpt(NamedTuple):
    """A sentence that may be chosen: whose it is (the position of its passage), its words, cost in tokens and weight."""

    passage: int
    text: str
    words: tuple[str, ...]
    cost: float
    weight: float


def excerpts_of(passages: Sequence[Passage], split: SentenceSplitter) -> list[Excerpt]:
    """All sentences with words in them, passage by passage, which are given oldest first."""
    found = []
    window = min(max(_READ // (2 * len(passages) + 1), _LEAST_WINDOW), _MOST_WINDOW)
    for position, passage in enumerate(passages):
        weight = passage.weight / (1 + (len(passages) - 1 - position) / _HALF_AS_NEW)
        for sentence in _sentences(passage.text, window, split):
            words = _words(sentence)
            if words:
                cost = 1 + len(sentence) * passage.tokens_per_character
                found.append(Excerpt(position, sentence, words, cost, weight))
    return found


def beginnings(excerpts: Sequence[Excerpt], most: float) -> list[Excerpt]:
    """The same excerpts, but of those that cost more than `most` tokens the beginning: up to a space, or between characters."""
    found = []
    for excerpt in excerpts:
        if excerpt.cost > most:
            text = _beginning(excerpt.text, int(len(excerpt.text) * most / excerpt.cost))
            excerpt = excerpt._replace(text=text, words=_words(text), cost=most)
        found.append(excerpt)
    return [excerpt for excerpt in found if excerpt.words]


def word_worths(excerpts: Sequence[Excerpt]) -> dict[str, float]:
    """What each word is worth; one that stands in every sentence hardly anything."""
    frequency = Counter(word for excerpt in excerpts for word in excerpt.words)
    size = len(excerpts) + 1
    return {
        word: (1 + math.log(number)) * math.log(size / number) * (_DIGIT_WORTH if _has_digit(word) else 1.0)
        for word, number in frequency.items()
    }


def chosen_excerpts(excerpts: Sequence[Excerpt], worths: dict[str, float], room: float) -> list[int]:
    """The positions of the best excerpts that cost at most `room` tokens together, in order.

    What a sentence adds only falls while others are taken, so an old value at the top of the heap is an upper bound.
    """
    told: set[str] = set()
    taken: Counter[int] = Counter()
    chosen: list[int] = []

    def value(position: int) -> float:
        excerpt = excerpts[position]
        new = sum([worths[word] for word in excerpt.words if word not in told])
        return new * excerpt.weight / math.sqrt(excerpt.cost) / (1 + taken[excerpt.passage])

    waiting = [(-value(position), -position) for position in range(len(excerpts))]
    heapq.heapify(waiting)
    while waiting:
        _, back = heapq.heappop(waiting)
        excerpt = excerpts[-back]
        now = (-value(-back), back)
        if excerpt.cost > room or now[0] >= 0:
            continue
        if waiting and now > waiting[0]:
            heapq.heappush(waiting, now)
            continue
        room -= excerpt.cost
        chosen.append(-back)
        told.update(excerpt.words)
        taken[excerpt.passage] += 1
    return sorted(chosen)


def _sentences(text: str, window: int, split: SentenceSplitter) -> Iterator[str]:
    """Of a long text those at its start and end; a sentence that reaches out of such a window isn't whole."""
    if len(text) <= 2 * window:
        yield from split(text)
    else:
        yield from split(text[:window])[:-1]
        yield from split(text[-window:])[1:]


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_WORD.findall(text.casefold())))


def _beginning(text: str, size: int) -> str:
    place = text.rfind(" ", size // 2, size + 1)
    return text[: place if place > 0 and may_cut(text, place) else cut_before(text, size)] + " …"


def _has_digit(word: str) -> bool:
    return any(character.isdigit() for character in word)
