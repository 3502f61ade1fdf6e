"""In-context probes: generated sequences whose answers follow from the sequence alone.

retrieval   k1 v1 k2 v2 ... kn vn | ka va kb vb ...      after the bar every key asks for its value
recall      the same, with symbols of noise between the pairs
copy        s1 ... sn | s1 ... sn                        after the bar every symbol asks for the next one
induction   s1 s2 ... sn                                 every symbol asks for what k hops lead to

One hop goes from a place to the one behind the last earlier occurrence of its symbol; k hops repeat that. Where a hop
leads nowhere, nothing is asked. With up to k hops a symbol has k forms, each of which asks for one number of hops.

What is hard is learned from what is easy. In training every place asks for 1 to k hops, and 1 to n symbols are copied;
where there are pairs, every second sequence is one of one-hop induction over all symbols.
"""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from oelm.config.model import Count
from oelm.config.settings import Settings, fingerprint


class ProbeKind(StrEnum):
    """What is asked."""

    RETRIEVAL = "retrieval"
    RECALL = "recall"
    COPY = "copy"
    INDUCTION = "induction"


class Probe(Settings):
    """The settings of one probe. Trained on easier sequences too, validated on the hardest."""

    kind: Literal["probe"] = "probe"
    version: Literal[3] = 3
    """Of the generator: another one draws other sequences."""
    probe: ProbeKind
    name: str = ""
    """What reports call it; that of its kind unless given."""
    length: Count
    """Pairs (retrieval, recall), symbols to copy, or the length of the sequence (induction)."""
    hops: Count = 1
    """Of induction."""
    alphabet: Annotated[int, Field(ge=2)] = 32
    """Different symbols; where there are keys, values and noise, of each kind."""
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Of recall: the share of noise before the first question."""

    @model_validator(mode="before")
    @classmethod
    def _goes_by_its_kind(cls, values: object) -> object:
        return {"name": values.get("probe"), **values} if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _keys_differ(self) -> Self:
        if self.probe in (ProbeKind.RETRIEVAL, ProbeKind.RECALL) and self.length > self.alphabet:
            raise ValueError(
                f"{self.length} pairs need as many different keys; alphabet is {self.alphabet}, set it to {self.length}"
            )
        if self.hops > 1 and self.probe is not ProbeKind.INDUCTION:
            raise ValueError(f"{self.probe} has no hops; only induction has")
        return self

    @property
    def shown(self) -> int:
        """Places before the first question."""
        match self.probe:
            case ProbeKind.RETRIEVAL:
                return 2 * self.length
            case ProbeKind.RECALL:
                return round(2 * self.length / (1 - self.noise))
            case ProbeKind.COPY:
                return self.length
            case ProbeKind.INDUCTION:
                return 0

    @property
    def context(self) -> int:
        """The length of a sequence."""
        return self.shown + (2 if self.probe in (ProbeKind.RETRIEVAL, ProbeKind.RECALL) else 1) * self.length

    @property
    def vocabulary(self) -> int:
        """Keys, values and noise have symbols of their own, in this order; so has each number of hops; last, a bar."""
        kinds = {ProbeKind.RETRIEVAL: 2, ProbeKind.RECALL: 3, ProbeKind.COPY: 1, ProbeKind.INDUCTION: self.hops}
        return kinds[self.probe] * self.alphabet + (self.probe is ProbeKind.COPY)

    @property
    def digest(self) -> str:
        """Equal digests mean equal sequences."""
        return fingerprint(self.model_dump(mode="json", exclude={"name"}))
