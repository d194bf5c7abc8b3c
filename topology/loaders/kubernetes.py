"""Kubernetes objects as `kubectl get nodes,pods -o json` exports them: places of hosts, ranks of pods."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from argus.topology.collect import Collector, decode
from argus.topology.facts import Facts, whole_number

_NETWORK = "network.topology.nvidia.com/"
NODE_LABELS = {
    "network.topology.nvidia.com/accelerator": ("nvlink_domain", "part_of"),
    "nvidia.com/gpu.clique": ("nvlink_domain", "part_of"),
    "network.topology.nvidia.com/leaf": ("leaf", "attached"),
    "topology.kubernetes.io/rack": ("rack", "part_of"),
    "topology.kubernetes.io/block": ("pod", "part_of"),
    "topology.kubernetes.io/zone": ("zone", "part_of"),
}
"""Topograph, GPU operator and well-known labels of a host: kind of the element named and how it relates."""

INDEX_LABELS = (
    "jobset.sigs.k8s.io/job-global-index",
    "training.kubeflow.org/replica-index",
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
)
"""Labels that number the pods of a job, tried in this order; a JobSet adds its own jobs' indices."""

MAX_PER_POD = 1024
"""Processes taken per pod."""

JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "batch.kubernetes.io/job-name",
    "leaderworkerset.sigs.k8s.io/name",
)


def sniff(head: bytes, name: str) -> bool:
    """True for JSON with apiVersion and kind."""
    return bool(re.match(rb"\s*[\[{]", head)) and b'"apiVersion"' in head and b'"kind"' in head


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """Switches, racks, zones and NVLink domains of nodes; ranks of pods of one training job."""
    found = Collector("kubernetes", origin=origin, host=host)
    try:
        document = json.loads(decode(raw, origin=origin))
    except ValueError as error:
        raise found.fail(f"is not JSON: {error}", line=getattr(error, "lineno", 0)) from None
    pods: list[tuple[str, Mapping[str, Any], Mapping[str, str]]] = []
    for place, item in _items(document):
        labels = _labels(found, item, place)
        if labels is None:
            continue
        if item.get("kind") == "Node":
            _node(found, item, labels, place)
        elif item.get("kind") == "Pod":
            pods.append((place, item, labels))
    ranks_on = _pods(found, pods)
    if found.is_empty and not ranks_on:
        raise found.fail("holds no node with topology labels and no pod of a training job", field="items")
    return found.facts(ranks_on=ranks_on)


def _items(document: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        items, stem = document["items"], "items"
        kind = str(document.get("kind", "")).removesuffix("List")
    else:
        items, stem, kind = document if isinstance(document, list) else [document], "", ""
    for i, item in enumerate(items):
        if isinstance(item, dict):
            yield f"{stem}[{i}]", {"kind": kind, **item}


def _labels(found: Collector, item: Mapping[str, Any], place: str) -> dict[str, str] | None:
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        found.warn("has no name; it is left out", field=f"{place}.metadata.name")
        return None
    labels = metadata.get("labels") or {}
    if not isinstance(labels, dict):
        found.warn("must be an object; it is taken as empty", field=f"{place}.metadata.labels")
        return {}
    return {str(key): value for key, value in labels.items() if isinstance(value, str)}


def _node(found: Collector, item: Mapping[str, Any], labels: Mapping[str, str], place: str) -> None:
    name = item["metadata"]["name"]
    mine = f"host:{name}"
    host_name = labels.get("kubernetes.io/hostname", "")
    found.note(mine, gpu_model=labels.get("nvidia.com/gpu.product", ""), node=name)
    if host_name and host_name != name:
        found.edge(mine, f"host:{host_name}", kind="same")
    for label, (kind, relation) in NODE_LABELS.items():
        value = labels.get(label, "")
        if not value:
            continue
        if label.endswith("gpu.clique") and labels.get(f"{_NETWORK}accelerator"):
            continue
        if value in ("0", "0.0") or value.endswith(".0") and kind == "nvlink_domain":
            found.warn(f"{value!r} means the fabric is not ready; it is left out", field=f"{place} {label}")
            continue
        found.edge(mine, f"{kind}:{value}", kind=relation)
    leaf, spine, core = (labels.get(f"{_NETWORK}{tier}", "") for tier in ("leaf", "spine", "core"))
    if leaf and spine:
        found.edge(f"leaf:{leaf}", f"spine:{spine}", kind="attached")
    if spine and core:
        found.edge(f"spine:{spine}", f"pod:{core}", kind="attached")


Pod = tuple[str, Mapping[str, Any], Mapping[str, str]]


def _pods(found: Collector, pods: list[Pod]) -> dict[int, str]:
    """Ranks of one job's pods: pod index × processes per pod, where both are known."""
    jobs: dict[str, list[Pod]] = {}
    for pod in pods:
        job = next((pod[2][label] for label in JOB_LABELS if label in pod[2]), "")
        if job and _object(pod[1].get("status")).get("phase", "Running") == "Running":
            jobs.setdefault(job, []).append(pod)
    if len(jobs) > 1:
        found.warn(f"holds pods of {len(jobs)} jobs ({', '.join(sorted(jobs)[:4])}); ranks are left out")
        return {}
    ranks_on: dict[int, str] = {}
    for place, item, labels in next(iter(jobs.values()), []):
        spec = _object(item.get("spec"))
        node, index, size = spec.get("nodeName"), _pod_index(labels), _processes(spec)
        if not isinstance(node, str) or index is None or not size:
            found.warn("node, index or processes per pod are unknown; it is left out", field=f"{place}.spec")
            continue
        for rank in range(index * size, (index + 1) * size):
            if ranks_on.setdefault(rank, node) != node:
                found.warn(
                    f"rank {rank} is on {ranks_on[rank]!r} and on {node!r}; the first is used", field=place
                )
    return ranks_on


def _pod_index(labels: Mapping[str, str]) -> int | None:
    if labels.get("training.kubeflow.org/replica-type", "").lower() == "master":
        return 0
    text = next((labels[label] for label in INDEX_LABELS if label in labels), "")
    index = whole_number(text)
    if index is None:
        return None
    # PyTorchJob numbers the workers from 0 beside one master, which is pod 0.
    return index + int(labels.get("training.kubeflow.org/operator-name", "") == "pytorchjob-controller")


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _processes(spec: Mapping[str, Any]) -> int:
    """Processes per pod: PET_NPROC_PER_NODE, else the GPUs it is given."""
    for container in map(_object, _list(spec.get("containers"))):
        for variable in map(_object, _list(container.get("env"))):
            if variable.get("name") == "PET_NPROC_PER_NODE":
                text = str(variable.get("value", ""))
                return min(whole_number(text) or 0, MAX_PER_POD)
        limits = _object(_object(container.get("resources")).get("limits"))
        if gpus := whole_number(str(limits.get("nvidia.com/gpu", ""))):
            return min(gpus, MAX_PER_POD)
    return 0
