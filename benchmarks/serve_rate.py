"""Requests per second of 'modak serve', beside the time that one decision takes on its own.

Run from the repository: ``python benchmarks/serve_rate.py [SECONDS]``. Both share the machine, so that what the client
costs counts as well; on a busy machine the figures are lower bounds.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from modak_deploy.jobmodel.answer import answer
from modak_deploy.jobmodel.site import load_sites

DATA = Path(__file__).parents[1] / "tests" / "data" / "jobmodel"
PORT = 18977


def bare(document: dict[str, object], seconds: float) -> tuple[float, float]:
    """Return decisions per second of wall and of processor time."""
    sites, now = load_sites([DATA / "sites.yaml"]), datetime.now(UTC)
    answer(document, sites=sites, now=now)
    wall, processor, number = time.monotonic(), time.process_time(), 0
    while time.monotonic() - wall < seconds:
        answer(document, sites=sites, now=now)
        number += 1
    return number / (time.monotonic() - wall), number / (time.process_time() - processor)


def served(body: bytes, seconds: float, clients: int) -> tuple[float, int]:
    """Return requests per second of ``clients`` at a time, and how many failed."""

    def one(_: int) -> tuple[int, int]:
        connection = http.client.HTTPConnection("127.0.0.1", PORT)
        good = bad = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.request("POST", "/optimise", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            reply.read()
            good, bad = good + (reply.status == 200), bad + (reply.status != 200)
        connection.close()
        return good, bad

    begun = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        counts = list(pool.map(one, range(clients)))
    return sum(good for good, _ in counts) / (time.monotonic() - begun), sum(bad for _, bad in counts)


def main() -> None:
    """Print one line for each number of clients."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    document = json.loads((DATA / "solver.json").read_text())
    wall, processor = bare(document, seconds)
    print(f"bare decision: {wall:.0f} per second, {processor:.0f} per second of processor time")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "modak_deploy.cli",
            "serve",
            "--port",
            str(PORT),
            "--rate",
            "0",
            "--folder",
            folder,
        ]
        environment = {**os.environ, "PYTHONPATH": str(DATA.parents[2])}
        with subprocess.Popen([*command, "--site", str(DATA / "sites.yaml")], env=environment, stderr=-3) as service:
            try:
                wait()
                for clients in (1, 4, 16):
                    rate, failed = served(json.dumps(document).encode(), seconds, clients)
                    print(f"POST /optimise, {clients} clients: {rate:.0f} per second, {failed} failed")
            finally:
                service.terminate()


def wait() -> None:
    """Return once the service answers."""
    for _ in range(300):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
            connection.request("GET", "/health")
            connection.getresponse().read()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the service does not answer")


if __name__ == "__main__":
    main()
