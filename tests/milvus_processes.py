"""Milvus as real processes on free loopback ports: standalone, or a cluster with two query nodes.

The binary comes from the package `milvus`, etcd from the system, and the cluster's queue from the mock broker inside
librdkafka: in memory, so good for losing nodes, not for losing the queue.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

UNPACKED = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "howsure-milvus-2.3.5"
PARTS = {"rootCoord": 1, "dataCoord": 1, "queryCoord": 1, "indexNode": 1, "dataNode": 1, "queryNode": 1, "proxy": 2}


def missing(*, cluster: bool) -> str | None:
    """Why the servers cannot be started here; None if they can."""
    wanted = ["pymilvus", "milvus"] + ["confluent_kafka"] * cluster
    absent = [name for name in wanted if importlib.util.find_spec(name) is None]
    if absent:
        return f"needs the package {absent[0]}"
    return "needs etcd" if cluster and not shutil.which("etcd") else None


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at; all are held until the last is found, so they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for held in sockets:
        held.bind(("127.0.0.1", 0))
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


class Processes:
    """The processes of one server, in one directory; `stop` ends exactly these."""

    def __init__(self, directory: Path, config: str):
        self.directory, self.running = directory, {}
        (directory / "configs").mkdir(parents=True)
        (directory / "configs" / "milvus.yaml").write_text(config)
        (directory / "configs" / "glog.conf").write_text("--logtostderr=true\n--minloglevel=2\n")
        binary = _unpacked() / "bin"
        self._milvus = str(binary / "milvus")
        places = {"MILVUSCONF": directory / "configs", "MILVUS_RUN_DIR": directory / "run", "LD_LIBRARY_PATH": binary}
        self._settings = {name: str(place) for name, place in places.items()}

    def start(self, name: str, command: Sequence[str], **settings: str) -> None:
        """Start one process; its output goes to a file of its name."""
        with (self.directory / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                command, cwd=self.directory, env={**os.environ, **settings}, stdout=log, stderr=log
            )

    def milvus(self, name: str, role: str, **settings: str) -> None:
        """Start one part of Milvus, and wait until it is healthy."""
        (port,) = free_ports(1)
        command = [self._milvus, "run", role, "-alias", name]
        self.start(name, command, METRICS_PORT=str(port), **self._settings, **settings)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.running[name].poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                    if b"OK" in answer.read():
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.3)
        raise RuntimeError(f"milvus {role} did not start; see {self.directory}/{name}.log")

    def kill(self, name: str) -> None:
        """End a process without a chance to say goodbye."""
        self.running[name].send_signal(signal.SIGKILL)
        self.running.pop(name).wait()

    def stop(self) -> None:
        """End what was started here, last first."""
        for name in reversed(list(self.running)):
            self.kill(name)


def _unpacked() -> Path:
    if not (UNPACKED / "bin" / "milvus").exists():
        from milvus import _initialize_data_files

        beside = UNPACKED.with_name(f"{UNPACKED.name}.{os.getpid()}")
        _initialize_data_files(str(beside))
        beside.replace(UNPACKED)
    return UNPACKED


def _config(directory: Path, ports: dict[str, list[int]], etcd: int, broker: str | None = None) -> str:
    """The settings that differ from Milvus' own; a cluster has a broker, and its etcd outside."""
    lines = [f"{part}:\n  ip: 127.0.0.1\n  port: {numbers[0]}" for part, numbers in ports.items()]
    lines[-1] += f"\n  internalPort: {ports['proxy'][1]}\n  timeTickInterval: 50"  # consistent reads wait for it
    lines += [
        f"etcd:\n  endpoints: 127.0.0.1:{etcd}\n  use:\n    embed: {str(broker is None).lower()}",
        f"  config:\n    path: {directory}/etcd.yaml\n  data:\n    dir: {directory}/etcd",
        f"localStorage:\n  path: {directory}/data",
        f"mq:\n  type: {'kafka' if broker else 'rocksmq'}",
        f"kafka:\n  brokerList: {broker}" if broker else f"rocksmq:\n  path: {directory}/rocksmq",
        "log:\n  level: warn",
        "common:\n  storageType: local",  # last, so that more about `common` can follow
    ]
    return "\n".join(lines) + "\n"


def _etcd(client: int, peer: int) -> dict[str, str]:
    """The addresses of an etcd that listens to this machine only."""
    here, there = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return {
        "listen-client-urls": here,
        "advertise-client-urls": here,
        "listen-peer-urls": there,
        "initial-advertise-peer-urls": there,
        "initial-cluster": f"default={there}",
    }


def _ports() -> tuple[dict[str, list[int]], list[int]]:
    numbers = free_ports(sum(PARTS.values()) + 4)
    ports = {part: [numbers.pop() for _ in range(count)] for part, count in PARTS.items()}
    return ports, numbers


class Standalone(Processes):
    """All parts in one process, with etcd inside."""

    def __init__(self, directory: Path, extra: str = ""):
        ports, spare = _ports()
        self.address = f"127.0.0.1:{ports['proxy'][0]}"
        super().__init__(directory, _config(directory, ports, spare[0]) + extra)
        settings = {"name": "default", "data-dir": f"{directory}/etcd", **_etcd(spare[0], spare[1])}
        (directory / "etcd.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
        self.again()

    def again(self) -> None:
        """Start, or start again after `kill`."""
        self.milvus("standalone", "standalone", DEPLOY_MODE="STANDALONE", ETCD_USE_EMBED="true")


class Cluster(Processes):
    """Eight processes, an etcd and a broker. `kill("querynode1")` loses a node."""

    def __init__(self, directory: Path):
        from confluent_kafka import Producer

        ports, spare = _ports()
        self._broker = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1})
        broker = next(iter(self._broker.list_topics(timeout=10).brokers.values()))
        self.address = f"127.0.0.1:{ports['proxy'][0]}"
        super().__init__(directory, _config(directory, ports, spare[0], f"{broker.host}:{broker.port}"))
        urls = [word for name, url in _etcd(spare[0], spare[1]).items() for word in (f"--{name}", url)]
        self.start("etcd", ["etcd", "--data-dir", str(directory / "etcd"), *urls])
        time.sleep(2)
        for role in ("rootcoord", "datacoord", "querycoord", "indexnode", "datanode"):
            self.milvus(role, role)
        self.milvus("querynode1", "querynode")
        self.milvus("querynode2", "querynode", QUERYNODE_PORT=str(spare[2]))
        self.milvus("proxy", "proxy")
