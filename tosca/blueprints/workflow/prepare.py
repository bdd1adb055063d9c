"""Turn the handwritten digits that ship inside scikit-learn into one file in the layout of MNIST."""

import argparse
from pathlib import Path

import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SIDE = 28


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("digits.npz"))
    args = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) * (255.0 / 16.0)
    images = zoom(images, (1, SIDE / 8, SIDE / 8), order=1).round().clip(0, 255).astype("uint8")
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels, test_size=0.2, random_state=args.seed, stratify=labels
    )
    np.savez_compressed(args.output, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    print(f"{len(x_train)} images to train with and {len(x_test)} to test with; written to {args.output}")


if __name__ == "__main__":
    main()
