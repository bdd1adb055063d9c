"""Train the ensemble of response.yml on data that are made here: two PyTorch networks and a random forest."""

from pathlib import Path

import numpy as np
import skops.io
import torch
from networks import FEATURES, Deep, Dense
from safetensors.torch import save_file
from sklearn.ensemble import RandomForestRegressor

FOLDER = Path(__file__).parent
SAMPLES, TEST, STEPS = 2000, 500, 200


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return features of shape (samples, 942) and responses of shape (samples, 1), with a fixed seed."""
    random = np.random.default_rng(0)
    x = random.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    weights = random.normal(size=(FEATURES, 1)) * (random.random((FEATURES, 1)) < 0.05)
    return x, (np.tanh(x @ weights) + 0.1 * random.normal(size=(SAMPLES, 1))).astype(np.float32)


def fit(network: torch.nn.Module, x: np.ndarray, y: np.ndarray) -> None:
    """Minimise the mean squared error with Adam on batches of 64."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for step in range(STEPS):
        rows = np.arange(step * 64, step * 64 + 64) % len(x)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(network(torch.from_numpy(x[rows])), torch.from_numpy(y[rows])).backward()
        optimizer.step()


def main() -> None:
    """Write the trained models and the test data beside this file."""
    torch.manual_seed(0)
    x, y = data()
    for name, network in (("dense", Dense()), ("deep", Deep(layers=8))):
        fit(network, x[TEST:], y[TEST:])
        save_file(network.state_dict(), FOLDER / f"{name}.safetensors")
    forest = RandomForestRegressor(20, max_depth=8, random_state=0).fit(x[TEST:], y[TEST:, 0])
    skops.io.dump(forest, FOLDER / "forest.skops")
    np.savez(FOLDER / "test.npz", x=x[:TEST])


if __name__ == "__main__":
    main()
