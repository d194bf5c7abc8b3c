"""Scripted models: from one that confirms the triage to several that go wrong in the ways real ones do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from argus.agent.model.message import Ask, Reply, ToolCall
from argus.agent.stub_llm.seen import Page, blank_call, calling, num_turns, pages, saying, triage_of

Script = Callable[[Ask], Reply]

SUBMIT = "submit_diagnosis"


def confirm(ask: Ask) -> Reply:
    """Look at the findings, open the first, then confirm the triage with pointers to its numbers."""
    triage = triage_of(ask)
    if triage is None:
        return _first_finding(ask) or _obliging(ask)
    if SUBMIT not in ask.tool_names and ask.tools:
        return _chat(ask, triage)
    if num_turns(ask) == 0 and (call := blank_call(ask, "list_findings")):
        return calling(call)
    finding = next(iter(triage.data.get("findings", ())), None) if triage else None
    if num_turns(ask) == 1 and finding and (call := blank_call(ask, "get_finding", finding=finding)):
        return calling(call)
    return submit(ask, **submission(triage))


def constant(ask: Ask) -> Reply:
    """Always rank 0, always compute, citing nothing."""
    root = {"node": "rank:0", "fault_class": "compute.slow", "claim_ids": []}
    return submit(ask, verdict="CONFIRMED", confidence=1.0, root_causes=[root])


def hallucinating(ask: Ask) -> Reply:
    """Hosts, ranks, kernels, numbers and evidence that do not exist."""
    claims = [
        claim("c1", "Rank 77777 on host dgx-9999 is slow.", evidence=["ev-00000000deadbeef"]),
        claim("c2", "Kernel flash_fwd_imaginary takes 4711 ms.", evidence=_ids(ask)),
        claim("c3", "It loses {v}.", values=[pointer("v", _first_id(ask), "/made/up/path")]),
    ]
    root = {"node": "nic:dgx-9999/mlx5_7", "fault_class": "link.cosmic_rays", "claim_ids": ["c1", "c2", "c3"]}
    return submit(ask, verdict="CONFIRMED", confidence=0.99, root_causes=[root], claims=claims)


def plausible(ask: Ask) -> Reply:
    """A wrong cause with valid citations: the loudest victim instead of the culprit."""
    triage = triage_of(ask)
    if num_turns(ask) == 0 and (call := blank_call(ask, "list_findings")):
        return calling(call)
    data: Mapping[str, Any] = triage.data if triage else {}
    victims = [rank for rank in data.get("victims", ()) if rank not in data.get("suspects", ())]
    wrong = f"rank:{victims[0]}" if victims else "rank:1" if data.get("scope") == "rank:0" else "rank:0"
    claims = _cited(ask, f"{wrong.replace(':', ' ')} stands out")
    name = "link.slow" if data.get("class") != "link.slow" else "compute.slow"
    root = {"node": wrong, "fault_class": name, "claim_ids": [item["id"] for item in claims]}
    return submit(ask, verdict="CONFIRMED", confidence=0.97, root_causes=[root], claims=claims)


def looping(ask: Ask) -> Reply:
    """Two calls in turn, for ever; as last words nothing of use."""
    if not ask.tools:
        return saying("Let me look at the findings once more.")
    names = ("list_findings", "topology_query" if "topology_query" in ask.tool_names else "compute")
    return calling(blank_call(ask, names[num_turns(ask) % 2]), content="Let me look once more.")


def ungrounded(ask: Ask) -> Reply:
    """The triage's own cause, but with numbers typed and nothing cited."""
    triage = triage_of(ask)
    body = submission(triage)
    for item in body["claims"]:
        item |= {"text": "It takes 132 ms against 61 ms.", "values": [], "evidence": []}
    return submit(ask, **body)


def malformed(ask: Ask) -> Reply:
    """Fields of wrong types everywhere."""
    body = {"verdict": 7, "confidence": "high", "headline": None, "root_causes": "rank 3", "claims": {"a": 1}}
    call = blank_call(ask, SUBMIT, **body)
    return calling(call) if call else saying(json.dumps(body))


def inconclusive(ask: Ask) -> Reply:
    """Never sure of anything."""
    return submit(ask, verdict="INCONCLUSIVE", confidence=0.1, missing_evidence=["more evidence"])


def prose(ask: Ask) -> Reply:
    """Words instead of a submission, whatever it is told."""
    return saying("I believe that the network is slow; please check all switches.")


def silent(ask: Ask) -> Reply:
    """Nothing at all."""
    return saying("")


SCRIPTS: Mapping[str, Script] = {
    script.__name__: script
    for script in (
        *(confirm, constant, hallucinating, plausible, looping, ungrounded, malformed),
        *(inconclusive, prose, silent),
    )
}
"""Scripts by name; those that need the truth or planted text are with the evaluation."""


