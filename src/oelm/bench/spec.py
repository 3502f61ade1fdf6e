"""What a speed measurement is asked to do, resolved into one complete `BenchSpec` per question and size."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from oelm.base.errors import ConfigError
from oelm.config.method import Method
from oelm.config.methods import parse_method
from oelm.config.model import SIZES, Count, GPTConfig, Style, default_ffn_width, named_size
from oelm.config.run import Precision
from oelm.config.settings import Settings, parse


class What(StrEnum):
    """What is timed."""

    TRAIN = "train"
    """A training step: forward, backward, clipping, AdamW."""
    VALIDATE = "validate"
    """A pass over a validation set."""
    GENERATE = "generate"
    """Continuing a prompt, with and without the cache."""
    FINETUNE = "finetune"
    """A fine-tuning step of a BERT through `convert`, with and without gradient checkpointing."""
    SCALING = "scaling"
    """Training steps over a grid of widths, depths, contexts and batches, and a fit."""
    PARALLEL = "parallel"
    """A data-parallel training step of two processes beside that of one."""
    PROFILE = "profile"
    """Where a training step's time goes, by kinds of operation."""
    PREPARE = "prepare"
    """`oelm prepare` beside the tokenizer library on its own, with a BPE of `--vocab-size`."""


class Peer(StrEnum):
    """A model that somebody else would have written, of the baseline's size, in a plain loop."""

    HUGGING_FACE = "hugging-face"
    """GPT-2 or Llama, as the style is."""
    PLAIN = "plain"
    """A GPT of the gpt style only."""


BERT_BASE = "bert-base"
BERT_VOCABULARY = 30522
BENCH_SIZES = {**SIZES, BERT_BASE: (12, 768, 12)}
METHODS = ("baseline", "oelm", "oelm-frame", "oelm-core")
FINETUNE_METHODS = ("baseline", "oelm", "oelm-ffn")
SCALING_METHODS = ("baseline", "oelm")


class BenchRequest(Settings):
    """A measurement as asked for. None stands for a default that depends on what is timed; see `specs_of`."""

    what: Annotated[tuple[What, ...], Field(min_length=1)] = (What.TRAIN,)
    style: Style = Style.GPT
    sizes: tuple[str, ...] = ()
    layers: Count | None = None
    width: Count | None = None
    heads: Count | None = None
    methods: tuple[str, ...] = ()
    peers: tuple[Peer, ...] | None = None
    compiled_peers: bool = False
    reference: str | None = None
    batch_size: Count | None = None
    seq_len: Annotated[int, Field(ge=2)] | None = None
    vocab_size: Count | None = None
    tokens: Count = 32
    threads: Count | None = None
    rounds: Count | None = None
    repeats: Count = 2
    precision: Precision = Precision.FLOAT32
    compile: bool = False
    device: str = "auto"
    memory: bool = True


