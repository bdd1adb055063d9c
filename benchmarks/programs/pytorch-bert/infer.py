"""Embed synthetic sentences with a network of BERT-base's size: random weights."""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    """Attention and a perceptron, each followed by a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)
        self.expand, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            project(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        attention = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.output(attention.transpose(1, 2).reshape(batch, length, width)))
        return self.norm2(x + self.shrink(functional.gelu(self.expand(x))))


class Bert(nn.Module):
    """Embeddings, layers, and the first word's vector as the sentence's: 109 million weights."""

    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, 12) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.norm(self.words(input_ids) + self.positions(torch.arange(input_ids.shape[1], device=input_ids.device)))
        mask = attention_mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, mask)
        return {"last_hidden_state": x, "pooler_output": torch.tanh(self.pool(x[:, 0]))}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=50, help="batches")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = Bert(30522, options.width, options.layers).to(device).eval()
    words = torch.randint(0, 30522, (options.batch, options.length)).to(device)
    mask = torch.ones_like(words)
    times, total = [], 0.0
    with torch.no_grad():
        for _ in range(options.units):
            start = time.perf_counter()
            outputs = model(input_ids=words, attention_mask=mask)
            total += outputs["pooler_output"].double().abs().sum().item()
            times.append(time.perf_counter() - start)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    result = total / options.units
    Path("metrics.json").write_text(json.dumps({"seconds": sum(times), "steady": steady, "result": result}))
    print(f"{options.units} batches in {sum(times):.1f} s, mean sum {result:.4f}")


if __name__ == "__main__":
    main()
