"""An indexed Job of Kubernetes for a program in a container image: manifests, and nothing that contacts a cluster."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modak_deploy.errors import InputError
from modak_deploy.model.base import Positive
from modak_deploy.model.kubernetes import Placement
from modak_deploy.shell import join

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PLAN_ANNOTATION = "modak/plan"
INPUT, WORK, RESULTS = "/modak/input", "/modak/work", "/modak/results"
"""Where the files of the job are mounted, where it runs, and where its results are packed."""
MAX_RETURNED = 4 * 1024 * 1024
"""Bytes of packed results in a pod's log: nodes keep 10 MiB of it (containerLogMaxSize), and base64 adds a third."""
_MOST_INPUT = 900_000
"""Bytes: etcd takes 1.5 MiB in one request, and the API 1 MiB in a ConfigMap (core/v1, ConfigMap); base64 and metadata
are in these figures."""
# A ConfigMap's volume holds the links of its files, and ..data with another copy, which no file of the job is named as.
_COPY = (
    "for file in /modak/input/* /modak/input/.[!.]*; do "
    '[ ! -e "$file" ] || cp -RL "$file" /modak/work/ || exit 126; done; '
)
_START = _COPY + 'exec "$@"'
# The shell is the first process of the container and gets the signals; a trap interrupts wait. What is printed after
# the program is read by modak_deploy/kubernetes/results.py. Not 'tar | gzip': sh does not tell that tar failed.
_RETURN = """
trap 'kill -TERM "$pid" 2>/dev/null' TERM
"$@" &
pid=$!
wait "$pid"; code=$?
while kill -0 "$pid" 2>/dev/null; do wait "$pid"; code=$?; done
set -- %(outputs)s
for path do
  shift
  if [ -e "/modak/work/$path" ] || [ -L "/modak/work/$path" ]; then set -- "$@" "./$path"; fi
done
pack=/modak/results/archive
if [ $# = 0 ]; then printf '\nmodak-results-none\n'
elif cd /modak/work && tar -cf "$pack" "$@" && gzip -c "$pack" >"$pack.gz" && size=$(wc -c <"$pack.gz") &&
  sum=$(sha256sum <"$pack.gz"); then
  size=$((size))
  if [ "$size" -gt %(limit)s ]; then printf '\nmodak-results-refused %%s\n' "$size"
  else
    printf '\nmodak-results-begin %%s %%s\n' "$size" "${sum%%%% *}"
    base64 <"$pack.gz"
    printf 'modak-results-end\n'
  fi
else printf '\nmodak-results-failed\n'
fi
exit "$code"
"""
_GPU = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
_ARRAY = re.compile(r"0-([0-9]{1,5})(?:%([0-9]{1,5}))?")


@dataclass(frozen=True)
class Workload:
    """What the Job runs."""

    run: str
    tag: str
    image: str
    """Reference with its digest, without a scheme."""
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    files: Mapping[str, tuple[bytes, bool]] = field(default_factory=dict)
    """Content by path below the working directory, and whether it is executable."""
    outputs: Sequence[str] = ()
    returned: bool = False
    """Whether the outputs come back in the pod's log, where no claim holds them."""
    records: str | None = None
    """Folder of the launcher's records, which come back with the outputs."""
    cores: Positive | None = None
    memory: Positive | None = None
    gpus: int = 0
    wall_time: Positive | None = None
    array: str | None = None


def job_name(run: str, tag: str) -> str:
    """Return the name of the Job: the same Plan has the same, so that it cannot be created twice."""
    # 47 characters and the hash: a pod's name has the Job's, the index and 5 characters more in its 63.
    short = re.sub(r"[^a-z0-9-]+", "-", run.lower()).strip("-")[:32].strip("-") or "job"
    return f"modak-{short}-{hashlib.sha256(f'{run} {tag}'.encode()).hexdigest()[:8]}"


def manifests(workload: Workload, placement: Placement) -> list[dict[str, Any]]:
    """Return the ConfigMap with the job's files, where it has any, and the Job; InputError for what cannot be had."""
    _check(workload, placement)
    name = job_name(workload.run, workload.tag)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": placement.namespace,
        "labels": {"app.kubernetes.io/managed-by": "modak", "app.kubernetes.io/instance": name},
        "annotations": {PLAN_ANNOTATION: workload.tag},
    }
    job_metadata = dict(metadata)
    if placement.queue is not None:
        job_metadata["labels"] = {**metadata["labels"], QUEUE_LABEL: placement.queue}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": job_metadata, "spec": _job(workload, placement, name)}
    return [*_config_map(workload, metadata), job]


