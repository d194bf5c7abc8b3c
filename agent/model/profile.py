"""What servers that speak the OpenAI protocol take and do, by the kind of server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Habits of one kind of server.

    `stream_tools`: turns with tools may be streamed. `strict`: tools are sent with `strict: true`. `parallel`: the value
    of `parallel_tool_calls` to send, None to leave it out. `reasoning_echo`: reasoning must come back with the
    assistant's tool calls. `sampling`: `temperature` is taken. `response_format`: a JSON schema may be demanded of a
    turn without tools. `context_tokens`: the window to assume where the server does not tell.
    """

    name: str
    stream_tools: bool = False
    strict: bool = False
    parallel: bool | None = None
    reasoning_echo: bool = False
    sampling: bool = True
    system_role: str = "system"
    max_tokens_field: str = "max_tokens"
    response_format: bool = False
    context_tokens: int = 16_384
    advice: str = ""


_ALL = (
    Profile(name="generic", advice="Tool calls must be switched on at the server."),
    Profile(
        name="openai",
        stream_tools=True,
        strict=True,
        parallel=True,
        sampling=False,
        max_tokens_field="max_completion_tokens",
        response_format=True,
        context_tokens=128_000,
        advice="Check that the key may use this model.",
    ),
    Profile(
        name="vllm",
        strict=True,
        response_format=True,
        advice="Start vLLM with --enable-auto-tool-choice --tool-call-parser NAME.",
    ),
    Profile(
        name="sglang", response_format=True, advice="Start SGLang with --tool-call-parser NAME of the model."
    ),
    Profile(
        name="ollama",
        context_tokens=4096,
        advice="Make a model with a larger window: a Modelfile with PARAMETER num_ctx 16384.",
    ),
    Profile(
        name="llamacpp",
        parallel=True,
        response_format=True,
        context_tokens=8192,
        advice="Start llama-server with --jinja and --ctx-size 16384.",
    ),
    Profile(name="deepseek", reasoning_echo=True, context_tokens=64_000, advice="Check the key's balance."),
)

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _ALL}

_BY_HOST = {"api.openai.com": "openai", "api.deepseek.com": "deepseek"}
_BY_PORT = {11434: "ollama"}


def profile_of(name: str, url: str) -> Profile:
    """The profile called `name`; `auto` guesses it from the URL. Raises ValueError.

    >>> profile_of("auto", "http://127.0.0.1:11434/v1").name
    'ollama'
    """
    if name != "auto":
        if name not in PROFILES:
            raise ValueError(f"no endpoint profile {name!r}; there are auto, {', '.join(PROFILES)}")
        return PROFILES[name]
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    return PROFILES[_BY_HOST.get(parts.hostname or "") or _BY_PORT.get(port or 0) or "generic"]
