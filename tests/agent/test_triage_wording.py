"""The deterministic triage: every number a pointer that resolves, every class in words, a card of one screen."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from argus.agent.card import MAX_LINES, WIDTH, render
from argus.agent.claims import FORMS, documents_of, resolve
from argus.agent.claims import render as render_claim
from argus.agent.diagnosis import MAX_HEADLINE
from argus.agent.triage import describe, diagnose, no_incident
from argus.agent.wording import clip, counted, does, quantity, ranks, versus
from argus.analytics.classes import cause_classes
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause, Cost, Incident, RuledOut
from argus.collectors.records.layout import Layout
from argus.topology.layout import Topology, build

EVIDENCE = (
    Evidence(name="own_self_s", value=0.15, unit="s", baseline=0.08),
    Evidence(name="self_s", value=0.132, unit="s", baseline=0.061, note="forward, wall clock"),
    Evidence(name="cpu_s", value=0.034, unit="s", baseline=0.033, note="forward"),
    Evidence(name="gc_pause_s", value=0.0, unit="s", baseline=0.0),
    Evidence(name="caused_wait_s", value=0.071, unit="s", baseline=0.001),
    Evidence(name="last_share", value=0.96, unit="ratio"),
    Evidence(name="victims_wait_s", value=0.071, unit="s", note="in world/0"),
    Evidence(name="step_s", value=0.14, unit="s", baseline=0.068),
)
NOT_LINK = RuledOut(
    fault_class="link.slow",
    why="the suspect enters last",
    evidence=(Evidence(name="transfer_s", value=0.0041, unit="s", baseline=0.004, note="world/0"),),
)
NOT_GC = RuledOut(
    fault_class="host.gc",
    why="collection pauses account for 0% of the lost time",
    evidence=(Evidence(name="gc_share", value=0.0, unit="ratio"),),
)


def topology(ranks: int = 4) -> Topology:
    """Two hosts of equal size."""
    return build(
        Layout(run="r", attempt=0, rank=rank, world_size=ranks, host=f"h{2 * rank // ranks}")
        for rank in range(ranks)
    )


def incident(fault_class: str = "host.cpu_starved", **changes: object) -> Incident:
    """Rank 2 is slow in its forward."""
    cause = Cause(
        fault_class=fault_class,
        verdict="CONFIRMED",
        suspects=(2,),
        scope="rank:2",
        victims=(0, 1, 3),
        phase="forward",
        group="world/0",
        second_best="compute.slow",
        ruled_out=(NOT_LINK, NOT_GC),
        evidence=EVIDENCE,
        findings=("f-1",),
        share_of_step=0.51,
        s_per_step=0.071,
        onset_step=120,
    )
    cost = Cost(
        s_per_step=0.071, share_of_step=0.51, gpu_hours_so_far=0.2, gpu_hours_per_day=48.0, method="m"
    )
    return Incident(
        run="r",
        attempt=0,
        status="open",
        severity="critical",
        cause=replace(cause, **changes),  # type: ignore[arg-type]
        onset_step=120,
        end_step=None,
        opened_window=12,
        last_window=14,
        cost=cost,
    )


STEP = Evidence(name="step_s", value=3.3, unit="s", baseline=2.2)
SAVE = Evidence(name="save_s", value=6.6, unit="s", baseline=2.2)


def test_card_of_a_starved_rank() -> None:
    """What the user sees, to the letter."""
    one = incident()
    card = render(one, diagnose(one, findings=(), topology=topology()), topology=topology())
    assert card == GOLDEN


def test_what_every_window_showed_is_told_since_the_first_step_seen() -> None:
    one = incident(from_start_s=0.07)
    card = render(one, diagnose(one, findings=(), topology=topology()), topology=topology())
    assert "host h1 · since the first step seen, step 120" in card


GOLDEN = """\
 CONFIRMED                                   host.cpu_starved · critical · open
 rank 2 on h1 does not get the CPU: forward 132 ms vs peers 61 ms (2.2×)
 ──────────────────────────────────────────────────────────────────────────────
 Suspect   rank 2 · host h1 · since step 120
 Why       forward 132 ms vs peers 61 ms (2.2×) a step
           CPU time 34 ms vs peers 33 ms (1.0×): it was not running, not
           computing more
           last to enter 96 % of its collectives
 Victims   ranks 0, 1, 3 waited 71 ms a step for rank 2 in world/0
 Not       the network: transfers 4.1 ms against 4 ms (1.0×) a step; its own
           collective is the shortest
           host.gc: collection pauses account for 0% of the lost time
 Cost      71 ms of 140 ms a step (51 %) · 0.2 rank-hours so far · 48 rank-hours
           a day if it lasts
 Next      Look for a CPU limit, a competing process or a paused rank on the
           host.
           $ grep . /sys/fs/cgroup/cpu.stat /proc/pressure/cpu; pidstat -t -p $PID 1 5; ps -o pid,stat,psr,ni,comm -p $PID
 Then      Bind ranks to cores at exec, raise the CPU request, remove the limit.
 Else      compute.slow, if CPU time rises with wall time"""


def test_every_number_of_a_claim_is_a_pointer_that_resolves() -> None:
    diagnosis = diagnose(incident(), findings=(), topology=topology())
    documents = documents_of(diagnosis)
    assert len(diagnosis["claims"]) >= 8
    for claim in diagnosis["claims"]:
        assert not re.search(r"\d", re.sub(r"\{\w+\}|world/0", "", claim["text"])), claim
        assert set(re.findall(r"\{(\w+)\}", claim["text"])) == set(claim["values"])
        assert all(resolve(value, documents) is not None for value in claim["values"].values())
        assert "{" not in render_claim(claim, documents)
    spoken = [render_claim(claim, documents) for claim in diagnosis["claims"]]
    assert "Own work in forward, wall clock takes 132 ms a step, the peers' 61 ms." in spoken


def test_claim_ids_exist_and_ruled_out_causes_point_at_their_own_evidence() -> None:
    diagnosis = diagnose(incident(), findings=(), topology=topology())
    ids = {claim["id"] for claim in diagnosis["claims"]}
    parts = (
        *diagnosis["root_causes"],
        *diagnosis["path"],
        *diagnosis["ruled_out"],
        *diagnosis["remediation"],
    )
    assert all(set(part["claim_ids"]) <= ids for part in parts)
    link, gc = diagnosis["ruled_out"]
    texts = {claim["id"]: claim["text"] for claim in diagnosis["claims"]}
    assert [texts[i].split()[0] for i in link["claim_ids"]] == ["Transfers"]
    assert [texts[i].split()[0] for i in gc["claim_ids"]] == ["Collection"]
    assert link["node"] == "group:world/0" and gc["node"] == "rank:2"


def test_path_leads_from_suspect_over_group_to_victims() -> None:
    path = [
        (edge.origin, edge.target) for edge in describe(incident(), findings=(), topology=topology()).path
    ]
    assert path == [("rank:2", "group:world/0"), *(("group:world/0", f"rank:{r}") for r in (0, 1, 3))]


def test_a_host_is_named_with_its_ranks() -> None:
    one = incident(scope="host:h1", suspects=(2, 3), victims=(0, 1))
    diagnosis = describe(one, findings=(), topology=topology())
    assert diagnosis.headline.startswith("host h1 (ranks 2, 3) does not get the CPU")
    assert ("host:h1", "rank:3") in [(edge.origin, edge.target) for edge in diagnosis.path]


@pytest.mark.parametrize("fault_class", list(cause_classes()))
def test_several_suspects_are_told_in_the_plural(fault_class: str) -> None:
    many = describe(incident(fault_class, suspects=(2, 3), scope="job"), findings=(), topology=topology())
    verb = many.headline.removeprefix("ranks 2, 3 on h1 ").split()[0]
    assert not verb.endswith("s") and not re.search(r"\bits?\b", many.headline)
    assert does(fault_class) != does(fault_class, is_many=True)


def test_one_victim_waits() -> None:
    waited = (Evidence(name="victims_wait_s", value=0.071, unit="s"),)
    told = [
        describe(incident("unknown", evidence=waited, victims=who), findings=(), topology=topology()).headline
        for who in ((0,), (0, 1))
    ]
    assert told[0].endswith("rank 0 waits 71 ms a step") and told[1].endswith("ranks 0, 1 wait 71 ms a step")


def test_own_work_without_peers_is_compared_with_nobody() -> None:
    for names in (("own_self_s",), ("own_self_s", "self_s")):
        alone = tuple(replace(item, baseline=None) for item in EVIDENCE if item.name in names)
        one = incident("unknown", evidence=alone)
        card = render(one, diagnose(one, findings=(), topology=topology()), topology=topology())
        assert "own work 150 ms a step: no peer to compare with" in card and "vs peers" not in card


def test_json_form_is_plain_and_complete() -> None:
    diagnosis = diagnose(incident(), findings=(), topology=topology(), missing=("2 of 6 ranks",))
    assert json.loads(json.dumps(diagnosis)) == diagnosis
    assert diagnosis["schema"] == "triage.diagnosis/1"
    assert diagnosis["onset"] == {"step": 120, "time": None}
    assert diagnosis["impact"]["affected_ranks"] == 4
    assert diagnosis["impact"]["slowdown_ratio"] == pytest.approx(0.14 / 0.068)
    assert diagnosis["missing_evidence"] == ["2 of 6 ranks"]
    assert [action["target"] for action in diagnosis["remediation"]] == ["rank:2", "rank:2"]


@pytest.mark.parametrize("fault_class", list(cause_classes()))
def test_what_changes_something_is_advised_for_a_cause_alone(fault_class: str) -> None:
    sure, likely, unsure = (
        describe(incident(fault_class, verdict=verdict), findings=(), topology=topology()).remediation
        for verdict in ("CONFIRMED", "LIKELY", "INCONCLUSIVE")
    )
    assert [action.is_read_only for action in sure] == [True, False]
    assert unsure == sure[:1]
    takes_out = re.search(r"[Dd]rain|[Rr]eplace|[Ee]xclude", sure[1].action) is not None
    assert takes_out == (sure[1].risk == "high") and likely == (sure[:1] if takes_out else sure)


@pytest.mark.parametrize("fault_class", list(cause_classes()))
def test_every_class_has_words_and_a_card_of_one_screen(fault_class: str) -> None:
    one = incident(fault_class, victims=tuple(r for r in range(4000) if r % 3))
    diagnosis = diagnose(one, findings=(), topology=topology(4096), missing=["a thing nobody saw"] * 9)
    assert len(diagnosis["headline"]) <= MAX_HEADLINE and fault_class not in diagnosis["headline"]
    lines = render(one, diagnosis, topology=topology(4096)).splitlines()
    assert len(lines) <= MAX_LINES
    assert all(len(line) <= WIDTH for line in lines if "$" not in line)


@pytest.mark.parametrize(
    ("fault_class", "scope", "evidence", "said"),
    [
        ("host.gc", "rank:2", (), "rank 2 on h1 stops for garbage collection: 71 ms a step"),
        ("step.slower", "run:r", (STEP,), "run r takes longer for a step: 3.3 s after 2.2 s (1.5×)"),
        (
            "host.filesystem",
            "rank:2",
            (SAVE,),
            "rank 2 on h1 waits for a file system: saving 6.6 s vs peers 2.2 s (3.0×)",
        ),
        (
            "pipeline.imbalance",
            "stage:3",
            (),
            "stage 3 computes longer than the other stages: the model is cut unevenly, 71 ms a step",
        ),
    ],
    ids=["pauses", "whole-job", "save", "stage"],
)
def test_a_headline_says_by_how_much(
    fault_class: str, scope: str, evidence: tuple[Evidence, ...], said: str
) -> None:
    suspects = (2,) if scope == "rank:2" else ()
    one = incident(fault_class, scope=scope, suspects=suspects, victims=(), evidence=evidence, ruled_out=())
    assert diagnose(one, findings=(), topology=topology())["headline"] == said


def test_a_stop_says_who_is_behind() -> None:
    evidence = (
        Evidence(name="stalled_s", value=75.0, unit="s", baseline=60.0),
        Evidence(name="median_step_s", value=0.4, unit="s"),
        Evidence(name="entered", value=412, unit="calls", baseline=413, note="rank 2 in world/0"),
        Evidence(name="lost", value=2, note="exited, signal 9"),
    )
    one = incident("stop.lost", evidence=evidence, ruled_out=())
    card = render(one, diagnose(one, findings=(), topology=topology()), topology=topology())
    assert "no step ended for 75 s, a step usually takes 400 ms" in card
    assert "entered 412 calls, the furthest member 413 (rank 2 in world/0)" in card
    assert "rank 2 exited, signal 9" in card


def test_ranks_lost_alike_are_told_together() -> None:
    notes = dict.fromkeys((*range(14), 15), "lost, reason unknown") | {14: "exited, signal 9"}
    lost = tuple(Evidence(name="lost", value=rank, unit="rank", note=notes[rank]) for rank in sorted(notes))
    evidence = (*lost, Evidence(name="last_step", value=9.0, unit="step"))
    one = incident("stop.lost", suspects=tuple(range(16)), evidence=evidence, ruled_out=())
    diagnosis = diagnose(one, findings=(), topology=topology(16))
    spoken = [render_claim(claim, documents_of(diagnosis)) for claim in diagnosis["claims"]]
    assert spoken == [
        "Ranks 0–13, 15 are gone: lost, reason unknown.",
        "Rank 14 is gone: exited, signal 9.",
        "Its last step was 9.",
    ]
    assert diagnosis["root_causes"][0]["claim_ids"] == ["c1", "c2", "c3"]
    card = render(one, diagnosis, topology=topology(16))
    assert "ranks 0–13, 15 lost, reason unknown" in card and "rank 14 exited, signal 9" in card


@pytest.mark.parametrize("num_own", [0, 1])
def test_no_host_is_drained_for_an_error_of_the_program(num_own: int) -> None:
    own = (Evidence(name="own_errors", value=1.0, unit="ranks"),) * num_own
    note = "exited, code 1, raised ValueError in train.py:17" if num_own else "exited, signal 9"
    one = incident("stop.lost", evidence=(Evidence(name="lost", value=2, note=note), *own), ruled_out=())
    one = replace(one, cause=replace(one.cause, verdict="CONFIRMED"))
    actions = diagnose(one, findings=(), topology=topology())["remediation"]
    assert [action["id"] for action in actions] == (
        ["output.read", "stop.lost/look"] if num_own else ["stop.lost/look", "stop.lost/act"]
    )


def test_a_link_is_a_group_not_a_rank() -> None:
    evidence = (
        Evidence(name="transfer_s", value=0.05, unit="s", baseline=0.01, note="dp/3"),
        Evidence(name="own_ratio", value=1.0, unit="ratio"),
    )
    one = incident("link.slow", scope="group:dp/3", group="dp/3", evidence=evidence, phase=None, victims=())
    diagnosis = diagnose(one, findings=(), topology=topology())
    assert diagnosis["headline"] == "group dp/3 transfers slowly: 50 ms against 10 ms (5.0×)"
    assert diagnosis["root_causes"][0]["node"] == "group:dp/3"
    assert "the path of dp/3" in render(one, diagnosis, topology=topology())


def test_one_of_a_thing_is_said_in_the_singular() -> None:
    evidence = tuple(Evidence(name=name, value=1.0, baseline=1.0) for name in FORMS)
    diagnosis = diagnose(incident(evidence=evidence, ruled_out=()), findings=(), topology=topology())
    spoken = [render_claim(claim, documents_of(diagnosis)) for claim in diagnosis["claims"]]
    assert len(spoken) == len(FORMS) and "Named as slow: 1 kernel." in spoken
    assert not [text for text in spoken if re.search(r"\b1 (?:other )?[a-z]{3,}s\b", text)]
    many = quantity(3, "kernels"), quantity(0, "other runs"), counted(1, "hosts"), counted(2, "hosts")
    assert many == ("3 kernels", "0 other runs", "1 host", "2 hosts")


def test_untrusted_text_stays_text() -> None:
    evidence = (Evidence(name="transfer_s", value=0.05, unit="s", note="{v.__class__} {x}"),)
    diagnosis = diagnose(incident(evidence=evidence, ruled_out=()), findings=(), topology=topology())
    (claim,) = diagnosis["claims"]
    assert render_claim(claim, documents_of(diagnosis)) == "Transfers of (v.__class__) (x) take 50 ms a step."


def test_pointers_that_lead_nowhere_are_none() -> None:
    for path in ("/evidence/99/value", "/evidence/x/value", "/nothing", "/evidence/0/name", ""):
        documents = {"cause": {"evidence": [{"name": "self_s", "value": 1.0}]}}
        assert resolve({"evidence": "cause", "path": path}, documents) is None
    assert resolve({"evidence": "f-0", "path": "/ratio"}, {}) is None


def test_no_fault_and_not_enough_evidence_are_answers() -> None:
    clean = no_incident(num_ranks=8)
    assert clean["verdict"] == "NO_FAULT" and not clean["root_causes"]
    assert render(None, clean).splitlines()[0] == " NO_FAULT"
    blind = no_incident(num_ranks=2, doubt="only 2 of 128 ranks were read", missing=("126 of 128 ranks",))
    assert blind["verdict"] == "INCONCLUSIVE"
    assert "126 of 128 ranks" in render(None, blind)


def test_color_only_where_asked() -> None:
    one = incident()
    diagnosis = diagnose(one, findings=(), topology=topology())
    assert "\x1b[1;31mCONFIRMED\x1b[0m" in render(one, diagnosis, color=True)
    assert "\x1b" not in render(one, diagnosis)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "s", "0 µs"),
        (7.4e-6, "s", "7.4 µs"),
        (1.234, "s", "1.2 s"),
        (300.0, "s", "5 min"),
        (14400.0, "s", "4 h"),
        (float("nan"), "s", "unknown"),
        (12.0, "x", "12×"),
        (1.0, "x", "1.0×"),
        (12345.0, "calls", "12,345 calls"),
    ],
)
def test_quantities(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_words() -> None:
    assert ranks(range(100)) == "ranks 0–99"
    assert ranks(range(0, 100, 2)).endswith("14, …")
    assert ranks([]) == "no rank"
    assert versus(1.0, 0.0) == "1 s vs peers 0 µs"
    assert clip("one two three", 9) == "one two…"


def test_nothing_is_a_multiple_of_a_rounding_error() -> None:
    assert "×" not in versus(0.06, 2e-17) and versus(0.06, 0.03).endswith("(2.0×)")
