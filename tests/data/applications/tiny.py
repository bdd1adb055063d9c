"""A small application: adds up squares, tells about itself, writes metrics.json. It knows nothing of what runs it."""

import argparse
import json
import os
import socket
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--numbers", type=int, default=1000)
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--exit", type=int, default=0)
parser.add_argument("--text", default="")
args = parser.parse_args()

print(f"started on {socket.gethostname()} with {args.text!r}", flush=True)
start = time.monotonic()
total = sum(n * n for n in range(args.numbers))
time.sleep(args.seconds)
if args.exit:
    sys.exit(args.exit)
with open("metrics.json", "w") as file:
    json.dump(
        {
            "sum": total,
            "text": args.text,
            "seconds": time.monotonic() - start,
            "job": os.environ.get("SLURM_JOB_ID"),
            "user": os.getuid(),
            "host": socket.gethostname(),
        },
        file,
    )