def submit(ask: Ask, **body: Any) -> Reply:
    """End with a submission; where no tool may be called any more, as JSON in words."""
    whole = {
        "verdict": "INCONCLUSIVE",
        "confidence": 0.5,
        "headline": "",
        "onset_step": None,
        **{
            key: []
            for key in ("root_causes", "path", "ruled_out", "claims", "remediation", "missing_evidence")
        },
        **body,
    }
    call = blank_call(ask, SUBMIT, **whole)
    return calling(call) if call else saying(json.dumps(whole))


def submission(triage: Page | None, *, root: tuple[str, str] | None = None) -> dict[str, Any]:
    """The triage's numbers as claims that support a root cause, its own by default."""
    data: Mapping[str, Any] = triage.data if triage else {}
    node, name = root or (data.get("scope"), data.get("class"))
    rows = [(at, item) for at, item in enumerate(data.get("evidence", ())) if item.get("value") is not None]
    claims = [
        claim(
            f"c{at}",
            f"The measure `{item['name']}` is {{v}}.",
            values=[pointer("v", triage.id, f"/evidence/{at}/value")],
        )
        for at, item in rows[:4]
        if triage
    ]
    ids = [item["id"] for item in claims]
    roots = [{"node": node, "fault_class": name, "claim_ids": ids}] if node and name else []
    verdict = data.get("verdict", "INCONCLUSIVE")
    return {
        "verdict": verdict if roots or verdict in ("NO_FAULT", "INCONCLUSIVE") else "INCONCLUSIVE",
        "confidence": 0.8,
        "root_causes": roots,
        "claims": claims,
        "missing_evidence": ["a second window"] if verdict == "INCONCLUSIVE" else [],
    }


def claim(
    claim_id: str, text: str, *, values: Sequence[Mapping[str, str]] = (), evidence: Sequence[str] = ()
) -> dict[str, Any]:
    """One claim of a submission."""
    return {
        "id": claim_id,
        "text": text,
        "values": list(values),
        "evidence": list(evidence),
        "status": "supported",
    }


def pointer(name: str, evidence: str, path: str) -> dict[str, str]:
    """One value of a claim."""
    return {"name": name, "evidence": evidence, "path": path, "unit": ""}


def _cited(ask: Ask, what: str) -> list[dict[str, Any]]:
    """A claim on whatever number comes first in the pages seen."""
    for page in pages(ask):
        for at, item in enumerate(page.data.get("findings", ())):
            if isinstance(item, dict) and isinstance(item.get("ratio"), int | float):
                value = pointer("v", page.id, f"/findings/{at}/ratio")
                return [claim("c1", f"{what[:1].upper()}{what[1:]} by {{v}}.", values=[value])]
    triage = triage_of(ask)
    if triage and triage.data.get("evidence"):
        value = pointer("v", triage.id, "/evidence/0/value")
        return [claim("c1", f"{what[:1].upper()}{what[1:]} by {{v}}.", values=[value])]
    return []


def _first_finding(ask: Ask) -> Reply | None:
    """Where only findings are shown: the first that names a culprit is the cause."""
    for page in pages(ask):
        for at, item in enumerate(page.data.get("findings", ())):
            if item.get("role") == "culprit" and item.get("ranks"):
                value = pointer("v", page.id, f"/findings/{at}/ratio")
                claims = [claim("c1", "It takes {v} of what it should.", values=[value])]
                root = {
                    "node": f"rank:{item['ranks'][0]}",
                    "fault_class": "compute.slow",
                    "claim_ids": ["c1"],
                }
                return submit(ask, verdict="LIKELY", confidence=0.7, root_causes=[root], claims=claims)
    return None


def _obliging(ask: Ask) -> Reply:
    """Outside of a case: the first tool called once for each number asked for, then words."""
    last = ask.messages[-1]
    wanted = [int(word) for word in re.findall(r"\b\d{1,4}\b", last.content)]
    if ask.schema is not None:
        return saying(json.dumps(dict.fromkeys(ask.schema.get("properties", {}), wanted[0] if wanted else 0)))
    if last.role != "user" or not ask.tools or not wanted:
        return saying("Done.")
    name = str(ask.tools[0]["function"]["name"])
    argument = next(iter(ask.tools[0]["function"]["parameters"]["properties"]), "value")
    return calling(*(ToolCall(id="", name=name, arguments={argument: number}) for number in wanted))


def _chat(ask: Ask, triage: Page) -> Reply:
    if num_turns(ask) == 0 and (call := blank_call(ask, "list_findings")):
        return calling(call)
    if not triage.data.get("evidence"):
        return saying("The triage found nothing that stands out.")
    item = triage.data["evidence"][0]
    return saying(
        f"The triage says {triage.data['verdict']}: {triage.data.get('class', 'no fault')} at "
        f"{triage.data.get('scope', 'no place')}. The measure `{item['name']}` is "
        f"{{{triage.id}:/evidence/0/value}} [{triage.id}]."
    )


def _ids(ask: Ask) -> list[str]:
    return [page.id for page in pages(ask)][:1]


def _first_id(ask: Ask) -> str:
    return next(iter(_ids(ask)), "ev-0000000000000000")
