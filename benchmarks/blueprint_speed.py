"""Measure the validation of a chain of jobs: blueprint_speed.py [--jobs N ...] [--for PROFILE ...] [--rounds N].

Each job waits for the one before it. Printed are the least seconds of processor time, of this process alone.
"""

import argparse
import tempfile
import time
from pathlib import Path

import yaml

from modak_deploy.tosca.package import start_from
from modak_deploy.tosca.profiles import Profile
from modak_deploy.tosca.validate import validate


def chain(folder: Path, count: int) -> Path:
    """Write a blueprint with ``count`` jobs on one machine, each after the one before; return its file."""
    blueprint = start_from("digits-machine", folder)
    data = yaml.safe_load(blueprint.read_text())
    templates = data["topology_template"]["node_templates"]
    job = next(name for name, template in templates.items() if "script" in template.get("properties", {}))
    first = templates.pop(job)
    for number in range(count):
        after = [{"dependency": f"{job}-{number - 1}"}] if number else []
        properties = {**first["properties"], "name": f"{job}-{number}"}
        requirements = [*first["requirements"], *after]
        templates[f"{job}-{number}"] = {**first, "properties": properties, "requirements": requirements}
    for section in ("outputs", "policies"):
        del data["topology_template"][section]
    blueprint.write_text(yaml.safe_dump(data, sort_keys=False))
    return blueprint


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, nargs="*", default=[100, 1_000])
    parser.add_argument("--for", dest="profiles", nargs="*", default=["opera", "tosca-parser"])
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    profiles: list[Profile] = args.profiles
    for count in args.jobs:
        with tempfile.TemporaryDirectory() as name:
            blueprint = chain(Path(name) / "project", count)
            for profile in profiles:
                seconds = []
                for _ in range(args.rounds):
                    began = time.process_time()
                    errors = validate(blueprint, None, profile)
                    seconds.append(time.process_time() - began)
                print(f"{count} jobs for {profile}: {min(seconds):.2f} s, {len(errors)} errors", flush=True)
                for error in errors[:2]:
                    print(error)


if __name__ == "__main__":
    main()
