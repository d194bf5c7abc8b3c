"""The one place that talks to a model: Chat Completions of any OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import openai

from argus.agent.model import failures
from argus.agent.model.bounded import bound
from argus.agent.model.endpoint import NO_KEY, Endpoint
from argus.agent.model.foreign import safe, safe_reply
from argus.agent.model.message import Ask, ModelError, Reply
from argus.agent.model.reading import read_completion
from argus.agent.model.stream import Accumulator
from argus.agent.model.wire import Dialect, refusable, request_of

MAX_RETRIES = 1
"""A failing server is asked once more; the run's deadline holds over both."""

RETRY_AFTER_S = 0.5
LONGEST_WAIT_S = 5.0
"""A server that wants us to wait longer is not waited for: the deterministic answer stands already."""

TRANSIENT = ("server", "rate_limit", "unreachable", "malformed")


class Model:
    """Asks one endpoint; remembers which optional parameters it refuses."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.dialect = Dialect(profile=endpoint.profile)
        self._name = endpoint.model
        self._client = openai.AsyncOpenAI(
            base_url=endpoint.url,
            api_key=endpoint.key or NO_KEY,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [bound]}),
        )

    @property
    def name(self) -> str:
        """The model's name, "" before the first request if none was set."""
        return self._name

    async def close(self) -> None:
        """Give back the connections."""
        await self._client.close()

    async def models(self) -> list[Mapping[str, Any]]:
        """What the endpoint lists. Raises ModelError."""
        try:
            # Not `models.list`: that expects a page, and breaks on any other JSON.
            page = safe(await self._client.get("/models", cast_to=object), key=self.endpoint.key)
        except openai.APIError as error:
            raise self._failure(error, timeout_s=0.0) from None
        except (ValueError, RecursionError):
            page = None
        listed = page.get("data") if isinstance(page, Mapping) else None
        if not isinstance(listed, list):
            raise ModelError("not_an_api", "the endpoint does not list its models as an OpenAI API does")
        return [item for item in listed if isinstance(item, Mapping)]

    async def server_says(self, url: str, *, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """What a server tells at a URL of its own beside the API; empty if it tells nothing there."""
        try:
            if body is None:
                answer = await self._client.get(url, cast_to=object)
            else:
                answer = await self._client.post(url, cast_to=object, body=dict(body))
        except (openai.APIError, ValueError, RecursionError):
            return {}
        return answer if isinstance(answer, Mapping) else {}

    async def ask(self, ask: Ask, *, on_text: Callable[[str], None] | None = None) -> Reply:
        """The model's reply within `ask.timeout_s`, retries included. Raises ModelError.

        With `on_text` an answer in words is streamed into it; a broken stream is asked for again, whole.
        """
        try:
            async with asyncio.timeout(ask.timeout_s):
                return await self._ask(ask, on_text=on_text)
        except TimeoutError:
            raise failures.timed_out(ask.timeout_s) from None

    async def _ask(self, ask: Ask, *, on_text: Callable[[str], None] | None) -> Reply:
        if not self._name:
            self._name = await self._first_model()
        is_streamed = on_text is not None and (not ask.tools or self.dialect.profile.stream_tools)
        num_retries = 0
        while True:
            try:
                reply = await self._ask_once(ask, on_text=on_text if is_streamed else None)
            except _Refused as refused:
                self.dialect = self.dialect.without(refused.name)
                continue
            except _Retryable as failed:
                if num_retries >= MAX_RETRIES or failed.wait_s > LONGEST_WAIT_S:
                    raise failed.error from None
                num_retries, is_streamed = num_retries + 1, False
                await asyncio.sleep(failed.wait_s)
                continue
            return replace(safe_reply(reply, key=self.endpoint.key), num_retries=num_retries)

    async def _first_model(self) -> str:
        listed = await self.models()
        if not listed:
            raise ModelError("no_model", "the endpoint lists no model; name one with ARGUS_MODEL")
        return str(listed[0].get("id") or "default")

    async def _ask_once(self, ask: Ask, *, on_text: Callable[[str], None] | None) -> Reply:
        """One request. Raises _Refused, _Retryable, ModelError."""
        body = request_of(ask, self.dialect, model=self._name, is_streamed=on_text is not None)
        try:
            # The body is made by name for servers of many kinds; the overloads want it spelled out.
            answer: Any = await cast(Any, self._client.chat.completions).create(**body, timeout=ask.timeout_s)
            if on_text is None:
                return read_completion(safe(_plain(answer), key=self.endpoint.key), ask)
            return await _read_stream(answer, ask, on_text)
        except openai.APIStatusError as error:
            if error.status_code in (400, 422) and (
                name := refusable(failures.said_by(error), self.dialect, body)
            ):
                raise _Refused(name) from None
            raise _retryable(self._failure(error, timeout_s=ask.timeout_s), _wait_s(error)) from None
        except openai.APIError as error:
            raise _retryable(self._failure(error, timeout_s=ask.timeout_s), RETRY_AFTER_S) from None
        except ModelError as error:
            raise _retryable(error, 0.0) from None
        except (ValueError, RecursionError) as error:
            # JSON with status 200 that is none: the library hands the parser's error through.
            raise ModelError("not_an_api", f"the endpoint's answer is no JSON: {self._tidy(error)}") from None

    def _failure(self, error: openai.APIError, *, timeout_s: float) -> ModelError:
        if isinstance(error, openai.APIStatusError):
            endpoint = replace(self.endpoint, model=self._name)
            return failures.from_status(error, endpoint=endpoint)
        if isinstance(error.__cause__, ModelError):
            return error.__cause__
        if isinstance(error, openai.APITimeoutError):
            return failures.timed_out(timeout_s)
        if isinstance(error, openai.APIConnectionError):
            return failures.unreachable(self.endpoint.shown_url, self._tidy(error.__cause__ or error))
        return ModelError("server", f"the endpoint reports an error: {self._tidy(error)}")

    def _tidy(self, error: BaseException) -> str:
        return failures.tidy(str(error), key=self.endpoint.key)


class _Refused(Exception):
    """The server does not take an optional part of the request."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _Retryable(Exception):
    """A failure that may pass after `wait_s`."""

    def __init__(self, error: ModelError, wait_s: float) -> None:
        super().__init__(str(error))
        self.error, self.wait_s = error, wait_s


def _retryable(error: ModelError, wait_s: float) -> Exception:
    return _Retryable(error, wait_s) if error.kind in TRANSIENT else error


def _wait_s(error: openai.APIStatusError) -> float:
    raw = error.response.headers.get("retry-after", "")
    try:
        wait_s = float(raw)
    except ValueError:
        return RETRY_AFTER_S
    return wait_s if math.isfinite(wait_s) and wait_s >= 0.0 else RETRY_AFTER_S


def _plain(answer: Any) -> object:
    """An answer of the library as a mapping; what is no API's answer comes as text."""
    return answer.to_dict(warnings=False) if hasattr(answer, "to_dict") else answer


async def _read_stream(stream: AsyncIterator[Any], ask: Ask, on_text: Callable[[str], None]) -> Reply:
    accumulator = Accumulator()
    if not hasattr(stream, "__aiter__"):
        raise ModelError("not_an_api", "the endpoint does not stream")
    async for chunk in stream:
        plain = _plain(chunk)
        if not isinstance(plain, Mapping):
            continue
        if plain.get("error"):
            raise ModelError("server", "the endpoint reports an error in the middle of its answer")
        text = accumulator.add(plain)
        if text:
            on_text(text)
    return accumulator.reply(ask)
