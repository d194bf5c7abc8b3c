"""Probing an endpoint: what of the agent's needs it meets, and what to change where it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from argus.agent.model.client import Model
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, Message, ModelError, Reply
from argus.agent.model.reading import is_count

WANTED_CONTEXT = 16_384
"""Instructions, tools and first view take six thousand tokens, results and answer the rest."""

MAX_DIGITS = 12
"""Of a window in a text; no model has so large a one, and Python does not read any number of digits."""

PROBE_S = 60.0
"""A model that is loaded for the first time may take that long."""

_TOOL = {
    "type": "function",
    "function": {
        "name": "report_rank",
        "description": "Report one rank.",
        "parameters": {
            "type": "object",
            "properties": {"rank": {"type": "integer"}},
            "required": ["rank"],
            "additionalProperties": False,
        },
    },
}
_SCHEMA = {
    "type": "object",
    "properties": {"rank": {"type": "integer"}},
    "required": ["rank"],
    "additionalProperties": False,
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One probe. `fix` says what to change, "" where nothing must be; `is_needed` = the agent cannot do without."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    is_needed: bool = True

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


async def probe(endpoint: Endpoint) -> list[Check]:
    """Every check, in order; what cannot be reached ends it."""
    model = Model(endpoint)
    try:
        listed, checks = await _models(model)
        if not checks[-1].ok and checks[-1].is_needed:
            return checks
        checks.append(await _context(model, listed))
        checks += await _tools(model)
        if model.dialect.refused:
            found = f"does not take {', '.join(sorted(model.dialect.refused))}: left out from then on"
            checks.append(Check(name="parameters", ok=True, found=found, is_needed=False))
        return checks
    finally:
        await model.close()


async def _models(model: Model) -> tuple[list[Mapping[str, Any]], list[Check]]:
    """Whether it answers, and has the model."""
    endpoint = model.endpoint
    try:
        listed = await model.models()
    except ModelError as error:
        # Some gateways list nothing and answer all the same.
        needed = error.kind in ("unreachable", "auth", "timeout") or not endpoint.model
        return [], [Check(name="models", ok=False, found=str(error), fix=_fix_of(error), is_needed=needed)]
    names = [str(item.get("id")) for item in listed]
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "") or "none"
    if endpoint.model and endpoint.model not in names:
        fix = f"Set ARGUS_MODEL to one of: {shown}."
        return listed, [
            Check(
                name="models", ok=False, found=f"{endpoint.model!r} is not listed", fix=fix, is_needed=False
            )
        ]
    if not names:
        return listed, [
            Check(name="models", ok=False, found="none listed", fix="Load a model, or set ARGUS_MODEL.")
        ]
    return listed, [Check(name="models", ok=True, found=shown)]


async def _context(model: Model, listed: list[Mapping[str, Any]]) -> Check:
    """The context window, as far as the server tells."""
    told = await _told_context(model, listed)
    assumed = model.endpoint.window_tokens
    profile = model.endpoint.profile
    if not told:
        found = f"the server does not tell; {assumed} tokens are assumed"
        fix = "" if assumed >= WANTED_CONTEXT else f"{profile.advice} Then set ARGUS_MODEL_CONTEXT."
        return Check(name="context", ok=assumed >= WANTED_CONTEXT, found=found, fix=fix, is_needed=False)
    if told < WANTED_CONTEXT:
        fix = f"The window is {told}, {WANTED_CONTEXT} are needed. {profile.advice}"
        return Check(name="context", ok=False, found=f"{told} tokens", fix=fix)
    if told < assumed:
        fix = f"Set ARGUS_MODEL_CONTEXT={told}: {assumed} are assumed."
        return Check(name="context", ok=False, found=f"{told} tokens", fix=fix, is_needed=False)
    return Check(name="context", ok=True, found=f"{told} tokens")


async def _told_context(model: Model, listed: list[Mapping[str, Any]]) -> int:
    """vLLM and SGLang tell with the model, llama.cpp under /props, Ollama under /api/show; 0 = nobody does."""
    mine = next(
        (item for item in listed if item.get("id") == model.endpoint.model), listed[0] if listed else {}
    )
    if told := _believed(mine.get("max_model_len")):
        return told
    root = urlsplit(model.endpoint.url)
    base = urlunsplit((root.scheme, root.netloc, "", "", ""))
    if model.endpoint.profile.name == "ollama":
        shown = await model.server_says(f"{base}/api/show", body={"model": str(mine.get("id", ""))})
        return _num_ctx(str(shown.get("parameters", "")))
    props = await model.server_says(f"{base}/props")
    settings = props.get("default_generation_settings")
    return _believed(settings.get("n_ctx") if isinstance(settings, Mapping) else props.get("n_ctx"))


def _believed(size: object) -> int:
    """A window as a server tells it, 0 where none can be so large or small."""
    return size if is_count(size) else 0


def _num_ctx(parameters: str) -> int:
    words = parameters.split()
    at = words.index("num_ctx") if "num_ctx" in words else -1
    size = words[at + 1] if 0 <= at < len(words) - 1 else ""
    return _believed(int(size)) if size.isdecimal() and len(size) <= MAX_DIGITS else 0


async def _tools(model: Model) -> list[Check]:
    """A tool call, its answer taken back, two at once, one with a strict schema, a stream, a demanded form."""
    first, reply = await _one_call(model)
    if reply is None:
        return [first]
    checks = [first]
    if reply.calls:
        checks += [await _answered(model, reply), await _parallel(model), await _strict(model)]
    checks += [await _streamed(model), await _formed(model)]
    return checks


def _user(text: str) -> Message:
    return Message(role="user", content=text)


async def _one_call(model: Model) -> tuple[Check, Reply | None]:
    profile = model.endpoint.profile
    ask = Ask(messages=(_user("Call the tool report_rank with rank 3."),), tools=(_TOOL,), timeout_s=PROBE_S)
    try:
        reply = await model.ask(ask)
    except ModelError as error:
        return Check(name="tool call", ok=False, found=str(error), fix=_fix_of(error) or profile.advice), None
    good = [call for call in reply.calls if call.name == "report_rank" and not call.error]
    if not good:
        found = f"it answers in words: {reply.content[:60]!r}" if reply.content else "it answers nothing"
        return Check(name="tool call", ok=False, found=found, fix=profile.advice), reply
    right = good[0].arguments.get("rank") == 3
    found = "called with the right argument" if right else f"called with {dict(good[0].arguments)!r:.60}"
    return Check(name="tool call", ok=True, found=found), reply


async def _answered(model: Model, reply: Reply) -> Check:
    call = reply.calls[0]
    asked = Message(role="assistant", content=reply.content, calls=(call,), reasoning=reply.reasoning)
    result = Message(role="tool", call_id=call.id, content='{"status": "reported"}')
    messages = (_user("Call the tool report_rank with rank 3, then say done."), asked, result)
    try:
        after = await model.ask(Ask(messages=messages, tools=(_TOOL,), timeout_s=PROBE_S))
    except ModelError as error:
        fix = "Set ARGUS_MODEL_PROFILE=deepseek." if "reasoning" in str(error) else _fix_of(error)
        return Check(name="tool result", ok=False, found=str(error), fix=fix)
    said = "goes on after a result" if after.content or after.calls else "says nothing after a result"
    return Check(name="tool result", ok=bool(after.content or after.calls), found=said, is_needed=False)


async def _parallel(model: Model) -> Check:
    messages = (_user("Call the tool report_rank twice at once: with rank 3 and with rank 5."),)
    try:
        reply = await model.ask(Ask(messages=messages, tools=(_TOOL,), timeout_s=PROBE_S))
    except ModelError as error:
        return Check(name="parallel calls", ok=False, found=str(error), is_needed=False)
    number = len(reply.calls)
    return Check(name="parallel calls", ok=number > 1, found=f"{number} in one turn", is_needed=False)


async def _strict(model: Model) -> Check:
    """Whether arguments can be held to their schema, also where this kind of server is not asked to."""
    usual = model.dialect
    if "strict" not in usual.refused:
        model.dialect = replace(usual, profile=replace(usual.profile, strict=True))
    messages = (_user("Call the tool report_rank with rank 4."),)
    try:
        reply = await model.ask(Ask(messages=messages, tools=(_TOOL,), timeout_s=PROBE_S))
        is_refused = "strict" in model.dialect.refused
    except ModelError as error:
        return Check(name="strict", ok=False, found=str(error), is_needed=False)
    finally:
        model.dialect = usual
    if is_refused:
        return Check(name="strict", ok=False, found="not taken; tools are sent without", is_needed=False)
    given = [dict(call.arguments) for call in reply.calls]
    fits = bool(given) and all(set(one) == {"rank"} and isinstance(one["rank"], int) for one in given)
    found = "taken, arguments fit their schema" if fits else f"taken, but called with {given!r:.60}"
    return Check(name="strict", ok=fits, found=found, is_needed=False)


async def _streamed(model: Model) -> Check:
    pieces: list[str] = []
    ask = Ask(messages=(_user("Say: ready."),), timeout_s=PROBE_S)
    try:
        reply = await model.ask(ask, on_text=pieces.append)
    except ModelError as error:
        return Check(name="streaming", ok=False, found=str(error), is_needed=False)
    is_whole = not reply.num_retries
    found = f"{len(pieces)} pieces" if is_whole else "breaks off; answers are asked for whole"
    return Check(name="streaming", ok=is_whole, found=found, is_needed=False)


async def _formed(model: Model) -> Check:
    """A demanded form, which only a last answer without tools asks for."""
    if not model.endpoint.profile.response_format:
        return Check(name="answer format", ok=True, found="not asked of this kind of server", is_needed=False)
    ask = Ask(messages=(_user("Give rank 3 as JSON."),), schema=_SCHEMA, timeout_s=PROBE_S)
    try:
        reply = await model.ask(replace(ask, max_tokens=256))
    except ModelError as error:
        return Check(name="answer format", ok=False, found=str(error), is_needed=False)
    return Check(
        name="answer format", ok="{" in reply.content, found=f"{reply.content[:40]!r}", is_needed=False
    )


def _fix_of(error: ModelError) -> str:
    """What to do about a failure."""
    return {
        "auth": "Set ARGUS_MODEL_KEY to a key of this endpoint.",
        "unreachable": "Start the server, or correct ARGUS_MODEL_URL; most end in /v1.",
        "not_an_api": "Correct ARGUS_MODEL_URL: most end in /v1; look for a proxy in between.",
        "no_model": "Set ARGUS_MODEL to a model the endpoint has.",
        "rate_limit": "Wait, or raise the endpoint's limits.",
        "timeout": "Use a smaller model, or raise ARGUS_MODEL_DEADLINE_S.",
        "context": "Use a model with a larger context window.",
    }.get(error.kind, "")
