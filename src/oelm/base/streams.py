"""Named random streams: each purpose draws from its own, so that adding one never reshuffles another."""

import hashlib


def stream_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose, e.g. `stream_seed(0, "init", "layers.3.attention.q")`."""
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
