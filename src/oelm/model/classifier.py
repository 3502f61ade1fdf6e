"""Our GPT with a classification head: the last token of a text has read all of it."""

# B batch  T time  D model width  C classes

import torch
from torch import Tensor, nn

from oelm.base.runtime import generator_for
from oelm.model.gpt import GPT
from oelm.model.initialise import STD


class GPTClassifier(nn.Module):
    """logits = W x_last + b. Texts are padded on the right, which a causal model does not see."""

    def __init__(self, gpt: GPT, classes: int, seed: int) -> None:
        super().__init__()
        self.gpt = gpt
        self.head = nn.Linear(gpt.config.width, classes)
        with torch.no_grad():
            drawn = torch.randn(self.head.weight.shape, generator=generator_for(seed, "init", "head.weight"))
            self.head.weight.copy_(STD * drawn)
            self.head.bias.zero_()

    def gradient_checkpointing_enable(self) -> None:
        """Keep only each layer's input for the backward pass; see `GPT`."""
        self.gpt.gradient_checkpointing_enable()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Scores (B, C) of the classes."""
        x_BTD = self.gpt.encode(input_ids)
        last_B = attention_mask.sum(1) - 1
        logits_BC: Tensor = self.head(x_BTD[torch.arange(len(x_BTD), device=x_BTD.device), last_B])
        return logits_BC
