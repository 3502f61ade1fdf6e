"""The page as one file: no network, no library; style, script and curves stand in it."""

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from oelm import __version__
from oelm.report.page.content import Content
from oelm.report.page.words import WORDS
from oelm.report.texts import Language


def as_html(contents: Mapping[Language, Content], curves: Markup, language: Language) -> str:
    """Both languages in one file that opens in `language`."""
    environment = Environment(
        loader=PackageLoader("oelm.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = prose
    environment.filters["name"] = breakable_name
    body = environment.get_template("body.html")
    return environment.get_template("page.html").render(
        language=language.value,
        title=contents[language].title,
        version=__version__,
        style=_own(environment, "style.css"),
        script=_own(environment, "language.js") + _own(environment, "curves.js"),
        curves=curves,
        bodies=[
            Markup(body.render(code=code.value, content=content, words=WORDS[code]))
            for code, content in contents.items()
        ],
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


def _own(environment: Environment, name: str) -> Markup:
    """A file of ours, put in as it is."""
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    return Markup(text)
