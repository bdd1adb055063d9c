"""Two networks that predict a drug's response from 942 features of a cell line and a compound."""

import torch
from torch import nn

FEATURES = 942


class Dense(nn.Module):
    """One hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the response, of shape (batch, 1), for features of shape (batch, 942)."""
        return self.layers(x)


class Deep(nn.Module):
    """Several hidden layers with connections past each of them."""

    def __init__(self, layers: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, 64)
        self.hidden = nn.ModuleList(nn.Linear(64, 64) for _layer in range(layers))
        self.last = nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the response, of shape (batch, 1), for features of shape (batch, 942)."""
        x = torch.relu(self.first(x))
        for layer in self.hidden:
            x = x + torch.relu(layer(x))
        return self.last(x)
