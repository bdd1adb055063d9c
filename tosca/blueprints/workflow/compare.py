"""Compare the metrics of several trainings, and name the most accurate."""

import argparse
import json
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics", type=Path, nargs="+", help="files as train.py writes them")
    parser.add_argument("--output", type=Path, default=Path("best.json"))
    args = parser.parse_args()
    found = {path.stem: json.loads(path.read_text()) for path in args.metrics}
    for name, metrics in found.items():
        print(f"{name}: accuracy {metrics['accuracy']:.4f} after {metrics['epochs']} epochs")
    best = max(found, key=lambda name: found[name]["accuracy"])
    args.output.write_text(json.dumps({"best": best, **found[best]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
