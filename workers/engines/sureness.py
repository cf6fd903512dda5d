"""How sure a model is of the tokens that it generates."""

import torch


class Sureness:
    """A logits processor that changes nothing and keeps the probability of each likeliest token.

    `output_scores` would keep those of the whole vocabulary: a gigabyte for 32 lines of 128 tokens.
    """

    def __init__(self) -> None:
        self.steps: list[torch.Tensor] = []
        """Of each step, `(sequences,)`."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 - theirs
        """Take note of one step."""
        self.steps.append(scores.float().softmax(dim=-1).amax(dim=-1))
        return scores
