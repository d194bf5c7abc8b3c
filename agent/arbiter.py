"""Triage and model side by side: what of the model's view becomes the answer. It decides no cause: `fuse` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from argus.agent.case import TRIAGE, Case
from argus.agent.diagnosis import Diagnosis, RootCause
from argus.agent.entities import Entities
from argus.agent.evidence import EvidenceBook
from argus.agent.grounding import Dropped, Grounded
from argus.agent.runbooks.catalogue import filled, objection
from argus.agent.triage import action_of, gain_of

STANCES = ("agrees", "refines", "overturns", "differs", "doubts", "ungrounded")
"""How a model's view stands to the triage's."""

ADOPTED = ("agrees", "refines", "overturns")
"""Stances whose claims become a part of the answer; those of others are shown beside it."""

UNDECIDED = "unknown"
"""The class of a cause whose kind the triage leaves open."""

MAX_ADVICE = 3

SEEN_BY_TRIAGE = (TRIAGE, "list_findings", "get_finding", "compute", "submit_diagnosis")
"""Pages that hold nothing the triage did not have."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The final diagnosis in JSON form, how the model's view stands to it, and one sentence on that.

    `reasons` are the kept claims of a view that is shown beside the answer; `advice` the actions it added to an answer.
    """

    diagnosis: dict[str, Any]
    stance: str
    note: str
    dropped: tuple[Dropped, ...]
    reasons: tuple[dict[str, Any], ...] = ()
    advice: tuple[dict[str, Any], ...] = ()


def has_news(case: Case, view: Grounded, *, book: EvidenceBook, entities: Entities) -> bool:
    """Whether a view differs from the triage and rests on evidence that the triage may not have had."""
    if stance_of(case, view, entities) != "differs":
        return False
    pages = [page for page in map(book.get, view.cited) if page is not None]
    return any(page.tool not in SEEN_BY_TRIAGE for page in pages)


def judge(
    case: Case, view: Grounded, *, entities: Entities, again: Mapping[str, Any] | None = None
) -> Judged:
    """The triage's diagnosis enriched, refined, overturned, or kept beside a view that differs.

    `again` is what `fuse` says when it is run again, asked for where the view `has_news`.
    """
    stance = stance_of(case, view, entities)
    decided: Mapping[str, Any] = case.diagnosis
    if stance == "differs" and again is not None and _bears_out(again, view, entities):
        stance, decided = "overturns", again
    advice, refused = _advice(case, view, decided, stance=stance, entities=entities)
    final = _merged(decided, view, stance=stance, entities=entities, advice=advice)
    return Judged(
        diagnosis=final,
        stance=stance,
        note=note_of(stance, view),
        dropped=(*view.dropped, *refused),
        reasons=tuple(claim.to_json() for claim in view.claims) if stance in ("differs", "doubts") else (),
        advice=tuple(advice) if stance in ADOPTED else (),
    )


def stance_of(case: Case, view: Grounded, entities: Entities) -> str:
    """How a grounded view stands to the triage."""
    if not view.is_sound:
        return "ungrounded"
    ours = [_place(root, entities) for root in case.diagnosis["root_causes"]]
    theirs = [_place(asdict(root), entities) for root in view.root_causes]
    if sorted(theirs) == sorted(ours):
        is_doubt = view.verdict in ("INCONCLUSIVE", "NO_FAULT") and case.diagnosis["verdict"] != view.verdict
        return "doubts" if is_doubt else "agrees"
    if not theirs:
        return "doubts"
    is_same_place = [place for place, _ in theirs] == [place for place, _ in ours]
    if is_same_place and [name for _, name in ours] == [UNDECIDED]:
        return "refines"
    return "differs"


def _place(root: Mapping[str, Any], entities: Entities) -> tuple[str, str]:
    """A root cause by the ranks at it and its class: rank 3 and the one GPU of rank 3 are one place."""
    kind = str(root["node"]).partition(":")[0]
    ranks = entities.ranks_of(str(root["node"]))
    is_path = kind in ("group", "link", "nic", "leaf", "rail", "spine")
    where = str(root["node"]) if is_path or not ranks else f"ranks {sorted(ranks)}"
    return where, str(root["fault_class"])


def _bears_out(again: Mapping[str, Any], view: Grounded, entities: Entities) -> bool:
    """Whether `fuse` by now ranks the view's own causes first, and is sure enough of them."""
    if again["verdict"] not in ("CONFIRMED", "LIKELY"):
        return False
    now = sorted(_place(root, entities) for root in again["root_causes"])
    return now == sorted(_place(asdict(root), entities) for root in view.root_causes)


