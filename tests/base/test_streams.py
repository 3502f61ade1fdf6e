import subprocess
import sys

from oelm.base.streams import stream_seed


def test_a_stream_is_the_same_in_every_process() -> None:
    """`hash` would not be: Python salts it."""
    code = "from oelm.base.streams import stream_seed; print(stream_seed(3, 'init', 'layers.0.attention.q.weight'))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(printed) == stream_seed(3, "init", "layers.0.attention.q.weight")


def test_every_part_of_the_purpose_counts() -> None:
    purposes = [(0, "a", "b"), (1, "a", "b"), (0, "ab"), (0, "b", "a"), (0, "a", "b", 0), (0, "a"), (0, 1), (0, "1")]
    assert len({stream_seed(*purpose) for purpose in purposes}) == len(purposes)


def test_seeds_fit_torch() -> None:
    assert all(0 <= stream_seed(seed, "x") < 2**63 for seed in range(200))
