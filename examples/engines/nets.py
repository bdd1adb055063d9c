"""The network of the example."""

import torch
from torch import nn


class Response(nn.Module):
    """Dense layers with a skip over each pair, as networks for drug response have them."""

    def __init__(self, width: int = 512, layers: int = 6) -> None:
        super().__init__()
        self.first = nn.Linear(942, width)
        self.rest = nn.ModuleList([nn.Linear(width, width) for step in range(layers)])
        self.last = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the response of each sample."""
        hidden = torch.relu(self.first(x))
        for layer in self.rest:
            hidden = hidden + torch.relu(layer(hidden))
        return self.last(hidden)