class BenchSpec(Settings):
    """One question about one size, complete: also what a process that measures memory is told."""

    what: What
    size: str
    shape: GPTConfig
    """Layers, width and so on; for fine-tuning those of the BERT, with `context` the length of the texts."""
    methods: Annotated[tuple[str, ...], Field(min_length=1)]
    peers: tuple[Peer, ...]
    compiled_peers: bool
    reference: str
    """The method or the peer that all others are compared with."""
    batch_size: Count
    tokens: Count
    """How many tokens are generated."""
    threads: Count | None
    rounds: Count
    """Timed rounds, after one that warms up."""
    repeats: Count
    """Steps of each contestant per round."""
    precision: Precision
    compile: bool
    device: str
    memory: bool

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.what is What.GENERATE and self.tokens >= self.shape.context:
            raise ValueError(f"{self.tokens} tokens and a prompt do not fit into a context of {self.shape.context}")
        if self.precision is Precision.FLOAT16:
            raise ValueError("float16 is not timed: the peers have no loss scale; choose bf16")
        if self.compile and self.what is What.FINETUNE:
            raise ValueError("fine-tuning is timed as transformers runs it; leave --compile out")
        if self.shape.style is Style.LLAMA and self.what is What.FINETUNE:
            raise ValueError("fine-tuning is of a BERT, which has no other style; leave --style out")
        if self.shape.style is Style.LLAMA and Peer.PLAIN in self.peers:
            raise ValueError("the plain peer is a GPT with learned positions; beside a Llama, leave it out of --peers")
        if self.reference not in (*self.methods, *self.peers):
            taking_part = ", ".join((*self.methods, *self.peers))
            raise ValueError(f"the reference {self.reference!r} does not take part; choose of {taking_part}")
        return self

    @property
    def parsed_methods(self) -> tuple[Method, ...]:
        """The methods as values."""
        return tuple(parse_method(name) for name in self.methods)

    @property
    def reference_method(self) -> str:
        """The reference if it is a method, else the first method."""
        return self.reference if self.reference in self.methods else self.methods[0]

    @property
    def prompt_length(self) -> int:
        """How many tokens the prompt of a generation has: half of the context, or what `tokens` leaves of it."""
        return max(1, min(self.shape.context // 2, self.shape.context - self.tokens))


def peer_name(spec: BenchSpec, peer: Peer) -> str:
    """The name of its row."""
    hugging_face = {Style.GPT: "Hugging Face GPT-2", Style.LLAMA: "Hugging Face Llama"}[spec.shape.style]
    return {Peer.HUGGING_FACE: hugging_face, Peer.PLAIN: "plain PyTorch GPT"}[peer]


def row_name(spec: BenchSpec, contestant: str) -> str:
    """The name of the row of a method, or of a peer."""
    return peer_name(spec, Peer(contestant)) if contestant in list(Peer) else contestant


def specs_of(request: BenchRequest) -> tuple[BenchSpec, ...]:
    """Every question for every size; fine-tuning for one size, BERT-base unless another is given by number.

    Defaults: sequences of 256 tokens, 4 at once, a vocabulary of 4,096 and 12 rounds; for fine-tuning texts of 64
    tokens, 8 at once, BERT's vocabulary; for scaling and profiles 6 rounds.
    """
    found = []
    for what in request.what:
        sizes = (BERT_BASE,) if what is What.FINETUNE else request.sizes or ("small",)
        found += [_spec(request, what, size) for size in sizes]
    return tuple(found)


def _spec(request: BenchRequest, what: What, size: str) -> BenchSpec:
    finetune, scaling = what is What.FINETUNE, what is What.SCALING
    methods = METHODS if not finetune else FINETUNE_METHODS
    names = request.methods or (SCALING_METHODS if scaling or what is What.PARALLEL else methods)
    canonical = tuple(dict.fromkeys(parse_method(name).name for name in names))
    compared = what in (What.TRAIN, What.VALIDATE, What.GENERATE)
    values = {
        "what": what,
        "size": "custom" if request.layers or request.width or request.heads else size,
        "shape": _shape(request, what, size),
        "methods": canonical,
        "peers": _peers(request) if compared else (),
        "compiled_peers": request.compiled_peers,
        "reference": request.reference or ("baseline" if "baseline" in canonical else canonical[0]),
        "batch_size": request.batch_size or (8 if finetune else 4),
        "rounds": request.rounds or (6 if scaling or what is What.PROFILE else 12),
        "tokens": min(request.tokens, max(1, (request.seq_len or 256) // 2)),
        **{name: getattr(request, name) for name in ("threads", "repeats", "precision", "compile", "device", "memory")},
    }
    return parse(BenchSpec, values, "oelm bench")


def _peers(request: BenchRequest) -> tuple[Peer, ...]:
    """Those asked for, or all that there are of the style."""
    if request.peers is not None:
        return request.peers
    return tuple(Peer) if request.style is Style.GPT else (Peer.HUGGING_FACE,)


def _shape(request: BenchRequest, what: What, size: str) -> GPTConfig:
    layers, width, heads = BENCH_SIZES[size] if what is What.FINETUNE else named_size(size)
    width = request.width or width
    values = {
        "layers": request.layers or layers,
        "width": width,
        "heads": request.heads or heads,
        "ffn_width": default_ffn_width(request.style, width),
        "context": request.seq_len or (64 if what is What.FINETUNE else 256),
        "vocabulary": request.vocab_size or (BERT_VOCABULARY if what is What.FINETUNE else 4096),
        "style": request.style,
    }
    return parse(GPTConfig, values, "oelm bench")


def chosen(kind: type[What] | type[Peer], text: str, option: str) -> list[str]:
    """The comma-separated members of an enum; `none` is an empty list."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["none"]:
        return []
    if wrong := [name for name in names if name not in list(kind)]:
        raise ConfigError(f"{option} does not know {wrong[0]!r}", f"choose of {', '.join(kind)}")
    return names
