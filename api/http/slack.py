"""POST /v1/slack: buttons and messages of Slack over HTTP, signed by it, acknowledged at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request
from starlette.background import BackgroundTask
from starlette.responses import Response

from argus.api.desk import Desk
from argus.api.http.answers import Json, problem
from argus.api.http.desk import desk_at
from argus.api.http.guard import SIGNED, signed_project

FORM = "application/x-www-form-urlencoded"

Payload = dict[str, Any]


def router() -> APIRouter:
    """The route: the same URL for events and for interactivity."""
    routes = APIRouter(prefix="/v1", tags=["slack"])
    routes.add_api_route(
        "/slack",
        post_slack,
        methods=["POST"],
        operation_id="post_slack",
        dependencies=[SIGNED],
        response_class=Json,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    FORM: {"schema": {"type": "object"}},
                    "application/json": {"schema": {"type": "object"}},
                },
            }
        },
    )
    return routes


async def post_slack(request: Request) -> Response:
    """Takes what Slack signed with the app's secret; the work comes after the answer."""
    body = await request.body()
    desk = await _signed_desk(request, body)
    payload = _payload(body, request.headers.get("content-type", ""))
    if payload is None:
        return problem(400, "the body must be an event or an interaction of Slack")
    if payload.get("type") == "url_verification":
        return Json({"challenge": str(payload.get("challenge", ""))[:200]})
    hear = _hearer(desk, payload)
    return Json({}, background=None if hear is None else BackgroundTask(hear, payload))


async def _signed_desk(request: Request, body: bytes) -> Desk:
    """The default project's desk, if its secret signed the body. Raises HTTPException 401."""
    denied = HTTPException(401, "this needs the signature of Slack's signing secret")
    try:
        desk = desk_at(await signed_project(request))
    except HTTPException:
        raise denied from None
    stamp = request.headers.get("x-slack-request-timestamp", "")
    signature = request.headers.get("x-slack-signature", "")
    is_plain = stamp.isascii() and stamp.isdecimal() and len(stamp) < 13 and signature.isascii()
    if not desk.signing_secret or not is_plain:
        raise denied
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise denied from None
    from slack_sdk.signature import Clock, SignatureVerifier

    class ServiceClock(Clock):
        def now(self) -> float:
            return desk.service.clock()

    verifier = SignatureVerifier(desk.signing_secret, clock=ServiceClock())
    if not verifier.is_valid(body=text, timestamp=stamp, signature=signature):
        raise denied
    return desk


def _payload(body: bytes, kind: str) -> Payload | None:
    try:
        if kind.partition(";")[0].strip().lower() == FORM:
            raw = json.loads(parse_qs(body.decode())["payload"][0])
        else:
            raw = json.loads(body)
    except (ValueError, KeyError, RecursionError):
        return None
    return raw if isinstance(raw, dict) else None


def _hearer(desk: Desk, payload: Payload) -> Callable[[Payload], None] | None:
    heard_by = desk.switchboard
    by_type = {"block_actions": heard_by.hear_action, "event_callback": heard_by.hear_event}
    return by_type.get(str(payload.get("type")))