def _check(workload: Workload, placement: Placement) -> None:
    if workload.secrets and placement.secret is None:
        raise InputError(
            f"the application needs the secret variable {workload.secrets[0]}",
            key="secret",
            hint="name a Secret of the cluster that has a key of that name",
        )
    if workload.outputs and placement.work_claim is None and workload.returned and workload.array is not None:
        raise InputError(
            "the outputs of an array are not fetched from the log",
            key="work_claim",
            hint="name a PersistentVolumeClaim",
        )
    if workload.outputs and placement.work_claim is None and not workload.returned:
        raise InputError(
            f"the output '{workload.outputs[0]}' would be lost with the pod",
            key="work_claim",
            hint="name a PersistentVolumeClaim for the working directory",
        )
    size = sum(len(content) * 4 // 3 for content, _ in workload.files.values())
    if size > _MOST_INPUT:
        raise InputError(
            f"the files of the job have {size} bytes in base64, and a ConfigMap takes {_MOST_INPUT}",
            key="application.inputs",
            hint="put them into the image or on a claim",
        )


def _counts(array: str | None) -> tuple[int, int]:
    """Return the Job's completions and parallelism."""
    if array is None:
        return 1, 1
    match = _ARRAY.fullmatch(array)
    if match is None:
        raise InputError(
            f"the array '{array}' is not supported by Kubernetes",
            key="job.array",
            hint="an indexed Job counts from 0: write 0-N or 0-N%M",
        )
    count = int(match[1]) + 1
    return count, min(count, int(match[2] or count) or count)


def _job(workload: Workload, placement: Placement, name: str) -> dict[str, Any]:
    completions, parallelism = _counts(workload.array)
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": completions,
        "parallelism": parallelism,
        # Exactly once: a pod that failed is not replaced.
        "backoffLimit": 0,
        "template": {
            "metadata": {
                "labels": {"app.kubernetes.io/managed-by": "modak", "app.kubernetes.io/instance": name},
                "annotations": {PLAN_ANNOTATION: workload.tag},
            },
            "spec": _pod(workload, placement, name),
        },
    }
    if workload.wall_time is not None and workload.array is None:
        spec["activeDeadlineSeconds"] = workload.wall_time
    if placement.keep is not None:
        spec["ttlSecondsAfterFinished"] = placement.keep
    if placement.queue is not None:
        spec["suspend"] = True
    return spec


def _pod(workload: Workload, placement: Placement, name: str) -> dict[str, Any]:
    volumes, mounts = _volumes(workload, placement, name)
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "job",
                "image": workload.image,
                "command": _command(workload, placement),
                "workingDir": WORK,
                "env": _environment(workload, placement),
                "resources": _resources(workload, placement),
                "volumeMounts": mounts,
                "securityContext": {"allowPrivilegeEscalation": False},
            }
        ],
        "volumes": volumes,
        # Without these a pod of an unreachable node is deleted after 300 s (DefaultTolerationSeconds), and its Job
        # makes another one while the first may still run.
        "tolerations": [
            {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute"}
            for state in ("not-ready", "unreachable")
        ],
    }
    if workload.wall_time is not None and workload.array is not None:
        pod["activeDeadlineSeconds"] = workload.wall_time  # each task's own: the Job's counts for all of them together
    if placement.node_selector:
        pod["nodeSelector"] = dict(placement.node_selector)
    if placement.pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": placement.pull_secret}]
    return pod


def returns_results(workload: Workload, placement: Placement) -> bool:
    """Return whether the outputs come back in the pod's log."""
    return workload.returned and bool(workload.outputs) and placement.work_claim is None


def _command(workload: Workload, placement: Placement) -> list[str]:
    argv = [_literal(argument) for argument in workload.argv]
    if returns_results(workload, placement):
        script = _RETURN % {
            "outputs": join([*workload.outputs, *([workload.records] if workload.records else [])]),
            "limit": MAX_RETURNED,
        }
        return ["sh", "-c", _literal((_COPY if workload.files else "") + script), "modak", *argv]
    return ["sh", "-c", _START, "modak", *argv] if workload.files else argv


def _literal(text: str) -> str:
    """Return a text that Kubernetes leaves as it is.

    It expands $(NAME) in commands and values, and makes one $ of any $$ (third_party/forked/golang/expansion).
    """
    return text.replace("$", "$$")


def _environment(workload: Workload, placement: Placement) -> list[dict[str, Any]]:
    plain = [{"name": name, "value": _literal(value)} for name, value in sorted(workload.environment.items())]
    secret = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": placement.secret, "key": name}}}
        for name in sorted(workload.secrets)
    ]
    return [*plain, *secret]


def _resources(workload: Workload, placement: Placement) -> dict[str, Any]:
    amounts: dict[str, str] = {}
    if workload.cores is not None:
        amounts["cpu"] = str(workload.cores)
    if workload.memory is not None:
        amounts["memory"] = str(workload.memory)
    if workload.gpus:
        amounts[_GPU[placement.gpu]] = str(workload.gpus)
    # Equal requests and limits: the pod is of the class Guaranteed, and its cores are its own under the static policy.
    return {"requests": amounts, "limits": dict(amounts)} if amounts else {}


def _volumes(workload: Workload, placement: Placement, name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    work: dict[str, Any] = {"name": "work", "emptyDir": {}}
    mount: dict[str, Any] = {"name": "work", "mountPath": WORK}
    if placement.work_claim is not None:
        work = {"name": "work", "persistentVolumeClaim": {"claimName": placement.work_claim}}
        mount["subPath"] = name
    if placement.work_claim is not None and workload.array is not None:
        del mount["subPath"]
        mount["subPathExpr"] = f"{name}/$(JOB_COMPLETION_INDEX)"
    volumes, mounts = [work], [mount]
    if returns_results(workload, placement):
        volumes.append({"name": "results", "emptyDir": {}})
        mounts.append({"name": "results", "mountPath": RESULTS})
    if workload.files:
        items = [
            {"key": _key(number), "path": path, "mode": 0o755 if executable else 0o644}
            for number, (path, (_, executable)) in enumerate(sorted(workload.files.items()))
        ]
        volumes.append({"name": "input", "configMap": {"name": name, "items": items}})
        mounts.append({"name": "input", "mountPath": INPUT, "readOnly": True})
    for number, (claim, path) in enumerate(sorted(placement.claims.items())):
        volumes.append({"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": f"claim-{number}", "mountPath": path})
    return volumes, mounts


def _key(number: int) -> str:
    return f"file-{number}"


def _config_map(workload: Workload, metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not workload.files:
        return []
    data = {
        _key(number): base64.b64encode(content).decode("ascii")
        for number, (_, (content, _)) in enumerate(sorted(workload.files.items()))
    }
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": dict(metadata), "immutable": True, "binaryData": data}
    ]
