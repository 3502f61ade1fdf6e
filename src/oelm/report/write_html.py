"""The report as one page: no network, no library; both languages, style, script and curves stand in one file."""

from base64 import b64encode
from hashlib import sha256

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from oelm import __version__
from oelm.report.compose import colours_of, compose
from oelm.report.content import Table
from oelm.report.curves import curve_data, safe_json
from oelm.report.groups import Group, Report
from oelm.report.texts import Language, Texts

LONG_SENTENCE = {Language.ENGLISH: 190, Language.CHINESE: 110}
"""Characters from which the opening sentence is set smaller."""
_NOT_IN_FIGURES = ("estimate", "interval", "verdict", "flops_saved", "step_time")
"""They stand in the drawing of intervals, or in the section on speed."""
CHOICES = {
    "against": ("steps", "tokens", "time"),
    "split": ("validation", "training"),
    "span": ("whole", "end"),
    "shown": ("means", "seeds"),
}
"""What the reader chooses for the curves, by the names that the script knows."""


def as_html(report: Report, language: Language = Language.ENGLISH, command: str = "oelm report") -> str:
    """The page, which opens in `language`; `command` is the one that writes it."""
    environment = Environment(
        loader=PackageLoader("oelm.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": prose, "name": breakable_name, "figures": _figures}
    body = environment.get_template("body.html")
    contents = {code: compose(report, code, command) for code in Language}
    style = _own(environment, "style.css")
    script = _own(environment, "language.js") + _own(environment, "curves.js")
    return environment.get_template("page.html").render(
        language=language.value,
        title=contents[language].title,
        version=__version__,
        policy=content_policy(style, script),
        style=style,
        script=script,
        curves=safe_json([_curves(group) for group in report.groups]),
        bodies=[
            Markup(
                body.render(
                    code=code.value,
                    other=next(each.value for each in Language if each is not code),
                    content=said,
                    say=Texts(code),
                    choices=_choices(Texts(code)),
                    long_sentence=LONG_SENTENCE[code],
                )
            )
            for code, said in contents.items()
        ],
    )


def content_policy(style: str, script: str) -> str:
    """What a browser may run and load of the page: this style and this script, no other, and nothing from a network.

    Attributes may carry style: it is how drawings place their parts.
    """
    style_hash, script_hash = (b64encode(sha256(text.encode()).digest()).decode() for text in (style, script))
    return (
        f"default-src 'none'; script-src 'sha256-{script_hash}'; style-src-elem 'sha256-{style_hash}'; "
        "style-src-attr 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
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


def _own(environment: Environment, name: str) -> Markup:
    """A file of ours, put in as it is."""
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    return Markup(text)
