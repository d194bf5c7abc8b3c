"""Scoring an answer against the truth: the strict root cause, and that nothing in it is made up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from argus.agent.entities import Entities, without_ranks
from argus.agent.evidence import EvidenceBook
from argus.agent.grounding import PREFIX
from argus.agent.pointers import NotCited, number_at
from argus.evals.truth import Truth

PATH_KINDS = ("group", "link", "nic", "leaf", "spine", "rail")
"""Nodes that stand for a way between ranks: they are compared by name, others by the ranks at them."""

FIELD = re.compile(r"\{(\w+)\}")
NUMBER = re.compile(r"(?<![\w.:/-])\d+(?:\.\d+)?(?![\w/:-])")


@dataclass(frozen=True, kw_only=True)
class AnswerScore:
    """One answer. `component_strict` and `fault_class` as in the agent reference, section C.3.

    `made_up` = entities that neither graph nor evidence has; `unpointed` = numbers of a model that no pointer carries.
    """

    component_strict: bool
    fault_class: bool
    made_up: tuple[str, ...] = ()
    unpointed: tuple[str, ...] = ()

    @property
    def root_strict(self) -> bool:
        """The strict root cause: the right components, no other, of the right leaf class."""
        return self.component_strict and self.fault_class

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"root_strict": self.root_strict, **asdict(self)}


def score_answer(
    diagnosis: Mapping[str, Any], truth: Truth, *, entities: Entities, book: EvidenceBook
) -> AnswerScore:
    """Score a final diagnosis in JSON form."""
    roots = diagnosis["root_causes"]
    wanted = {component(truth.scope, entities)} if truth.fault_class else set()
    got = {component(str(root["node"]), entities) for root in roots}
    classes = {str(root["fault_class"]) for root in roots}
    return AnswerScore(
        component_strict=got == wanted,
        fault_class=classes == ({truth.fault_class} if truth.fault_class else set()),
        made_up=tuple(made_up(diagnosis, entities)),
        unpointed=tuple(unpointed(diagnosis, book)),
    )


def component(node: str, entities: Entities) -> str:
    """Canonical form: rank 3 and its only GPU are the same thing, and so is a host with no other rank."""
    ranks = entities.ranks_of(node)
    if node.partition(":")[0] in PATH_KINDS or not ranks:
        return node
    return f"ranks {sorted(ranks)}"


def ra_precision(diagnosis: Mapping[str, Any], truth: Truth, *, entities: Entities) -> float:
    """0 if a true root is missing, else the part of what was named that is one: a shotgun pays for its shots."""
    wanted = {component(truth.scope, entities)} if truth.fault_class else set()
    got = {component(str(root["node"]), entities) for root in diagnosis["root_causes"]}
    if not wanted <= got:
        return 0.0
    return len(wanted) / len(got) if got else 1.0 - bool(wanted)


def path_grounded(diagnosis: Mapping[str, Any], truth: Truth, *, entities: Entities) -> bool:
    """Whether the path named leads from the true root to somebody it made wait, each step between things that
    share a rank: a host and its rank, a rank and its group."""
    edges = [(str(edge["from"]), str(edge["to"])) for edge in diagnosis["path"]]
    if not all(entities.ranks_of(a) & entities.ranks_of(b) for a, b in edges):
        return False
    root = component(truth.scope, entities)
    is_path = truth.scope.partition(":")[0] in PATH_KINDS
    reached = {node for edge in edges for node in edge if component(node, entities) == root}
    for _ in edges:
        reached |= {b for a, b in edges if a in reached}
    ends = {rank for node in reached for rank in entities.ranks_of(node) if node.startswith("rank:")}
    return bool(ends & set(truth.ranks)) if is_path else bool(ends - set(truth.ranks))


def made_up(diagnosis: Mapping[str, Any], entities: Entities) -> Iterable[str]:
    """Names and nodes of an answer that nothing knows."""
    for node in _nodes(diagnosis):
        if not entities.is_node(node):
            yield node
    for text in _texts(diagnosis):
        yield from entities.unknown_in(FIELD.sub(" ", text))


def unpointed(diagnosis: Mapping[str, Any], book: EvidenceBook) -> Iterable[str]:
    """Numbers in a model's claims that are typed, and pointers of its claims that lead nowhere."""
    for claim in diagnosis["claims"]:
        if not str(claim["id"]).startswith(PREFIX):
            continue
        yield from NUMBER.findall(without_ranks(FIELD.sub(" ", str(claim["text"]))))
        if not claim["evidence"]:
            yield f"{claim['id']} cites nothing"
        for name, value in claim["values"].items():
            try:
                number_at(book, str(value["evidence"]), str(value["path"]))
            except NotCited as error:
                yield f"{claim['id']} {name}: {error}"


def _nodes(diagnosis: Mapping[str, Any]) -> Iterable[str]:
    for part in ("root_causes", "ruled_out"):
        yield from (str(item["node"]) for item in diagnosis[part])
    for edge in diagnosis["path"]:
        yield from (str(edge["from"]), str(edge["to"]))
    yield from (str(action["target"]) for action in diagnosis["remediation"])


def _texts(diagnosis: Mapping[str, Any]) -> Sequence[str]:
    """What a model may have written."""
    claims = [str(c["text"]) for c in diagnosis["claims"] if str(c["id"]).startswith(PREFIX)]
    why = [str(item["why"]) for item in diagnosis["ruled_out"]]
    return [*claims, *why, *map(str, diagnosis["missing_evidence"])]
