"""The table of verbs says what the verbs themselves say."""

import inspect

import pytest
from typer import Typer

from oelm.cli.main import VERBS, load, with_dashes


@pytest.mark.parametrize("verb", VERBS)
def test_summary_is_the_first_line_of_the_verbs_docstring(verb):
    loaded = load(verb)
    text = loaded.info.help if isinstance(loaded, Typer) else inspect.getdoc(loaded)
    assert text.splitlines()[0] == VERBS[verb]


def test_underscores_in_flags_are_dashes_and_values_stay():
    given = ["train", "--max_steps=5", "--out_dir", "my_run", "--model_type=oelm_v2"]
    assert with_dashes(given) == ["train", "--max-steps=5", "--out-dir", "my_run", "--model-type=oelm_v2"]
