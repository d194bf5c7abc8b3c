"""What is believed of a submission, and what of an answer in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argus.agent.entities import Entities, entities_of, ranks_in
from argus.agent.evidence import MemoryBook, ToolResult
from argus.agent.grounding import Grounded, ground
from argus.agent.grounding_text import UNKNOWN, UNVERIFIED, check_text
from argus.agent.pointers import NotCited, number_at
from argus.agent.submission import read_submission

PAGE = ToolResult(
    tool="compare_phase",
    args={},
    status="ok",
    data={
        "ranks": [{"rank": 3, "self_s": 0.13217, "ratio": 2.163, "share_of_step": 0.142}],
        "window": 7,
        "kernel": "flash_fwd_bf16_128",
        "flag": True,
        "text": "12",
        "measured": {"value": 5.0, "unit": "s"},
    },
)
EMPTY = ToolResult(tool="stacks", args={"rank": 3}, status="no_data", data={"n": 1}, note="none of host h-77")
EV = PAGE.evidence_id


def book() -> MemoryBook:
    kept = MemoryBook()
    for page in (PAGE, EMPTY):
        kept.add(page)
    return kept


def entities() -> Entities:
    return entities_of(fleet=None, world_size=8, pages=(PAGE, EMPTY))


def claim(
    text: str, *, path: str = "/ranks/0/self_s", evidence: str = EV, cites: tuple[str, ...] = ()
) -> dict[str, Any]:
    values = [{"name": "v", "evidence": evidence, "path": path, "unit": "s"}] if "{v}" in text else []
    return {"id": "c1", "text": text, "values": values, "evidence": list(cites), "status": "supported"}


def grounded(*claims: dict[str, Any], **body: Any) -> Grounded:
    raw = {"verdict": "LIKELY", "confidence": 0.9, "claims": list(claims), **body}
    return ground(read_submission(raw), book=book(), entities=entities())


def why(one: dict[str, Any]) -> str:
    """Why a claim is dropped, "" if it is kept."""
    view = grounded(one)
    assert len(view.claims) + len(view.dropped) == 1
    return view.dropped[0].why if view.dropped else ""


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (claim("Rank 3 computes for {v}."), ""),
        (claim("Rank 3 is slow.", evidence=""), "cites nothing"),
        (claim("Rank 3 is slow.", cites=(EV,)), ""),
        (claim("Rank 3 computes for 132 ms.", cites=(EV,)), "types a number"),
        (claim("Rank 3 is twice as slow, by {v} or 2.2x."), "types a number"),
        (claim("Rank 3 computes for {v} in window 7."), ""),
        (claim("Rank 3 computes for {v} in window 8."), "types a number"),
        (claim("Rank 4 computes for {v}."), "does not speak of rank 4"),
        (claim("Rank 8 computes for {v}."), "unknown: rank 8"),
        (claim("Kernel flash_fwd_bf16_128 takes {v}."), ""),
        (claim("Kernel flash_bwd_bf16_128 takes {v}."), "unknown: flash_bwd_bf16_128"),
        (claim("It is `made up` and takes {v}."), "unknown: made up"),
        (claim("Host h-77 takes {v}."), "unknown: h-77"),
        (claim("It takes {v}.", evidence="ev-0000000000000000"), "no evidence"),
        (claim("It takes {v}.", path="/ranks/9/self_s"), "nothing at"),
        (claim("It takes {v}.", path="/flag"), "no number"),
        (claim("It takes {v}.", path="/text"), "no number"),
        (claim("It takes {v}.", path="ranks/0"), "begins with"),
        (claim("It takes {v}.", path="/n", evidence=EMPTY.evidence_id), "no data"),
        (claim("It takes {w}.", cites=(EV,)), "no value is given for w"),
        (claim("See https://x.example {v}."), "link"),
        (claim("<!channel> {v}."), "link or a mention"),
        (claim("", cites=(EV,)), "says nothing"),
        (claim("In bf16 with NCCL at p99 of H100 and L3 it takes {v}."), ""),
    ],
)
def test_a_claim_is_kept_or_dropped_for_a_reason(one: dict[str, Any], reason: str) -> None:
    got = why(one)
    assert (reason in got) if reason else got == ""


def test_the_unit_is_that_of_the_evidence_not_of_the_model() -> None:
    one = claim("It is {v}.", path="/ranks/0/ratio")
    kept = grounded(one).claims[0]
    assert kept.values["v"].unit == "x"
    assert number_at(book(), EV, "/measured/value") == (5.0, "s")
    assert number_at(book(), EV, "/ranks/0/share_of_step")[1] == "share"
    with pytest.raises(NotCited):
        number_at(book(), EV, "")


def test_a_root_cause_without_a_kept_claim_caps_the_verdict() -> None:
    root = {"node": "rank:3", "fault_class": "compute.slow", "claim_ids": ["c1"]}
    good = grounded(claim("Rank 3 computes for {v}."), root_causes=[root])
    assert good.is_sound and good.verdict == "LIKELY" and good.root_causes[0].claim_ids == ("mc1",)
    bad = grounded(claim("Rank 3 computes for 99 s."), root_causes=[root])
    assert not bad.is_sound and bad.verdict == "INCONCLUSIVE"


def test_places_classes_and_reasons_are_checked() -> None:
    view = grounded(
        claim("Rank 3 computes for {v}."),
        root_causes=[{"node": "rank:99", "fault_class": "compute.slow", "claim_ids": ["c1"]}],
        ruled_out=[
            {"node": "rank:3", "fault_class": "link.slow", "why": "it enters last", "claim_ids": ["c1"]},
            {"node": "rank:3", "fault_class": "host.gc", "why": "only 3 ms", "claim_ids": ["c1"]},
            {"node": "rank:3", "fault_class": "host.cpu_starved", "why": "no", "claim_ids": []},
            {"node": "rank:3", "fault_class": "aliens", "why": "no", "claim_ids": ["c1"]},
        ],
        path=[{"origin": "rank:3", "target": "rank:4", "claim_ids": []}, {"from": "rank:3", "to": "host:no"}],
        missing_evidence=["stacks of rank 3", "stacks of rank 400"],
    )
    assert not view.root_causes and not view.is_sound
    assert [item.fault_class for item in view.ruled_out] == ["link.slow"]
    assert len(view.path) == 1 and view.missing_evidence == ("stacks of rank 3",)
    assert len(view.dropped) == 6


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    "verdict",
    "confidence",
    "claims",
    "root_causes",
    "ruled_out",
    "path",
    "remediation",
    "missing_evidence",
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_submission_is_read_without_raising(raw: dict[str, Any]) -> None:
    view = ground(read_submission(raw), book=book(), entities=entities())
    assert all(one.evidence for one in view.claims)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"It takes {{{EV}:/ranks/0/self_s}}.", "It takes 132 ms."),
        (f"It takes 132 ms [{EV}].", f"It takes 132 ms [{EV}]."),
        (f"It takes 133 ms [{EV}].", f"It takes 133 ms {UNVERIFIED} [{EV}]."),
        ("It takes 132 ms.", f"It takes 132 ms {UNVERIFIED}."),
        (f"It takes 14.2 % and 2.2x [{EV}].", f"It takes 14.2 % and 2.2x [{EV}]."),
        (f"It takes {{{EV}:/nowhere}}.", f"It takes unknown {UNVERIFIED}."),
        (f"Window 7 of rank 3 and host 4 [{EV}].", f"Window 7 of rank 3 and host 4 [{EV}]."),
        (f"From step 17 to 99,999 [{EV}].", f"From step 17 to 99,999 {UNVERIFIED} [{EV}]."),
        (f"Windows 3 and 7 [{EV}].", f"Windows 3 and 7 [{EV}]."),
        ("On that GPU 512 ms.", f"On that GPU 512 ms {UNVERIFIED}."),
        ("On rank 3 steps 4000 ms.", f"On rank 3 steps 4000 ms {UNVERIFIED}."),
        ("At tp 400 ms, ranks 3 and 500 ms.", f"At tp 400 ms {UNVERIFIED}, ranks 3 and 500 ms {UNVERIFIED}."),
        ("Of tp 4 x pp 2, layers 3-5, ranks 1, 2 and 4.", "Of tp 4 x pp 2, layers 3-5, ranks 1, 2 and 4."),
        ("See ev-0000000000.", f"See ev-0000000000 {UNKNOWN}."),
        ("See f-deadbeefdeadbeef.", f"See f-deadbeefdeadbeef {UNKNOWN}."),
        ("See i-feedfacefeedface.", f"See i-feedfacefeedface {UNKNOWN}."),
        ("Rank 12 is slow.", f"Rank 12 {UNKNOWN} is slow."),
        ("Ask h-0099 about it.", f"Ask h-0099 {UNKNOWN} about it."),
        ("1. first\n2. second", "1. first\n2. second"),
        ("See https://evil.example/x now @here.", "See (link removed) now (link removed)."),
        (
            f"One sentence cites [{EV}]. Another says 132 ms.",
            f"One sentence cites [{EV}]. Another says 132 ms {UNVERIFIED}.",
        ),
        ("In bf16 the flash_fwd_bf16_128 kernel.", "In bf16 the flash_fwd_bf16_128 kernel."),
    ],
)
def test_words_are_rendered_verified_or_marked(text: str, shown: str) -> None:
    checked = check_text(text, book=book(), entities=entities())
    assert checked.text.lower() == shown.lower()
    assert checked.is_clean == (UNVERIFIED not in shown and UNKNOWN not in shown)


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_checked_without_raising(text: str) -> None:
    checked = check_text(text, book=book(), entities=entities())
    assert checked.num_pointed == 0


def test_ranks_are_read_as_people_write_them() -> None:
    assert ranks_in("rank:3, rank #5 and ranks 7-9") == [3, 5, 7, 8, 9]
    assert ranks_in("ranks 0–99999") == [0, 99999]


MEASURED = ToolResult(
    tool="history",
    args={},
    status="ok",
    data={
        "a_s": 0.04,
        "b_s": 0.12,
        "n": 8,
        "gain_s": -0.25,
        "kernels": 1200,
        "rate": 1e-5,
        "day": "2026-11-28",
    },
)


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        ("40-120 ms", True),
        ("40–120 ms", True),
        ("8-5000 ms", False),
        ("0.04s-99s", False),
        ("40 ms/step", True),
        ("41 ms/step", False),
        ("40 milliseconds", True),
        ("8 milliseconds", False),
        ("a 40-millisecond wait", True),
        ("0.04 seconds", True),
        ("40-120 milliseconds", True),
        ("4 percent", True),
        ("5 per cent", False),
        ("8/1200 of them", True),
        ("99/100 of them", False),
        ("0.04 s/step", True),
        ("99GB/s", False),
        ("99 GB/s", False),
        ("1.2k", True),
        ("9.9k", False),
        (".04 s", True),
        (".09 s", False),
        ("-250 ms", True),
        ("\u2212250 ms", True),
        ("\u221240 ms", False),
        ("40 \u03bcs", False),
        ("1e-5", True),
        ("3e-5", False),
        ("1e999", False),
        ("99d", False),
        ("2026-11-28", True),
        ("2026-11-29", False),
        ("12.345.678", False),
    ],
)
def test_a_typed_measure_is_checked_however_it_is_written(said: str, is_so: bool) -> None:
    kept = MemoryBook()
    kept.add(MEASURED)
    known = entities_of(fleet=None, world_size=8, pages=(MEASURED,))
    checked = check_text(f"It is {said} then [{MEASURED.evidence_id}].", book=kept, entities=known)
    assert checked.is_clean == is_so and bool(checked.num_verified) == is_so, checked.text
    assert checked.num_unverified + len(checked.unknown) == (not is_so)


def test_claims_of_one_id_are_all_kept_under_ids_of_their_own() -> None:
    texts = ("It takes {v}.", "Its share is {v}.", "Its ratio is {v}.")
    view = grounded(*(claim(text) for text in texts), root_causes=[])
    assert [one.text for one in view.claims] == list(texts)
    assert len({one.id for one in view.claims}) == 3 and view.claims[0].id == "mc1"
