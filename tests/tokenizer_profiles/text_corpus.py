"""A small corpus of many kinds of text, made the same way every time, for calibrating and checking estimates of tokens."""

from __future__ import annotations

import base64
import json
import random
import textwrap
from pathlib import Path

from tokenizer_profiles import base

# A line a language: Article 1 of the Universal Declaration of Human Rights, and some sentences of our own.
LANGUAGES = Path(__file__).with_name("languages.txt")
PROSE = (
    "The old lighthouse keeper climbed the stairs every evening, counting each step as he went. Outside, the sea was calm, and "
    "the gulls had fallen silent. He remembered how his father used to say that a storm always begins with a quiet that nobody "
    "notices. "
)


def corpus() -> dict[str, str]:
    """Texts by name, some hundreds to some thousands of characters each."""
    made = random.Random(7)  # noqa: S311  (samples, not secrets)
    code = Path(base.__file__).read_text(encoding="utf-8")
    lines = LANGUAGES.read_text(encoding="utf-8").splitlines()
    languages = {name: f"{text}\n" * 3 for name, _, text in (line.partition(": ") for line in lines)}
    mixed = "".join(languages[name][:120] for name in ("english", "chinese", "russian", "arabic", "hindi")) + code[:400]
    return {
        **languages,
        **_structures(made),
        **_encodings(made),
        "prose": PROSE * 4,
        "capitals": PROSE.upper() * 3,
        "camel case": "getUserProfileById XMLHttpRequest parseJSONResponse max_retry_count HTTP_STATUS\n" * 4,
        "python": code,
        "indented": textwrap.indent(code, " " * 12),
        "c": "static inline int cmp(const void *a, const void *b) { return (*(int *)a > *(int *)b) - (*(int *)a < *(int *)b); }\n"
        * 6,
        "html": '<div class="card"><a href="/items/42?sort=asc&page=3">Item&nbsp;42</a><br/></div>\n' * 20,
        "shell": "find . -name '*.py' -print0 | xargs -0 grep -nE '^def [a-z_]+\\(' > /tmp/out.txt 2>&1 || exit 1\n" * 6,
        "latex": r"\begin{equation} \int_{0}^{\infty} e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2} \label{eq:gauss} \end{equation}" * 6,
        "markdown": "# Title\n\n* **bold** and _italic_ words, [a link](https://example.test/a/b?c=d#e)\n* `code`\n\n> quoted\n\n"
        * 8,
        "emoji": "😀😂🔥👍🎉❤️🚀✨🙏💯👩‍👩‍👧‍👦🇳🇴👍🏽" * 20,
        "chat with emoji": "omg that's sooo funny 😂😂 can't wait!!! 🎉 see u tmrw @ 8pm?? 👍🏽\n" * 10,
        "arrows and boxes": "┌──────┬──────┐\n│ ⇒ ∀x │ ≤ ∑ ∞ │\n└──────┴──────┘ “quoted” – dashed — … €5 £6\n" * 6,
        "newlines": "a\n" * 500 + "\n" * 500,
        "tabs": "\t" * 900 + "x\ty\tz\n" * 200,
        "spaces": " " * 2000 + "end",
        "mixed": mixed * 2,
    }


def _structures(made: random.Random) -> dict[str, str]:
    rows = [{"id": n, "userName": f"item {n}", "tags": ["a", "b"], "price": round(n / 7, 3), "ok": n % 2 == 0} for n in range(60)]
    return {
        "json": json.dumps(rows, indent=1),
        "compact json": json.dumps(rows, separators=(",", ":")),
        "csv": "id,name,score,when\n" + "".join(f"{n},name {n},{made.random():.4f},2026-11-{n % 30 + 1:02}\n" for n in range(80)),
        "table": "".join(f"| {n:>4} | {made.randrange(10**6):>8} | {made.random():8.3f} | row {n} |\n" for n in range(60)),
        "log": "".join(
            f"2026-11-30T12:{n:02}:07.{made.randrange(1000):03}Z INFO [{n % 4}] id={made.randrange(16**8):08x} took {n * 3}ms\n"
            for n in range(60)
        ),
        "urls": "".join(f"https://example.test/v1/users/{made.randrange(10**5)}/posts?page={n}&q=a%20b\n" for n in range(40)),
    }


def _encodings(made: random.Random) -> dict[str, str]:
    return {
        "base64": base64.b64encode(made.randbytes(6_000)).decode(),
        "base64 lines": base64.encodebytes(made.randbytes(6_000)).decode(),
        "hex": made.randbytes(3_000).hex(),
        "hex capitals": made.randbytes(3_000).hex().upper(),
        "uuids": " ".join(
            f"{made.randrange(16**8):08x}-{made.randrange(16**4):04x}-4{made.randrange(16**3):03x}" for _ in range(150)
        ),
        "digits": "".join(made.choice("0123456789") for _ in range(4_000)),
        "numbers": " ".join(str(made.randrange(10**6)) for _ in range(900)),
        "decimals": ", ".join(f"{made.uniform(-100, 100):.6f}" for _ in range(300)),
    }
