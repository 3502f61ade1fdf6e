"""ROUGE-L (Lin, 2004): how much of a text and of its reference is common to both, in order."""

import re
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


def rouge_l(written: str, reference: str) -> float:
    """F = 2 P R / (P + R) with P = L / words written, R = L / words of the reference, L the longest common subsequence.

    Words are runs of letters and digits in lower case, not stemmed. Two texts without any word are alike.
    """
    ours, theirs = _WORD.findall(written.lower()), _WORD.findall(reference.lower())
    if not ours and not theirs:
        return 1.0
    return 2 * longest_common_subsequence(ours, theirs) / (len(ours) + len(theirs))


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length L(m, n) of L(i, j) = L(i-1, j-1) + 1 where the words are equal, else max(L(i-1, j), L(i, j-1))."""
    before = [0] * (len(second) + 1)
    for word in first:
        now = [0]
        for place, other in enumerate(second):
            now.append(before[place] + 1 if word == other else max(before[place + 1], now[place]))
        before = now
    return before[-1]
