"""A kubelet that is played: it runs the command of each pod of its node as a process of this machine.

    kubelet.py SERVER TOKEN-FILE NODE FOLDER PORT CERTIFICATE KEY

There is no image and no container: paths below /modak are replaced by those of the pod's folder, in the command and
in the environment. Volumes are ConfigMaps and emptyDirs, variables may come from Secrets. A node's heartbeat is the
status of its Node. Logs are served as a kubelet does, at /containerLogs/NAMESPACE/POD/CONTAINER.
"""

import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SERVER, TOKEN, NODE, FOLDER, PORT, CERTIFICATE, KEY = sys.argv[1:]
_CONTEXT = ssl._create_unverified_context()  # noqa: S323 - the API server's certificate is its own, on loopback
running: dict[str, "Pod"] = {}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def call(method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
    request = urllib.request.Request(  # noqa: S310 - the API server's address
        SERVER + path,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {Path(TOKEN).read_text().strip()}", "Content-Type": kind},
        method=method,
    )
    with urllib.request.urlopen(request, context=_CONTEXT, timeout=30) as answer:  # noqa: S310
        return json.load(answer)


def register() -> None:
    try:
        call("POST", "/api/v1/nodes", {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}})
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise


def heartbeat() -> None:
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now()}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [condition],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": int(PORT)}},
    }
    call("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, "application/strategic-merge-patch+json")


class Pod:
    """One pod: its folder, its process, and what became of it."""

    def __init__(self, pod: dict[str, Any]) -> None:
        self.name, self.namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.folder = Path(FOLDER) / pod["metadata"]["uid"]
        self.spec = pod["spec"]["containers"][0]
        self.log = self.folder / "log"
        self.started, self.reported = now(), ""
        self._volumes(pod["spec"])
        here = f"{self.folder}/modak/"
        environment = {"PATH": os.environ["PATH"], "HOSTNAME": self.name}
        environment |= {entry["name"]: self._value(entry) for entry in self.spec.get("env", [])}
        command = [_expanded(word).replace("/modak/", here) for word in self.spec["command"]]
        with self.log.open("wb") as log:
            try:
                self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
                    command,
                    cwd=self.folder / "modak/work",
                    env={name: value.replace("/modak/", here) for name, value in environment.items()},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                log.write(f"{error}\n".encode())
                self.process = None

    def _value(self, entry: dict[str, Any]) -> str:
        if "valueFrom" not in entry:
            return _expanded(entry.get("value", ""))
        source = entry["valueFrom"]["secretKeyRef"]
        data = call("GET", f"/api/v1/namespaces/{self.namespace}/secrets/{source['name']}")["data"]
        return base64.b64decode(data[source["key"]]).decode()

    def _volumes(self, spec: dict[str, Any]) -> None:
        mounts = {mount["name"]: mount["mountPath"] for mount in self.spec.get("volumeMounts", [])}
        (self.folder / "modak/work").mkdir(parents=True)
        for volume in spec.get("volumes", []):
            place = Path(f"{self.folder}{mounts[volume['name']]}")
            place.mkdir(parents=True, exist_ok=True)
            if (source := volume.get("configMap")) is None:
                continue
            data = call("GET", f"/api/v1/namespaces/{self.namespace}/configmaps/{source['name']}")["binaryData"]
            for item in source["items"]:
                file = place / item["path"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(base64.b64decode(data[item["key"]]))
                file.chmod(item["mode"])

    def report(self) -> None:
        code = 127 if self.process is None else self.process.poll()
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        if phase == self.reported:
            return
        state: dict[str, Any] = {"running": {"startedAt": self.started}}
        if code is not None:
            code = 128 - code if code < 0 else code
            reason = "Error" if code else "Completed"
            state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": self.started, "finishedAt": now()}}
        container = {
            "name": self.spec["name"],
            "image": self.spec["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": code is None,
            "started": code is None,
            "containerID": f"played://{self.name}",
            "state": state,
        }
        ready = {"type": "Ready", "status": "True" if code is None else "False"}
        status = {
            "phase": phase,
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "startTime": self.started,
            "conditions": [ready],
            "containerStatuses": [container],
        }
        call("PATCH", f"{self.path}/status", {"status": status}, "application/strategic-merge-patch+json")
        self.reported = phase

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        call("DELETE", self.path, {"gracePeriodSeconds": 0})
        shutil.rmtree(self.folder, ignore_errors=True)


def _expanded(text: str) -> str:
    return text.replace("$$", "$")


def look() -> None:
    listed = call("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}")["items"]
    there = {pod["metadata"]["uid"] for pod in listed}
    for pod in listed:
        uid = pod["metadata"]["uid"]
        leaves = pod["metadata"].get("deletionTimestamp")
        if uid not in running and not leaves:
            running[uid] = Pod(pod)
        if uid in running:
            if leaves:
                running.pop(uid).end()
            else:
                running[uid].report()
        elif leaves:
            call(
                "DELETE",
                f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}",
                {"gracePeriodSeconds": 0},
            )
    for uid in running.keys() - there:
        pod = running.pop(uid)
        if pod.process is not None and pod.process.poll() is None:
            os.killpg(pod.process.pid, signal.SIGKILL)
        shutil.rmtree(pod.folder, ignore_errors=True)


class Logs(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        pod = next((pod for pod in list(running.values()) if parts[1:3] == [pod.namespace, pod.name]), None)
        if parts[0] != "containerLogs" or pod is None:
            self.send_error(404)
            return
        lines = pod.log.read_bytes().splitlines(keepends=True)
        tail = urllib.parse.parse_qs(url.query).get("tailLines")
        data = b"".join(lines[-int(tail[0]) :] if tail and int(tail[0]) else lines)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", int(PORT)), Logs)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    register()
    beat = 0.0
    while True:
        try:
            if time.monotonic() - beat > 2:
                heartbeat()
                beat = time.monotonic()
            look()
        except (OSError, ValueError) as error:
            print(f"{now()} {error}", file=sys.stderr, flush=True)
        time.sleep(0.2)


main()
