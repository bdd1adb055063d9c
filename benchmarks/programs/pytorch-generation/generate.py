"""Continue texts word by word with a network of GPT-2's size: random weights, and a cache of what came before."""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class Cache:
    """Keys and values of the words so far, of each layer."""

    def __init__(self, layers: int) -> None:
        self.kept: list[tuple[torch.Tensor, torch.Tensor] | None] = [None] * layers

    def update(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of all words, those of new ones added."""
        kept = self.kept[layer]
        if kept is not None:
            keys, values = torch.cat([kept[0], keys], dim=2), torch.cat([kept[1], values], dim=2)
        self.kept[layer] = keys, values
        return keys, values

    @property
    def length(self) -> int:
        """Return the number of words so far."""
        return 0 if self.kept[0] is None else self.kept[0][0].shape[2]


class Block(nn.Module):
    """Causal attention and a perceptron, each with a residual connection."""

    def __init__(self, layer: int, width: int, heads: int) -> None:
        super().__init__()
        self.layer, self.heads = layer, heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        k, v = cache.update(self.layer, k, v)
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.project(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.shrink(functional.gelu(self.expand(self.norm2(x))))


class Gpt2(nn.Module):
    """Embeddings, blocks, and the scores of the next word: 124 million weights."""

    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(Block(layer, width, 12) for layer in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, text: torch.Tensor, cache: Cache) -> torch.Tensor:
        places = torch.arange(cache.length, cache.length + text.shape[1], device=text.device)
        x = self.words(text) + self.positions(places)
        for block in self.blocks:
            x = block(x, cache)
        return self.head(self.norm(x[:, -1:]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=500, help="words")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--length", type=int, default=128, help="words that continue a text")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = Gpt2(50257, options.width, options.layers).to(device).eval()
    times, total = [], 0.0
    with torch.inference_mode():
        for word in range(options.units):
            start = time.perf_counter()
            if word % options.length == 0:
                cache, text = Cache(options.layers), torch.randint(0, 50257, (options.batch, options.prompt)).to(device)
            scores = model(text, cache)
            best, text = scores[:, -1].max(-1, keepdim=True)
            total += best.mean().item() if word < options.length else 0.0
            times.append(time.perf_counter() - start)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    result = total / min(options.units, options.length)  # of the first text: others differ in their scores
    Path("metrics.json").write_text(json.dumps({"seconds": sum(times), "steady": steady, "result": result}))
    print(f"{options.units} words in {sum(times):.1f} s, mean score {result:.4f}")


if __name__ == "__main__":
    main()
