"""Finding the runbook that fits: by cause class, then by likeness of words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from argus.agent.runbooks.books import Runbook

_WORD = re.compile(r"[a-z_]{3,}")

LEAST_LIKENESS = 0.05
"""Below it two texts share only the words that all runbooks share."""


def retrieve(
    books: Sequence[Runbook], *, fault_class: str, text: str = "", limit: int = 3
) -> tuple[Runbook, ...]:
    """Runbooks of the class in the order given, then those most like `text`."""
    of_class = [book for book in books if fault_class in book.classes]
    rest = [book for book in books if book not in of_class]
    like = likeness(rest, f"{fault_class.replace('.', ' ')} {text}")
    near = sorted((score, -at) for at, score in enumerate(like) if score >= LEAST_LIKENESS)[::-1]
    return tuple([*of_class, *(rest[-at] for _, at in near)][:limit])


def likeness(books: Sequence[Runbook], text: str) -> list[float]:
    """Cosine of each runbook with the text over words weighted by their rarity (tf-idf)."""
    counts = [_words(f"{book.title} {book.text}") for book in books]
    spread = Counter(word for words in counts for word in words)
    weight = {word: math.log(1 + len(books) / number) for word, number in spread.items()}
    asked = {word: n * weight[word] for word, n in _words(text).items() if word in weight}
    return [_cosine({word: n * weight[word] for word, n in words.items()}, asked) for words in counts]


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def _cosine(one: dict[str, float], other: dict[str, float]) -> float:
    size = math.sqrt(sum(v * v for v in one.values()) * sum(v * v for v in other.values()))
    return sum(value * other.get(word, 0.0) for word, value in one.items()) / size if size else 0.0
