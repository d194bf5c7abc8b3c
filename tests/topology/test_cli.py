"""`argus topology` end to end: files in, tables, graphs, sentences and exit codes out."""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import re
import urllib.error
import xml.etree.ElementTree as ET
from email.message import Message
from pathlib import Path

import networkx as nx
import pytest

from argus.api.cli import build_parser, load, main
from argus.api.cli.errors import CliError
from argus.api.cli.topology import _show
from argus.topology.export import topology_to_json
from argus.topology.graph import dot, graphml, to_networkx
from argus.topology.layout import build
from argus.topology.megatron import megatron
from argus.topology.text import render, table
from tests.topology import samples
from tests.topology.causes import cached_fleet
from tests.topology.fleets import Shape
from tests.topology.test_layout import records


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    path = tmp_path / "topology.yaml"
    path.write_text(samples.OURS)
    return path


def test_show_prints_head_groups_tree_and_hosts(ours: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", str(ours)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "run (no name) · attempt 0 · 8 ranks on 2 hosts"
    assert lines[1] == "layout: tp 2 · pp 2 · dp 2"
    assert "  zone z1" in lines and "h-0002  4–7    4     2" in lines
    assert any(line.startswith("tp ") and "4 × 2" in line for line in lines)


def test_show_one_rank_and_an_unknown_one(ours: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", str(ours), "--rank", "5"]) == 0
    out = capsys.readouterr().out
    want = "rank 5 · tp 1 · pp 1 · dp 0 · host h-0002 · GPU 1 · NIC mlx5_0 · leaf-a\npeers: 7\n"
    assert out.startswith(want) and "nic:h-0002/mlx5_0  (NIC mlx5_0 of host h-0002)" in out
    assert main(["topology", "show", str(ours), "--rank", "9"]) == 2
    assert "rank 9 is not in topology; close: rank 7; ranks are 0–7" in capsys.readouterr().err


def test_json_saves_and_a_saved_file_shows_what_changed(
    ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology", "show", str(ours), "--json"]) == 0
    text = capsys.readouterr().out
    saved = tmp_path / "saved.json"
    saved.write_text(text)
    assert json.loads(text)["topology"]["world_size"] == 8
    assert main(["topology", "show", str(ours), "--against", str(saved)]) == 0
    assert capsys.readouterr().out == "no difference\n"
    ours.write_text(samples.OURS.replace("h-[0001-0002]", "h-[0002-0003]"))
    assert main(["topology", "show", str(ours), "--against", str(saved)]) == 0
    out = capsys.readouterr().out
    assert "rank 0: host h-0001 → h-0002" in out and "host h-0003 is new" in out
    assert main(["topology", "show", str(ours), "--against", str(saved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts_gone"] == ["h-0001"]


def test_dot_and_graphml_are_well_formed(ours: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", str(ours), "--dot"]) == 0
    out = capsys.readouterr().out
    assert out.startswith('digraph "fleet" {') and out.rstrip().endswith("}")
    assert '"nic:h-0001/mlx5_0" -> "leaf:leaf-a"' in out and "400 Gb/s" in out
    assert main(["topology", "show", str(ours), "--graphml"]) == 0
    ET.fromstring(capsys.readouterr().out)


def test_the_graph_holds_typed_edges_with_provenance() -> None:
    fleet = cached_fleet(Shape())
    graph = to_networkx(fleet)
    assert graph.nodes["rank:45"]["kind"] == "rank" and graph.nodes["rank:45"]["dp"] == 6
    edge = graph.edges["nic:h-0000/mlx5_0", "leaf:l0"]
    assert (
        edge["kind"] == "attached" and edge["capacity_gbps"] == 400.0 and "cluster.yaml" in edge["provenance"]
    )
    assert nx.has_path(graph, "rank:0", "spine:s0-3") and graph.has_edge("rank:0", "group:tp/0")
    again = nx.parse_graphml(graphml(fleet))
    assert again.number_of_nodes() == graph.number_of_nodes()


def test_names_from_files_cannot_break_out_of_dot(tmp_path: Path) -> None:
    hostile = samples.OURS.replace("rack: r1", "rack: 'a\"];evil[\"b'")
    (tmp_path / "t.yaml").write_text(hostile)
    fleet = cached_fleet(Shape())
    assert dot(fleet).count("\n") == dot(fleet).count(";\n") + dot(fleet).count("{\n") + dot(fleet).count(
        "}\n"
    )
    assert main(["topology", "show", str(tmp_path / "t.yaml"), "--dot"]) == 0


def test_check_explains_errors_warnings_conflicts(
    ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology", "check", str(ours)]) == 0
    assert "8 ranks" in capsys.readouterr().out
    (tmp_path / "odd.txt").write_text("prose\n")
    wrong = tmp_path / "train.log"
    wrong.write_text(samples.MEGATRON_LOG)
    code = main(["topology", "check", str(ours), str(tmp_path / "odd.txt"), str(wrong)])
    out = capsys.readouterr().out
    assert code == 1 and "error     odd.txt: is of no known kind" in out
    assert "conflict  arguments (train.log) gives a world of 16 ranks" in out or "conflict  file" in out
    assert main(["topology", "check", str(tmp_path / "odd.txt"), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["errors"][0].startswith("odd.txt")


def test_a_folder_and_a_named_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "layouts.jsonl").write_text(samples.RECORDS)
    (tmp_path / "topo.txt").write_text(samples.TOPO_NEW)
    code = main(["topology", "show", str(folder), f"*={tmp_path / 'topo.txt'}", "--rank", "1"])
    assert code == 0 and "NIC mlx5_0" in capsys.readouterr().out
    assert main(["topology", "check", str(folder), f"n0={tmp_path / 'topo.txt'}"]) == 0


def test_what_a_command_prints_is_read_as_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.write(writer, samples.OURS.encode())
    os.close(writer)
    assert main(["topology", "show", f"/dev/fd/{reader}"]) == 0
    os.close(reader)
    assert "8 ranks on 2 hosts" in capsys.readouterr().out


def test_a_name_too_long_for_a_file_is_one_sentence(ours: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", str(ours), "x" * 300]) == 1
    assert capsys.readouterr().err.endswith("cannot be read: File name too long\n")


def test_nothing_to_show_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show"]) == 2
    assert "name a run with --run R, or files" in capsys.readouterr().err
    (tmp_path / "t.conf").write_text(samples.TOPOLOGY_CONF)
    assert main(["topology", "show", str(tmp_path / "t.conf")]) == 2
    assert "nothing says which ranks there are" in capsys.readouterr().err


def arguments(*words: str) -> argparse.Namespace:
    return build_parser("topology", load("topology")).parse_args(list(words))


def test_a_run_comes_from_the_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str]] = []
    body = json.dumps(topology_to_json(build(records(megatron(16, tp=2)))))

    def fetch(url: str, key: str) -> bytes:
        asked.append((url, key))
        return body.encode()

    monkeypatch.setenv("ARGUS_KEY", "k")
    args = arguments("show", "--run", "a/b", "--attempt", "2", "--server", "http://127.0.0.1:1/")
    assert _show(args, fetch=fetch) == 0
    assert asked == [("http://127.0.0.1:1/v1/runs/a%2Fb/topology?attempt=2", "k")]
    assert "from live: ranks" in capsys.readouterr().out
    _show(arguments("show", "--run", "r", "--server", "h-0:8321"), fetch=fetch)
    assert asked[-1][0] == "http://h-0:8321/v1/runs/r/topology"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (404, "knows no run 'r'"),
        (401, "set ARGUS_KEY"),
        (503, "answered 503"),
        (ConnectionRefusedError(111, "refused"), "start it with: argus serve"),
        (http.client.BadStatusLine("SSH-2.0"), "does not answer like an argus service"),
        (b"<html>", "sent no topology"),
        (b'{"groups": 3}', "sent no topology"),
    ],
)
def test_a_service_that_does_not_answer_is_one_sentence(answer: object, told: str) -> None:
    def fetch(url: str, key: str) -> bytes:
        if isinstance(answer, int):
            raise urllib.error.HTTPError(url, answer, "no", Message(), io.BytesIO())
        if isinstance(answer, bytes):
            return answer
        assert isinstance(answer, OSError | http.client.HTTPException)
        raise answer

    with pytest.raises(CliError, match=told):
        _show(arguments("show", "--run", "r", "--server", "http://127.0.0.1:1"), fetch=fetch)
    with pytest.raises(CliError, match="must start with http"):
        _show(arguments("show", "--run", "r", "--server", "ftp://x"), fetch=fetch)


def test_long_tables_are_cut_with_the_number_left_out() -> None:
    text = table(("n",), [(str(i),) for i in range(50)], max_rows=10)
    assert text.splitlines()[-1] == "… and 40 more" and len(text.splitlines()) == 12
    assert "… and" in render(cached_fleet(Shape()), max_rows=3)


@pytest.mark.parametrize("form", [(), ("--dot",), ("--graphml",), ("--rank", "5")])
def test_no_name_writes_on_the_terminal(
    ours: Path, capsys: pytest.CaptureFixture[str], form: tuple[str, ...]
) -> None:
    assert main(["topology", "show", str(ours), "--json"]) == 0
    ours, whole = ours.with_suffix(".json"), capsys.readouterr().out
    ours.write_text(re.sub(r'"(kind|desc)": "', r'"\1": "\\u001b[2J', whole))
    assert main(["topology", "show", str(ours), *form]) == 0
    told = capsys.readouterr().out
    assert told and "\x1b" not in told
    ours.write_text(re.sub(r'"host": "', '"host": "\\\\u001b[2J', whole))
    assert main(["topology", "show", str(ours), *form]) == 2
    told = capsys.readouterr().err
    assert "layout.host must be printable text" in told and "\x1b" not in told
