"""Every loader on its sample, on damaged ones, and together with others."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argus.collectors.records.frames import Kind, encode_json
from argus.topology.export import fleet_to_json, layouts_from_json, topology_to_json
from argus.topology.facts import Facts, LoaderError
from argus.topology.fleet import build_fleet
from argus.topology.hostlist import compress, expand, expand_counts
from argus.topology.layout import build
from argus.topology.loaders import load_bytes, load_file, loaders
from argus.topology.megatron import megatron
from tests.topology import samples
from tests.topology.causes import cached_fleet
from tests.topology.fleets import Shape
from tests.topology.test_layout import records


def load(text: str, origin: str, host: str = "") -> Facts:
    return load_bytes(text.encode(), origin=origin, host=host)


def edges(facts: Facts, kind: str) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in facts.edges if edge.kind == kind}


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_each_sample_goes_to_its_loader_and_no_other(name: str) -> None:
    want, text = samples.SAMPLES[name]
    head = text.encode()[:65536]
    assert [other for other, loader in loaders().items() if loader.sniff(head, name)] == [want]
    facts = load(text, name)
    assert facts.loader == want and facts.origin == name
    assert facts.edges or facts.layouts or facts.declared or facts.ranks_on
    for edge in facts.edges:
        assert edge.provenance.startswith(f"{want} {name}")


def test_every_loader_has_a_sample() -> None:
    assert {want for want, _ in samples.SAMPLES.values()} | {"saved"} == set(loaders())


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_damaged_files_give_facts_or_one_sentence(name: str) -> None:
    want, text = samples.SAMPLES[name]
    raw = text.encode()
    rng = random.Random(name)
    loader = loaders()[want]
    for turn in range(60):
        cut = raw[: rng.randrange(len(raw))] if turn % 2 else bytearray(raw)
        if isinstance(cut, bytearray):
            for _ in range(1 + turn // 20):
                cut[rng.randrange(len(cut))] = rng.choice(b"\x00\xff\n{[\"'<=:,9aZ -")
        try:
            facts = loader.load(bytes(cut), origin=name, host="")
        except LoaderError as error:
            assert str(error).startswith(name) and "\n" not in str(error)
        else:
            assert facts.origin == name and all(name in text for text in facts.warnings)


@given(raw=st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_garbage_is_one_sentence(raw: bytes) -> None:
    with pytest.raises(LoaderError, match=r"^junk"):
        load_bytes(raw, origin="junk")


def test_topo_new_and_old() -> None:
    new = load(samples.TOPO_NEW, "topo.txt", "n0")
    assert edges(new, "uses") == {
        ("gpu:n0/0", "nic:n0/mlx5_0"),
        ("gpu:n0/1", "nic:n0/mlx5_0"),
        ("gpu:n0/2", "nic:n0/mlx5_3"),
        ("gpu:n0/3", "nic:n0/mlx5_3"),
    }
    assert ("gpu:n0/0", "half:n0/0") in edges(new, "part_of")
    assert ("gpu:n0/3", "half:n0/1") in edges(new, "part_of")
    assert ("nic:n0/mlx5_0", "pcie:n0/0") in edges(new, "part_of")
    nvlinks = [edge for edge in new.edges if edge.kind == "nvlink"]
    assert len(nvlinks) == 6 and nvlinks[0].capacity_gbps == 3600.0
    old = load(samples.TOPO_OLD, "topo.txt", "n0")
    assert edges(old, "uses") == {("gpu:n0/0", "nic:n0/mlx5_0"), ("gpu:n0/1", "nic:n0/mlx5_1")}


def test_topo_names_the_bad_row() -> None:
    text = samples.TOPO_OLD.replace("PHB     PIX     0-19", "")
    facts = load(text, "topo.txt", "n0")
    assert facts.warnings == ("topo.txt, line 3, GPU1: 2 cells for 4 columns; the row is left out",)
    odd = load(samples.TOPO_OLD.replace("PIX     PHB     0-19", "PIXX    PHB     0-19"), "topo.txt", "n0")
    assert "line 2, GPU0: unknown link class: mlx5_0 'PIXX'" in odd.warnings[0]


def test_nccl_xml() -> None:
    facts = load(samples.NCCL_XML, "topo.xml", "n0")
    assert ("gpu:n0/0000:c2:00.0", "gpu:n0/3") in edges(facts, "same")
    assert ("gpu:n0/0000:c2:00.0", "pcie:n0/0000:bf:00.0") in edges(facts, "part_of")
    assert ("nic:n0/mlx5_5", "pcie:n0/0000:bf:00.0") in edges(facts, "part_of")
    assert ("gpu:n0/0000:c2:00.0", "nvlink_domain:n0") in edges(facts, "part_of")
    assert facts.attributes["nic:n0/mlx5_5"]["gbps"] == "200.0"
    slots = [e.capacity_gbps for e in facts.edges if e.target.startswith("pcie:") and e.capacity_gbps]
    assert slots == [504.0, 504.0]


def test_nccl_xml_hidden_links_entities_and_cut() -> None:
    hidden = samples.NCCL_XML.replace('link_width="16"', 'link_width="0"')
    assert any(
        "link_width: the link width is hidden" in text for text in load(hidden, "x.xml", "n0").warnings
    )
    bomb = samples.NCCL_XML.replace("<system", "<!DOCTYPE a [<!ENTITY b 'c'>]><system")
    with pytest.raises(LoaderError):
        load(bomb, "x.xml", "n0")
    cut = load(samples.NCCL_XML[:-40], "x.xml", "n0")
    assert "the XML is broken" in cut.warnings[0] and cut.edges


def test_slurm_tree_blocks_and_scontrol() -> None:
    tree = load(samples.TOPOLOGY_CONF, "topology.conf")
    assert edges(tree, "attached") == {
        ("host:n0", "leaf:leaf1"),
        ("host:n1", "leaf:leaf1"),
        ("host:n2", "leaf:leaf2"),
        ("host:n3", "leaf:leaf2"),
        ("leaf:leaf1", "spine:spine1"),
        ("leaf:leaf2", "spine:spine1"),
    }
    listed = load(samples.SCONTROL, "scontrol.txt")
    assert ("host:n0", "spine:spine1") not in edges(listed, "attached")
    assert ("host:n2", "nvlink_domain:b2") in edges(load(samples.BLOCK_CONF, "b.conf"), "part_of")
    yaml = load(samples.SLURM_YAML, "topology.yaml")
    assert edges(yaml, "attached") == edges(tree, "attached")
    assert ("host:n1", "nvlink_domain:b1") in edges(yaml, "part_of")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SwitchName=a Nodes=n[1-\nSwitchName=b Nodes=n1\n", "t.conf, line 1, Nodes: brackets do not match"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Switches=c,a\n", "line 2, Switches: switch 'c' is nowhere"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a Nodes=n1\n", "below itself"),
        ("SwitchName=a Nodes=n1 Speed=3\n", "line 1, speed: unknown word"),
        ("SwitchName=a Nodes=n[9-3]\nSwitchName=b Nodes=n1\n", "runs backwards"),
    ],
)
def test_slurm_errors_name_line_and_field(text: str, told: str) -> None:
    assert any(told in warning for warning in load(text, "t.conf").warnings)


def test_slurm_environment() -> None:
    facts = load(samples.SLURM_ENV, "slurm.env")
    assert edges(facts, "attached") == {("host:n0", "leaf:leaf1"), ("leaf:leaf1", "spine:spine1")}
    assert facts.ranks_on[7] == "n0" and facts.ranks_on[8] == "n1" and len(facts.ranks_on) == 16
    launcher = load(samples.SLURM_ENV.replace("8(x2)", "1(x2)"), "slurm.env")
    assert launcher.ranks_on == {}
    bad = load(samples.SLURM_ENV.replace("8(x2)", "8(y2)"), "slurm.env")
    assert "slurm.env, line 3, SLURM_TASKS_PER_NODE: '8(y2)' is not a task count" in bad.warnings[0]
    odd = load(samples.SLURM_ENV.replace("=switch.switch.node", "=switch.node"), "slurm.env")
    assert "does not fit pattern" in odd.warnings[0]


def test_kubernetes_nodes_and_pods() -> None:
    facts = load(samples.KUBERNETES, "nodes.json")
    assert ("host:n0", "leaf:leaf1") in edges(facts, "attached")
    assert ("leaf:leaf1", "spine:spine1") in edges(facts, "attached")
    assert ("host:n1", "nvlink_domain:9f3e.1") in edges(facts, "part_of")
    assert facts.ranks_on == {0: "n0", 1: "n0", 2: "n0", 3: "n0", 4: "n1", 5: "n1", 6: "n1", 7: "n1"}
    assert load(samples.KUBEFLOW, "pods.json").ranks_on == {
        0: "n0",
        1: "n0",
        2: "n1",
        3: "n1",
        4: "n2",
        5: "n2",
    }


def test_kubernetes_names_the_field() -> None:
    document = json.loads(samples.KUBERNETES)
    del document["items"][0]["metadata"]["name"]
    document["items"][1]["metadata"]["labels"]["network.topology.nvidia.com/accelerator"] = "9f3e.0"
    facts = load(json.dumps(document), "nodes.json")
    assert facts.warnings[0] == "nodes.json, items[0].metadata.name: has no name; it is left out"
    assert any("fabric is not ready" in text for text in facts.warnings)


def test_our_yaml() -> None:
    facts = load(samples.OURS, "topology.yaml")
    fleet = build_fleet((facts,))
    assert fleet.topology.host_of(5) == "h-0002" and not fleet.conflicts and not fleet.warnings
    above = fleet.elements_of(5)
    for element in (
        "rack:r1",
        "zone:z1",
        "nic:h-0002/mlx5_0",
        "leaf:leaf-a",
        "spine:spine-2",
        "rail:0",
        "stage:1",
    ):
        assert element in above
    assert "leaf:leaf-b" not in above
    cable = next(e for e in facts.edges if e.source == "nic:h-0001/mlx5_0" and e.kind == "attached")
    assert cable.capacity_gbps == 400.0 and cable.provenance == "topology_yaml topology.yaml:7"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("gbps: 400}", "gbps: fast}", "line 7, gbps: must be a number above 0"),
        ("rack: r1", "rak: r1", "line 3, hosts.h-[0001-0002].rak: unknown field"),
        ("gpus: 4", "gpus: many", "line 5, h-[0001-0002].gpus: must be a number"),
        ("world_size: 8, tp: 2", "world_size: 8, tp: 3", "line 13, layout: world size 8 is not divisible"),
        ("[0, 1]", "[0, x]", "line 7, gpus: must be a list of GPU indices"),
        ("ranks_per_host: 4", "ranks: {a: h-0001}", "line 12, ranks.a: must map a rank"),
    ],
)
def test_our_yaml_names_line_and_field_and_uses_the_rest(old: str, new: str, told: str) -> None:
    facts = load(samples.OURS.replace(old, new, 1), "topology.yaml")
    assert any(told in text for text in facts.warnings), facts.warnings
    assert facts.edges


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hosts:\n  a: {rack: r\n", "line 3"),
        ("hosts:\n  a: {rack: r1}\n  a: {rack: r2}\n", "line 3: repeats the key 'a'"),
        ("hosts: &x\n  a: {}\nranks: *x\n", "line 3: uses an alias"),
        ("hosts:\n- a\n", "says nothing of hosts"),
    ],
)
def test_broken_yaml_is_one_sentence_with_the_line(text: str, told: str) -> None:
    with pytest.raises(LoaderError, match=told.replace("*", r"\*")):
        load(text, "topology.yaml")


@pytest.mark.parametrize("name", ["n0.csv", "n0.lst", "dcgm.prom"])
def test_inventories_join_uuid_index_and_address(name: str) -> None:
    facts = load(samples.SAMPLES[name][1], name)
    assert ("gpu:GPU-aaaa", "host:n0") in edges(facts, "part_of")
    assert ("gpu:GPU-aaaa", "gpu:n0/0") in edges(facts, "same")
    assert "H100" in facts.attributes["gpu:GPU-bbbb"]["model"]
    bad = load(samples.SAMPLES[name][1].replace("GPU-aaaa", "xyz"), name)
    assert bad.edges if name != "n0.lst" else True


def test_layout_records_frames_and_lines() -> None:
    facts = load(samples.RECORDS, "layouts.jsonl")
    assert [layout.rank for layout in facts.layouts] == [0, 1]
    frames = b"".join(encode_json(Kind.LAYOUT, layout.to_json()) for layout in facts.layouts)
    assert load_bytes(frames, origin="rank-0.argus").layouts == facts.layouts
    cut = load_bytes(frames[:-5], origin="rank-0.argus")
    assert [layout.rank for layout in cut.layouts] == [0]
    lines = samples.RECORDS.replace('"rank": 1', '"rank": "one"')
    bad = load(lines, "layouts.jsonl")
    assert bad.warnings[0].startswith("layouts.jsonl, line 2: layout.rank must be an integer")


@pytest.mark.parametrize("field", ["host", "run"])
def test_a_record_with_names_that_nobody_can_read_is_refused_in_one_sentence(field: str) -> None:
    first, second = samples.RECORDS.splitlines()[:2]
    odd = json.dumps(json.loads(second) | {field: "gpu\x1b[2J-7"})
    facts = load(f"{first}\n{odd}\n", "layouts.jsonl")
    assert [layout.rank for layout in facts.layouts] == [0]
    (warning,) = facts.warnings
    assert f"layout.{field} must be printable text" in warning and warning.isprintable()


def test_kineto_and_flight_recorder_metadata() -> None:
    facts = load(samples.KINETO, "rank-1.json")
    (layout,) = facts.layouts
    assert layout.rank == 1 and [g.ranks for g in layout.groups] == [(0, 1, 2, 3), (0, 1)]
    assert "ranks of group '2' (mesh_dp) are cut or wrong" in facts.warnings[0]
    (dump,) = load(samples.FLIGHT_RECORDER, "nccl_trace_rank_3").layouts
    assert dump.rank == 3 and dump.world_size == 4 and len(dump.groups) == 3
    with pytest.raises(LoaderError, match="rank: a dump does not say its rank"):
        load(samples.FLIGHT_RECORDER, "dump")


def test_framework_arguments() -> None:
    megatron_log = load(samples.MEGATRON_LOG, "m.log").declared[0]
    assert megatron_log.parallel.members("pp")[0].tolist() == [0, 8]
    titan = load(samples.TITAN_LOG, "t.log").declared[0].parallel
    assert titan.members("tp")[0].tolist() == [0, 1] and titan.world_size == 16
    deep = load(samples.DEEPSPEED_LOG, "d.log").declared[0].parallel
    assert deep.members("pp").tolist() == [[0, 2], [1, 3]]
    with pytest.raises(LoaderError, match="m.log, arguments: gives parallel sizes but no world size"):
        load("--tensor-model-parallel-size 2", "m.log")


def test_saved_topologies_load_again() -> None:
    fleet = cached_fleet(Shape())
    saved = json.dumps(fleet_to_json(fleet))
    again = build_fleet([load(saved, "saved.json")])
    assert again.topology.groups == fleet.topology.groups
    assert again.topology.hosts == fleet.topology.hosts
    for rank in (0, 13, 63):
        assert set(again.elements_of(rank)) == set(fleet.elements_of(rank))
    topology = build(records(megatron(16, tp=2)))
    back = build(layouts_from_json(topology_to_json(topology)))
    assert back.groups == topology.groups and back.coords == topology.coords


@pytest.mark.slow
def test_files_gzip_empty_missing_and_unknown(tmp_path: Path) -> None:
    (tmp_path / "topology.conf.gz").write_bytes(gzip.compress(samples.TOPOLOGY_CONF.encode()))
    assert load_file(tmp_path / "topology.conf.gz").loader == "slurm_topology"
    (tmp_path / "cut.gz").write_bytes(gzip.compress(samples.TOPOLOGY_CONF.encode())[:-20])
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "odd").write_text("hello world, this is prose.\n")
    trace = samples.KINETO[:-20] + '"x": "' + "é" * (20 << 20)
    (tmp_path / "rank-1.json.gz").write_bytes(gzip.compress(trace.encode(), 1))
    assert load_file(tmp_path / "rank-1.json.gz").layouts[0].rank == 1
    for name, told in (
        ("cut.gz", "cannot be read"),
        ("empty", "is empty"),
        ("odd", "of no known kind"),
        ("no", "No such"),
    ):
        with pytest.raises(LoaderError, match=told):
            load_file(tmp_path / name)


@given(
    st.lists(st.tuples(st.sampled_from(["n", "gpu-a", "x1-"]), st.integers(0, 999)), min_size=1, max_size=20)
)
@settings(max_examples=60, deadline=None)
def test_hostlists_round_trip(parts: list[tuple[str, int]]) -> None:
    hosts = sorted({f"{stem}{number:03d}" for stem, number in parts})
    assert sorted(expand(compress(hosts))) == hosts


def test_ranges_that_make_too_many_hosts_together_are_refused_before_they_are_written_out() -> None:
    with pytest.raises(ValueError, match="too long"):
        expand(f"n[{','.join(['0-99999'] * 10_000)}]")


@pytest.mark.parametrize("number", ["1" * 400, "NaN", "Infinity", "1e999"])
def test_a_saved_capacity_that_is_no_number_is_not_known(number: str) -> None:
    edge = f'{{"source": "host:a", "target": "leaf:b", "kind": "attached", "capacity_gbps": {number}}}'
    ranks = '{"run": "r", "attempt": 0, "world_size": 1, "ranks": [{"rank": 0, "host": "a"}]}'
    facts = load(f'{{"format": "argus.topology/1", "topology": {ranks}, "edges": [{edge}]}}', "saved.json")
    assert [one.capacity_gbps for one in facts.edges] == [None]


@pytest.mark.parametrize("number", ["1" * 400, ".nan", ".inf", "-1"])
def test_a_capacity_written_down_that_is_no_number_is_left_out_and_told(number: str) -> None:
    facts = load(f"switches:\n  leaf-a: {{up: spine-1, gbps: {number}}}\n", "topology.yaml")
    assert [one.capacity_gbps for one in facts.edges] == [None] and "gbps" in facts.warnings[0]


def test_hostlist_grammar() -> None:
    want = ["node001", "node002", "node007", "gpu-a1n1", "gpu-a1n2", "gpu-a2n1", "gpu-a2n2", "login1"]
    assert list(expand("node[001-002,007],gpu-a[1-2]n[1-2],login1")) == want
    assert expand_counts("8(x3),4") == (8, 8, 8, 4)
    for bad in ("n[1", "n]1[", "n[[1]]", "n[1-]", "a,,b", "n[0-99999999]", "a b"):
        with pytest.raises(ValueError):
            expand(bad)


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        ("t.yaml", "hosts:\n  h-[1-3000]: {}\nranks_per_host: 1024\n"),
        ("m.log", "--tensor-model-parallel-size 2\nworld_size ......... 999999998\n"),
        ("t.log", "Building 2-D device mesh with ['dp', 'tp'], [100000000, 8]\n"),
        ("slurm.env", "SLURM_JOB_NODELIST=n[1-3000]\nSLURM_TASKS_PER_NODE=1024(x3000)\n"),
        ("hosts.txt", "n[0-99999999]\n"),
        ("n0.xml", samples.NCCL_XML.replace("200000", "9" * 5000).replace('count="4"', 'count="²"')),
    ],
)
def test_absurd_sizes_are_told_and_not_built(origin: str, text: str) -> None:
    try:
        told = load(text, origin).warnings
    except LoaderError as error:
        told = (str(error),)
    assert any(word in text for text in told for word in ("more than", "too long", "must be a number"))
