"""The report as one page: no network, no library; both languages, style, script and curves stand in one file."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from oelm import __version__
from oelm.report.compose import colours_of, compose
from oelm.report.content import Content, Table
from oelm.report.curves import curve_data, safe_json
from oelm.report.groups import Group, Report
from oelm.report.texts import Language, Texts

LONG_SENTENCE = {Language.ENGLISH: 190, Language.CHINESE: 110}
"""Characters from which the opening sentence is set smaller."""
_NOT_IN_FIGURES = ("control", "estimate", "interval", "other_text", "verdict", "flops_saved", "step_time")
"""They stand in the drawing of intervals, or in the section on speed."""
CHOICES = {
    "against": ("steps", "tokens", "time"),
    "split": ("validation", "training"),
    "span": ("whole", "end"),
    "shown": ("means", "seeds"),
}
"""What the reader chooses for the curves, by the names that the script knows."""


def as_html(
    report: Report, language: Language = Language.ENGLISH, command: str = "oelm report", build: str = ""
) -> str:
    """The page, which opens in `language`; `command` is the one that writes it."""
    contents = {code: compose(report, code, command) for code in Language}
    return write_page(contents, [_curves(group) for group in report.groups], language, build)


def write_page(
    contents: Mapping[Language, Content], curves: Sequence[Mapping[str, Any]], language: Language, build: str = ""
) -> str:
    """The page of some contents. With the name of a `build` it asks whoever serves it for a newer one."""
    style, script = _own("style.css"), _scripts(is_live=bool(build))
    return (
        _environment()
        .get_template("page.html")
        .render(
            language=language.value,
            title=contents[language].title,
            version=__version__,
            build=build,
            policy=content_policy(is_live=bool(build)),
            style=style,
            script=script,
            curves=safe_json(curves),
            bodies=[
                write_body(
                    code,
                    other=next(each.value for each in Language if each is not code),
                    content=said,
                    long_sentence=LONG_SENTENCE[code],
                    is_live=bool(build),
                    live=None,
                )
                for code, said in contents.items()
            ],
        )
    )


def write_body(language: Language, **values: object) -> Markup:
    """The part of the page in one language, or, with `live` among the values, what stands at the top of a live one."""
    say = Texts(language)
    body = _environment().get_template("body.html")
    return Markup(body.render(code=language.value, say=say, choices=_choices(say), **values))


@cache
def content_policy(*, is_live: bool = False) -> str:
    """What a browser may run and load of the page: this style and this script, no other, and nothing from a network.

    A live page may ask the one who serves it. Attributes may carry style: it is how drawings place their parts.
    """
    parts = _own("style.css"), _scripts(is_live=is_live)
    style_hash, script_hash = (b64encode(sha256(text.encode()).digest()).decode() for text in parts)
    asking = " connect-src 'self';" if is_live else ""
    return (
        f"default-src 'none'; script-src 'sha256-{script_hash}'; style-src-elem 'sha256-{style_hash}'; "
        f"style-src-attr 'unsafe-inline'; img-src data:;{asking} base-uri 'none'; form-action 'none'"
    )


def prose(text: str) -> Markup:
    """A sentence with its commands, which stand between backticks, set as code; `n = 3` and `5 %` are not broken."""
    pieces = text.replace("n = ", "n\u00a0=\u00a0").replace(" %", "\u00a0%").split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 and place + 1 < len(pieces) else escape(piece)
        for place, piece in enumerate(pieces)
    )


def breakable_name(text: str) -> Markup:
    """The name of a method, which may be broken before its modifiers."""
    return Markup("<wbr>+").join(escape(part) for part in text.split("+"))


def _choices(say: Texts) -> dict[str, list[tuple[str, str]]]:
    return {choice: [(name, say(f"curve.{name}")) for name in names] for choice, names in CHOICES.items()}


def _figures(table: Table) -> Table:
    return table.only([column.id for column in table.columns if column.id not in _NOT_IN_FIGURES])


def _curves(group: Group) -> dict[str, object]:
    controls = {found.arm.label: found.control.label for found in group.findings if found.control is not None}
    of_loss = [each.criterion for each in group.comparisons if each.measure.logarithm == "loss"]
    return curve_data(group.arms, controls, colours_of(group.arms), of_loss[0] if of_loss else None)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("oelm.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": prose, "name": breakable_name, "figures": _figures}
    return environment


def _scripts(*, is_live: bool) -> Markup:
    names = ("language.js", "curves.js", *(("live.js",) if is_live else ()))
    return Markup("").join(map(_own, names))


def _own(name: str) -> Markup:
    """A file of ours, put in as it is."""
    environment = _environment()
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    return Markup(text)
