"""A drawing of attention for every arm: which of its weights are trained, frozen, or not there.

x -> W_Q, W_K -> (extras) -> softmax ─┐
x -> W_V ─────────────────────────────x -> W_O

Nothing in it is drawn for a method: boxes are the roles that the record counted weights for, each with their kind.
"""

from oelm.config.record import QUERY_KEY_ROLES, RoleCount
from oelm.report import numerals
from oelm.report.arms import Arm
from oelm.report.content import AttentionDrawing, Box, Cell
from oelm.report.texts import Texts

SIZE = (452, 236)
"""Of the drawing, in its own units."""
_WIDTH, _HEIGHT = 92, 46
_ROWS = {"query": 32, "key": 94, "value": 156}
"""The middles of the rows."""
_LETTERS = {"query": "Q", "key": "K", "value": "V", "attention output": "O"}
QUERY_AND_KEY = "query and key"
"""The role of one matrix that serves both."""
_EXTRAS = QUERY_KEY_ROLES - {"query", "key", QUERY_AND_KEY}


def drawing(arm: Arm, colour: int, say: Texts) -> AttentionDrawing:
    """What the arm trains of attention, and of the feed-forward layer behind it."""
    roles = {row.role: row for row in arm.record.counts.roles}
    extras = [role for role in roles if role in _EXTRAS]
    parts = [*_LETTERS, *(["feed-forward"] if state_of(arm, "feed-forward") else [])]
    told = [(_part_name(part, say), _kind(arm, part, roles, say)) for part in parts]
    return AttentionDrawing(
        arm=Cell(arm.label, is_name=True, colour=colour),
        words="; ".join(f"{name}: {kind}" for name, kind in (*told, *((_part_name(r, say), "") for r in extras))),
        boxes=(
            *(_matrix(arm, part, 40, middle, roles, say) for part, middle in _ROWS.items()),
            *_equipment(extras, say),
            Box(240, 40, 68, 46, (say("draw.uniform" if arm.method.blind else "draw.softmax"),), ""),
            Box(318, 82, 24, 24, ("×",), ""),
            _matrix(arm, "attention output", 352, 94, roles, say),
            *_feed_forward(arm, roles, say),
        ),
        wires=_wires(bool(extras), is_blind=arm.method.blind),
    )


def _matrix(arm: Arm, part: str, x: float, middle: float, roles: dict[str, RoleCount], say: Texts) -> Box:
    kind = _kind(arm, part, roles, say)
    return Box(x, middle - _HEIGHT / 2, _WIDTH, _HEIGHT, (kind,), state_of(arm, part) or "trained", _LETTERS[part])


def _kind(arm: Arm, part: str, roles: dict[str, RoleCount], say: Texts) -> str:
    """`frozen 27.6K`; of a key that is the query's matrix, that it is."""
    if part == "key" and QUERY_AND_KEY in roles:
        return say("draw.shared")
    row, state = roles.get(QUERY_AND_KEY if part == "query" and QUERY_AND_KEY in roles else part), state_of(arm, part)
    count = row.trained + row.frozen if row and state in ("trained", "frozen") else 0
    return say(state or "trained") + (f" {numerals.count(count)}" if count else "")


def _equipment(extras: list[str], say: Texts) -> tuple[Box, ...]:
    """One box for all that is trained between the projections and the softmax."""
    names = tuple(_part_name(role, say) for role in extras)
    return (Box(146, 20, 80, 86, names, "trained"),) if names else ()


def _feed_forward(arm: Arm, roles: dict[str, RoleCount], say: Texts) -> tuple[Box, ...]:
    state = state_of(arm, "feed-forward")
    text = f"{_part_name('feed-forward', say)}: {_kind(arm, 'feed-forward', roles, say)}"
    return (Box(40, 198, 404, 30, (text,), state),) if state else ()


def _part_name(role: str, say: Texts) -> str:
    return f"W {letter}" if (letter := _LETTERS.get(role)) else say(f"role.{role}")


def _wires(has_extras: bool, *, is_blind: bool) -> tuple[str, ...]:
    """From x to the matrices, through the extras to the softmax, and with the values to the output."""
    inputs = [f"M16 94 H26 V{middle} H38" for middle in _ROWS.values()]
    logits = () if is_blind else tuple(
        f"M132 {_ROWS[part]} H{144 if has_extras else 186}" + ("" if has_extras else f" V{63 + 9 * side} H238")
        for part, side in (("query", -1), ("key", 1))
    )  # fmt: skip
    joined = ("M226 63 H238",) if has_extras and not is_blind else ()
    return (*inputs, *logits, *joined, "M308 63 H330 V80", "M132 156 H330 V108", "M342 94 H350")


def state_of(arm: Arm, part: str) -> str:
    """What becomes of the weights of a part: `trained`, `frozen`, `absent`, or `partly` frozen; '' where it has none.

    As the record counted them by role. Records of others count only totals: there the method's plan says it.
    """
    roles = {row.role: row for row in arm.record.counts.roles}
    shared = roles.get(QUERY_AND_KEY) if part in ("query", "key") else None
    row, plan = shared or roles.get(part), arm.method.plan
    planned = plan is not None and {"query": plan.query, "key": plan.key}.get(part, False)
    changes = planned and plan is not None and plan.when.kind != "always"
    if row is None and part in ("query", "key"):
        in_part = changes or (plan is not None and plan.layers.kind != "all")
        return "trained" if not planned else "partly" if in_part else "frozen"
    if row is None:
        return ""
    return "partly" if changes and row.frozen + row.trained else _state(row)


def _state(row: RoleCount) -> str:
    if row.trained and row.frozen:
        return "partly"
    return "trained" if row.trained else "frozen" if row.frozen else "absent"
