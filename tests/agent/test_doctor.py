"""The doctor: a healthy endpoint passes, each sick one is told what to change."""

from __future__ import annotations

import asyncio
import json

import pytest

from argus.agent.model.doctor import Check, probe
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.profile import PROFILES, profile_of
from argus.agent.stub_llm.scripts import confirm, prose
from argus.agent.stub_llm.server import StubServer
from argus.api.cli.doctor import exit_code
from tests.agent.test_bad_answers import GOOD_LIST, serving


def probed(
    *quirks: str, profile: str = "openai", window_tokens: int = 200_000, talks: bool = False
) -> dict[str, Check]:
    """Checks by name of a server with quirks; `talks` = its model never calls a tool."""
    with StubServer(prose if talks else confirm, quirks=quirks, window_tokens=window_tokens) as server:
        endpoint = Endpoint(url=server.url, model="argus-stub", profile_name=profile)
        return {check.name: check for check in asyncio.run(probe(endpoint))}


@pytest.mark.parametrize("profile", list(PROFILES))
def test_a_healthy_endpoint_passes_as_every_kind_of_server(profile: str) -> None:
    checks = probed(profile=profile)
    assert exit_code(list(checks.values())) == 0 or (profile == "ollama" and checks["context"].fix)
    assert {"models", "context", "tool call", "tool result", "parallel calls", "strict", "streaming"} <= set(
        checks
    )
    assert all(check.ok for name, check in checks.items() if name != "context")


@pytest.mark.parametrize(
    ("quirks", "profile", "name", "fix"),
    [
        (("http-401",), "openai", "tool call", "ARGUS_MODEL_KEY"),
        (("vllm-no-tools",), "vllm", "tool call", "--enable-auto-tool-choice"),
        (("llamacpp-no-tools",), "llamacpp", "tool call", "--jinja"),
        (("html",), "generic", "tool call", "ARGUS_MODEL_URL"),
        (("reasoning-required",), "generic", "tool result", "deepseek"),
    ],
)
def test_what_to_change_is_said(quirks: tuple[str, ...], profile: str, name: str, fix: str) -> None:
    checks = probed(*quirks, profile=profile)
    assert not checks[name].ok and fix in checks[name].fix


def test_a_small_window_is_found_before_it_hurts() -> None:
    checks = probed(profile="vllm", window_tokens=4096)
    assert not checks["context"].ok and "4096" in checks["context"].fix
    assert exit_code(list(checks.values())) == 2


def test_a_model_that_only_talks_does_not_do() -> None:
    checks = probed(talks=True)
    assert not checks["tool call"].ok and checks["tool call"].is_needed


def test_nothing_listening_ends_it_at_once() -> None:
    checks = asyncio.run(probe(Endpoint(url="http://127.0.0.1:9/v1", model="m")))
    assert [check.name for check in checks] == ["models"] and "/v1" in checks[0].fix


@pytest.mark.parametrize("profile", ["generic", "vllm"])
def test_strict_schemas_are_tried_on_every_kind_of_server(profile: str) -> None:
    assert probed(profile=profile)["strict"].ok
    refused = probed("refuses-strict", profile=profile)
    assert not refused["strict"].ok and "sent without" in refused["strict"].found
    assert refused["tool call"].ok and exit_code(list(refused.values())) == 0


def test_refused_parameters_are_named() -> None:
    checks = probed("refuses-temperature", profile="vllm")
    assert "temperature" in checks["parameters"].found and checks["tool call"].ok


def test_profiles_are_guessed_from_the_url() -> None:
    assert profile_of("auto", "https://api.openai.com/v1").name == "openai"
    assert profile_of("auto", "http://[::1]:bad").name == "generic"
    with pytest.raises(ValueError, match="vllm"):
        profile_of("vlm", "")


@pytest.mark.parametrize("size", ["9" * 5000, "-1", "true", '"4096"', "1e9", "999999999999999"])
def test_a_window_that_cannot_be_counts_as_not_told(size: str) -> None:
    listed = json.dumps({"data": [{"id": "m", "max_model_len": "?"}]}).replace('"?"', size)
    shown = json.dumps({"parameters": f"num_ctx {size}"})
    with serving(shown, models=listed if len(size) < 100 else GOOD_LIST) as url:
        for profile in ("vllm", "ollama"):
            endpoint = Endpoint(url=url, model="m", profile_name=profile)
            checks = {check.name: check for check in asyncio.run(probe(endpoint))}
            assert "does not tell" in checks["context"].found
