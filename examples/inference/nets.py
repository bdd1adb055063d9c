"""The networks of the ensemble: small ones, so that the example takes seconds."""

from torch import nn


class Net(nn.Module):
    """Two layers; gives the probability of each class."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10), nn.Softmax(dim=1))

    def forward(self, x):
        return self.layers(x)
