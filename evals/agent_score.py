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

_FIELD = re.compile(r"\{(\w+)\}")
_NUMBER = re.compile(r"(?<![\w.:/-])\d+(?:\.\d+)?(?![\w/:-])")


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
    wanted = {_component(truth.scope, entities)} if truth.fault_class else set()
    got = {_component(str(root["node"]), entities) for root in roots}
    classes = {str(root["fault_class"]) for root in roots}
    return AnswerScore(
        component_strict=got == wanted,
        fault_class=classes == ({truth.fault_class} if truth.fault_class else set()),
        made_up=tuple(made_up(diagnosis, entities)),
        unpointed=tuple(unpointed(diagnosis, book)),
    )


def _component(node: str, entities: Entities) -> str:
    """Canonical form: rank 3 and its only GPU are the same thing, and so is a host with no other rank."""
    ranks = entities.ranks_of(node)
    if node.partition(":")[0] in PATH_KINDS or not ranks:
        return node
    return f"ranks {sorted(ranks)}"


def made_up(diagnosis: Mapping[str, Any], entities: Entities) -> Iterable[str]:
    """Names and nodes of an answer that nothing knows."""
    for node in _nodes(diagnosis):
        if not entities.is_node(node):
            yield node
    for text in _texts(diagnosis):
        yield from entities.unknown_in(_FIELD.sub(" ", text))


def unpointed(diagnosis: Mapping[str, Any], book: EvidenceBook) -> Iterable[str]:
    """Numbers in a model's claims that are typed, and pointers of its claims that lead nowhere."""
    for claim in diagnosis["claims"]:
        if not str(claim["id"]).startswith(PREFIX):
            continue
        yield from _NUMBER.findall(without_ranks(_FIELD.sub(" ", str(claim["text"]))))
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
