"""Several files on one cluster: provenance, contradictions, names, derived relations."""

from __future__ import annotations

import json

import pytest

from argus.topology.facts import Facts
from argus.topology.fleet import build_fleet
from argus.topology.loaders import load_bytes
from argus.topology.words import describe_rank
from tests.topology import samples


def load(text: str, origin: str, host: str = "") -> Facts:
    return load_bytes(text.encode(), origin=origin, host=host)


def test_loaders_compose_with_provenance() -> None:
    parts = [load(*samples.SAMPLES[name][::-1][:1], origin=name) for name in ("layouts.jsonl",)]
    parts += [
        load(samples.CSV, "inventory.csv", "n0"),
        load(samples.TOPO_NEW, "topo.txt", "*"),
        load(samples.TOPOLOGY_CONF, "topology.conf"),
    ]
    fleet = build_fleet(parts)
    above = fleet.elements_of(1)
    assert "gpu:GPU-bbbb" in above and fleet.element("gpu:n0/1") == "gpu:GPU-bbbb"
    for element in ("nic:n0/mlx5_0", "half:n0/0", "pcie:n0/0", "host:n0", "leaf:leaf1", "spine:spine1"):
        assert element in above
    assert all(edge.provenance for edge in fleet.edges) and not fleet.conflicts
    assert any(edge.provenance == "nvidia_smi_topo topo.txt:2" for edge in fleet.edges)


def test_contradictory_files_are_told_with_both_versions() -> None:
    other = samples.TOPOLOGY_CONF.replace("leaf1 Nodes=n[0-1]", "leaf1 Nodes=n1").replace(
        "leaf2 Nodes=n[2-3]", "leaf2 Nodes=n[0,2-3]"
    )
    moved = samples.KUBERNETES.replace('"nodeName": "n1"', '"nodeName": "n7"')
    parts = [
        load(samples.OURS.replace("h-[0001-0002]", "n[0-1]"), "topology.yaml"),
        load(moved, "nodes.json"),
        load(other, "topology.conf"),
    ]
    fleet = build_fleet(parts)
    leaf = [text for text in fleet.conflicts if text.startswith("host:n0 is at leaf:leaf1")]
    assert (
        len(leaf) == 1 and "kubernetes nodes.json" in leaf[0] and "slurm_topology topology.conf:3" in leaf[0]
    )
    rank = [text for text in fleet.conflicts if text.startswith("rank 4")]
    assert "'n7', says kubernetes nodes.json" in rank[0] and "'n1', says topology_yaml" in rank[0]
    assert fleet.topology.host_of(4) == "n7"


def test_long_and_short_names_are_one_host() -> None:
    nodes = samples.KUBERNETES.replace('"n0"', '"n0.cluster.local"').replace('"n1"', '"n1.cluster.local"')
    fleet = build_fleet([load(samples.RECORDS, "l.jsonl"), load(nodes, "nodes.json")])
    assert not fleet.conflicts and "leaf:leaf1" in fleet.elements_of(1)
    assert "host:n0.cluster.local" not in fleet.ranks.index


@pytest.mark.parametrize("visible", ["3,1", "3"])
def test_visible_devices_renumber_gpus(visible: str) -> None:
    body = json.loads(samples.RECORDS.splitlines()[0])
    body |= {"env": {"CUDA_VISIBLE_DEVICES": visible}, "device": ""}
    fleet = build_fleet([load(json.dumps(body), "l.json"), load(samples.TOPO_NEW, "topo.txt", "n0")])
    assert "gpu:n0/3" in fleet.elements_of(0) and "nic:n0/mlx5_3" in fleet.elements_of(0)
    assert "GPU 3" in describe_rank(fleet, 0)


def test_a_rank_recorded_twice_is_renumbered_once() -> None:
    body = json.loads(samples.RECORDS.splitlines()[0])
    body |= {"env": {"CUDA_VISIBLE_DEVICES": "1,0"}, "device": ""}
    text = "\n".join(json.dumps(body | {"source": source}) for source in ("live", "kineto"))
    fleet = build_fleet([load(text, "l.jsonl"), load(samples.TOPO_NEW, "topo.txt", "n0")])
    assert "gpu:n0/1" in fleet.elements_of(0)


@pytest.mark.parametrize("visible", ["0", "GPU-bbbb,GPU-aaaa"])
@pytest.mark.parametrize("is_known", [True, False])
def test_where_no_index_is_told_no_rank_is_put_on_another_ranks_gpu(visible: str, is_known: bool) -> None:
    """Two containers of a host with one GPU each call it 0; a list of UUIDs tells no index."""
    first = json.loads(samples.RECORDS.splitlines()[0])
    rows = [
        first
        | {
            "rank": rank,
            "local_rank": rank,
            "env": {"CUDA_VISIBLE_DEVICES": visible},
            "device": f"GPU-{name}" if is_known else "",
        }
        for rank, name in enumerate(["aaaa", "bbbb"])
    ]
    text = "\n".join(map(json.dumps, rows))
    fleet = build_fleet([load(text, "l.jsonl"), load(samples.TOPO_NEW, "topo.txt", "n0")])
    assert not fleet.ranks_of("gpu:n0/0") and not fleet.ranks_of("gpu:n0/1")


def test_a_duplicate_uuid_is_not_one_device() -> None:
    csv = samples.CSV.replace("1, GPU-bbbb", "0, GPU-bbbb")
    fleet = build_fleet([load(samples.RECORDS, "l.jsonl"), load(csv, "n0.csv", "n0")])
    assert fleet.ranks_of("gpu:GPU-aaaa") == (0,) and fleet.ranks_of("gpu:GPU-bbbb") == (1,)


def test_slurm_address_of_a_record_needs_no_configuration() -> None:
    body = json.loads(samples.RECORDS.splitlines()[0])
    body["env"] = {
        "SLURM_TOPOLOGY_ADDR": "spine1.leaf3.n0",
        "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node",
    }
    fleet = build_fleet([load(json.dumps(body), "l.json")])
    assert {"leaf:leaf3", "spine:spine1"} <= set(fleet.elements_of(0))
