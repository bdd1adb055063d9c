"""Compare images that hold the same package, built in different ways: the same work in each, in turn.

    image_flags.py SIF SIF... [--runtime apptainer] [--rounds 9]

Each round starts every image once, in a changing order, and takes the processor seconds of the work alone: one thread,
so that neighbours disturb little. Prints the median per image and expression, and the ratio to the first image with the
smallest and largest ratio of a round.
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path

EXPRESSIONS = (
    "2*a + 3*b",
    "a**2 + b**2 + 2*a*b",
    "sin(a)**2 + cos(b)**2",
    "sqrt(a*b) / (1 + exp(-a))",
    "where(a > b, a, b)",
)
WORK = f"""
import json, time
import numexpr, numpy
numexpr.set_num_threads(1)
values = numpy.random.default_rng(1).random((2, 2_000_000)) + 0.5
a, b = values
seconds = {{}}
for text in {EXPRESSIONS!r}:
    numexpr.evaluate(text)
    began = time.process_time()
    for _ in range(20):
        numexpr.evaluate(text)
    seconds[text] = time.process_time() - began
print(json.dumps(seconds))
"""


def once(runtime: str, image: Path) -> dict[str, float]:
    command = [runtime, "exec", "--cleanenv", str(image), "python3", "-c", WORK]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="+", type=Path, metavar="SIF")
    parser.add_argument("--runtime", default="apptainer")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    rounds: list[dict[Path, dict[str, float]]] = []
    for number in range(arguments.rounds):
        shift = number % len(arguments.images)
        order = arguments.images[shift:] + arguments.images[:shift]
        rounds.append({image: once(arguments.runtime, image) for image in order})
    first = arguments.images[0]
    for text in EXPRESSIONS:
        print(text)
        for image in arguments.images:
            times = [each[image][text] for each in rounds]
            ratios = [each[first][text] / each[image][text] for each in rounds]
            print(
                f"  {image.name}: {statistics.median(times):.3f} s, "
                f"{statistics.median(ratios):.3f} times as fast ({min(ratios):.3f} to {max(ratios):.3f})"
            )


if __name__ == "__main__":
    main()
