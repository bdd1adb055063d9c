"""Fit boosted trees on synthetic samples again and again, and score each, as a search of parameters does."""

import argparse
import json
import statistics
import time
from pathlib import Path

from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=30, help="fits")
    parser.add_argument("--samples", type=int, default=4000)
    options = parser.parse_args()

    inputs, classes = make_classification(options.samples, 20, n_informative=12, random_state=0)
    train, test, train_classes, test_classes = train_test_split(inputs, classes, random_state=0)
    times, scores = [], []
    for number in range(options.units):
        start = time.perf_counter()
        rate = 0.05 + 0.01 * (number % 10)
        model = HistGradientBoostingClassifier(learning_rate=rate, max_iter=30, random_state=0)
        model.fit(train, train_classes)
        scores.append(model.score(test, test_classes))
        times.append(time.perf_counter() - start)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    values = {"seconds": sum(times), "steady": steady, "result": statistics.mean(scores)}
    Path("metrics.json").write_text(json.dumps(values))


if __name__ == "__main__":
    main()