def _advice(
    case: Case, view: Grounded, decided: Mapping[str, Any], *, stance: str, entities: Entities
) -> tuple[list[dict[str, Any]], list[Dropped]]:
    """The model's actions that the catalogue has and that fit the cause; the others with the objection."""
    roots = [
        RootCause(node=str(root["node"]), fault_class=str(root["fault_class"]))
        for root in decided["root_causes"]
    ]
    if stance == "refines":
        roots = list(view.root_causes)
    known = {(action["id"], action["target"]) for action in decided["remediation"]}
    gain = gain_of(case.incident) if case.incident else None
    taken: list[dict[str, Any]] = []
    refused = []
    for item in view.advice:
        remedy = case.remedies.get(item.action)
        why = objection(
            remedy,
            item.target,
            verdict=str(decided["verdict"]),
            roots=roots,
            suspected=case.in_question,
            entities=entities,
        )
        if why or remedy is None:
            refused.append(Dropped(what="action", text=f"{item.action} {item.target}", why=why))
        elif (remedy.id, item.target) not in known and len(taken) < MAX_ADVICE:
            action = action_of(remedy, target=item.target, gain=gain, claim_ids=item.claim_ids)
            action = replace(action, command=filled(action.command, _known(case, item.target)))
            taken.append({**asdict(action), "claim_ids": list(item.claim_ids)})
    return taken, refused


def _known(case: Case, target: str) -> dict[str, str]:
    """What commands of the catalogue leave open; the rank is the target, or else the first suspect."""
    kind, _, name = target.partition(":")
    cause = case.incident.cause if case.incident else None
    rank = name if kind == "rank" else str(cause.suspects[0]) if cause and cause.suspects else ""
    return {
        "RUN": case.facts.run,
        **({"RANK": rank} if rank else {}),
        **({"INCIDENT": case.incident.id} if case.incident else {}),
    }


def _merged(
    decided: Mapping[str, Any],
    view: Grounded,
    *,
    stance: str,
    entities: Entities,
    advice: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """The decided diagnosis with what the model adds to it; a view that differs adds only what it looked at."""
    final = dict(decided)
    if stance not in ADOPTED:
        return final
    added = Diagnosis(
        verdict=str(decided["verdict"]),
        confidence=float(decided["confidence"]),
        headline=str(decided["headline"]),
        root_causes=view.root_causes,
        path=view.path,
        ruled_out=view.ruled_out,
        claims=view.claims,
        missing_evidence=view.missing_evidence,
    ).to_json()
    own = {_place(root, entities) for root in (*decided["root_causes"], *added["root_causes"])}
    innocent = [item for item in added["ruled_out"] if _place(item, entities) not in own]
    final["claims"] = [*decided["claims"], *added["claims"]]
    final["path"] = _unique([*decided["path"], *added["path"]], "from", "to")
    final["ruled_out"] = _unique([*decided["ruled_out"], *innocent], "node", "fault_class")
    final["missing_evidence"] = list(
        dict.fromkeys([*decided["missing_evidence"], *added["missing_evidence"]])
    )
    final["remediation"] = [*decided["remediation"], *advice]
    if stance == "refines":
        final["root_causes"] = added["root_causes"]
    return final


def _unique(rows: Sequence[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Rows without a second of the same kind."""
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        first.setdefault(tuple(str(row[key]) for key in keys), row)
    return list(first.values())


def note_of(stance: str, view: Grounded) -> str:
    """One plain sentence on how the model's view stands to the answer."""
    roots = ", ".join(f"{root.fault_class} at {root.node}" for root in view.root_causes)
    return {
        "agrees": "The model looked at the evidence itself and agrees.",
        "refines": f"The model names the kind of cause that the triage left open: {roots}.",
        "overturns": f"New evidence changed the decision; the model saw it too: {roots}.",
        "differs": f"The model leans to {roots}; the analysis does not bear that out, so the triage stands.",
        "doubts": "The model finds the evidence not enough; the triage, which weighs more of it, stands.",
        "ungrounded": "The model's answer does not rest on evidence it cites, so the triage stands.",
    }[stance]
