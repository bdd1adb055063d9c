"""Networks of the HiT report and others, with random weights: AlexNet, SqueezeNet, ResNet50, BERT, a CANDLE-like one.

Their definitions follow the papers; nothing is downloaded.
"""

from typing import Any

import torch
from torch import nn


def spread(network: nn.Module) -> None:
    """Give convolutions and dense layers weights by which signals keep their size; torch's own let them fade."""
    for part in network.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")


class AlexNet(nn.Module):
    """Krizhevsky 2014, 'One weird trick'."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers: list[nn.Module] = []
        for inner, outer, kernel, stride, padding, pool in (
            (3, 64, 11, 4, 2, True),
            (64, 192, 5, 1, 2, True),
            (192, 384, 3, 1, 1, False),
            (384, 256, 3, 1, 1, False),
            (256, 256, 3, 1, 1, True),
        ):
            layers += [nn.Conv2d(inner, outer, kernel, stride, padding), nn.ReLU()]
            layers += [nn.MaxPool2d(3, 2)] if pool else []
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(9216, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Linear(4096, 1000),
        )
        spread(self)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(image).flatten(1))


class Fire(nn.Module):
    """SqueezeNet's module."""

    def __init__(self, inner: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inner, squeezed, 1)
        self.one = nn.Conv2d(squeezed, expanded, 1)
        self.three = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.one(x)), torch.relu(self.three(x))], 1)


class SqueezeNet(nn.Module):
    """Version 1.1."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        pool = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)  # noqa: E731
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(),
            Fire(64, 16, 64), Fire(128, 16, 64), pool(),
            Fire(128, 32, 128), Fire(256, 32, 128), pool(),
            Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        spread(self)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(image)).flatten(1)


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions."""

    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        same = stride == 1 and inner == 4 * width
        self.skip: nn.Module = nn.Identity()
        if not same:
            self.skip = nn.Sequential(nn.Conv2d(inner, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.skip(x))


class ResNet50(nn.Module):
    """He 2015, the stride in the 3 x 3 convolution."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        inner = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(count):
                layers.append(Bottleneck(inner, width, stride if number == 0 else 1))
                inner = 4 * width
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.body(image)


def bert(layers: int = 12, hidden: int = 768) -> nn.Module:
    """BERT-base-uncased's shape with random weights."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=layers, hidden_size=hidden, attn_implementation="eager")

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = BertModel(config).eval()

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            found = self.model(input_ids=input_ids, attention_mask=attention_mask)
            return {"hidden": found.last_hidden_state, "pooled": found.pooler_output}

    return Bert()


class DrugResponse(nn.Module):
    """Like CANDLE's Uno: towers for gene expression and drug descriptors, then a dense regression."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.genes = nn.Sequential(nn.Linear(942, 500), nn.ReLU(), nn.Dropout(0.1), nn.Linear(500, 250), nn.ReLU())
        self.drug = nn.Sequential(nn.Linear(1200, 500), nn.ReLU(), nn.Dropout(0.1), nn.Linear(500, 250), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(501, 250), nn.ReLU(), nn.Linear(250, 1))

    def forward(self, expression: torch.Tensor, descriptors: torch.Tensor, dose: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cat([self.genes(expression), self.drug(descriptors), dose], 1))


class Wide(nn.Module):
    """More than 2 GB of weights."""

    def __init__(self, megabytes: int = 2200) -> None:
        super().__init__()
        width = 16384
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.empty(megabytes * 1024 * 1024 // 4 // width, width).normal_(std=0.001))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.table.T


class Dropped(nn.Module):
    """Monte Carlo dropout: each call draws anew."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 64)
        self.b = nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.a(x))
        return self.b(hidden * (torch.rand_like(hidden) > 0.5) * 2)


class Branching(nn.Module):
    """Takes another path for other data."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return self.a(x)
        return -self.a(x)


@torch.library.custom_op("modaktest::twice_and_more", mutates_args=())
def twice_and_more(x: torch.Tensor) -> torch.Tensor:
    """A custom operator."""
    return 2 * x + 1


@twice_and_more.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Custom(nn.Module):
    """Has the custom operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(twice_and_more(x))
