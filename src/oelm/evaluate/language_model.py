"""A model that predicts the next token, with its tokenizer: our GPT and transformers' models alike."""

# B batch  T time  V vocabulary

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from oelm.model.gpt import GPT


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """What every suite is given. Texts of one batch are filled up on the right, where no causal model looks."""

    name: str
    module: nn.Module
    """Our GPT, or a transformers model with a causal head."""
    tokenizer: Tokenizer
    context: int
    """How many tokens it can read at once."""
    end_of_text: int
    """The id that ends a document."""
    begin_of_text: int | None = None
    """The id that a text begins with; None: end-of-text, as in our token files."""
    checkpoint: Literal["last", "best"] = "last"
    step: int = 0
    """Updates of the run that it comes from; 0 for a model of other origin."""

    @property
    def first(self) -> int:
        """What stands before a text, so that its first token is predicted too."""
        return self.end_of_text if self.begin_of_text is None else self.begin_of_text

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.module.parameters()).device

    def encode(self, text: str) -> list[int]:
        """The tokens of a text and nothing else."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    @torch.no_grad()
    def token_losses(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        """-log p(target) at every place (B, T), in float32 at least, on the CPU in float64."""
        tokens_BT, targets_BT = tokens_BT.to(self.device), targets_BT.to(self.device)
        if isinstance(self.module, GPT):
            return self.module.token_losses(tokens_BT, targets_BT).view(targets_BT.shape).cpu().double()
        logits_BTV = self.logits(tokens_BT)
        return F.cross_entropy(logits_BTV.transpose(1, 2), targets_BT, reduction="none").cpu().double()

    @torch.no_grad()
    def logits(self, tokens_BT: Tensor) -> Tensor:
        """Of the next token at every place (B, T, V), in float32 at least."""
        if isinstance(self.module, GPT):
            logits_BTV: Tensor = self.module(tokens_BT.to(self.device))
        else:
            logits_BTV = self.module(input_ids=tokens_BT.to(self.device), use_cache=False).logits
        return logits_BTV if logits_BTV.dtype is torch.float64 else logits_BTV.float()


def padded(rows: list[list[int]]) -> Tensor:
    """Rows of unequal length as one tensor, filled up on the right with token 0."""
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])
