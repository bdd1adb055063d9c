"""Train a small GPT on a synthetic text of letters, each of which follows from the two before it."""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Causal attention and a perceptron, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Embeddings, blocks, and the scores of the next letter."""

    def __init__(self, letters: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.tokens(text) + self.positions(torch.arange(text.shape[1], device=text.device))
        return self.head(self.norm(self.blocks(x)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=100, help="steps")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    letters, size = 64, 20000
    follows = torch.randint(0, letters, (letters, letters)).tolist()
    text = [0, 1]
    while len(text) < size:
        text.append(follows[text[-2]][text[-1]] if len(text) % 7 else len(text) * 31 % letters)
    data = torch.tensor(text, device=device)
    model = GPT(letters, options.length, options.width, 6, options.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times, losses = [], []
    for step in range(options.units):
        start = time.perf_counter()
        places = torch.randint(0, size - options.length - 1, (options.batch,)).tolist()
        inputs = torch.stack([data[at : at + options.length] for at in places])
        targets = torch.stack([data[at + 1 : at + 1 + options.length] for at in places])
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
        if step % 10 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    result = statistics.mean(losses[-10:])
    Path("metrics.json").write_text(json.dumps({"seconds": sum(times), "steady": steady, "result": result}))


if __name__ == "__main__":
    main()
