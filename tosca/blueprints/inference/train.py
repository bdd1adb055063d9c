"""Train two networks on scikit-learn's handwritten digits; write their weights, and the images to test with."""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from nets import Net
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

WIDTHS = {"small": 24, "wide": 64}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split((images / 16).astype("float32"), labels, test_size=0.2, random_state=1, stratify=labels)
    x, x_test, y, y_test = map(torch.tensor, parts)
    probabilities = []
    for name, width in WIDTHS.items():
        net = Net(width)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _epoch in range(args.epochs):
            for rows in torch.randperm(len(x)).split(128):
                loss = torch.nn.functional.nll_loss(torch.log(net(x[rows]) + 1e-9), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        torch.save(net.state_dict(), f"{name}.pt")
        with torch.no_grad():
            probabilities.append(net.eval()(x_test))
    mean = torch.stack(probabilities).mean(0)
    np.savez("test.npz", x=x_test.numpy())
    np.savez("expected.npz", probabilities=mean.numpy(), labels=y_test.numpy())
    accuracy = float((mean.argmax(1) == y_test).float().mean())
    Path("metrics.json").write_text(json.dumps({"accuracy": accuracy}))


if __name__ == "__main__":
    main()
