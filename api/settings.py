"""The service's settings: what can be set, what it means, what it is where nobody sets it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeVar

T = TypeVar("T")


class SettingsError(ValueError):
    """A setting that cannot be taken; the message names it and what it may be."""


def _setting(default: T, meaning: str, *, env: str, low: float = 0, secret: bool = False) -> T:
    metadata = {"meaning": meaning, "env": env, "low": low, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything `argus serve` can be told. Fields are keys of the section `[serve]` of argus.toml."""

    host: str = _setting("127.0.0.1", "address to listen on; any but loopback needs a key", env="ARGUS_HOST")
    port: int = _setting(8321, "port to listen on; 0 takes a free one and prints it", env="ARGUS_PORT")
    db: str = _setting(
        "argus.sqlite", "path of an SQLite file, or postgresql://USER@HOST/DATABASE", env="ARGUS_DB"
    )
    key: str = _setting(
        "",
        "admin key of the default project, longer than any other lives; only from the environment; see docs/http.md",
        env="ARGUS_KEY",
        secret=True,
    )
    tls_cert: str = _setting(
        "", "PEM file of the certificate and its chain; with it the service speaks TLS", env="ARGUS_TLS_CERT"
    )
    tls_key: str = _setting("", "PEM file of the certificate's private key", env="ARGUS_TLS_KEY")
    trusted_proxies: str = _setting(
        "",
        "addresses of proxies, separated by commas, whose X-Forwarded-* headers are believed",
        env="ARGUS_TRUSTED_PROXIES",
    )
    keep_audit_s: float = _setting(
        365 * 86400.0, "how long the audit is kept; a year", env="ARGUS_KEEP_AUDIT_S", low=86400.0
    )
    window_steps: int = _setting(
        0,
        "steps per window for every attempt; 0 = start with 10, then choose so that a window lasts 10-60 s",
        env="ARGUS_WINDOW_STEPS",
    )
    grace_s: float = _setting(
        15.0,
        "how long a window waits for missing ranks after its first one came in, four times as long while "
        "ranks come in; three upload periods",
        env="ARGUS_GRACE_S",
    )
    settle_s: float = _setting(
        30.0,
        "how long after a start no window is closed as incomplete, so that hosts can send what they kept",
        env="ARGUS_SETTLE_S",
    )
    silent_s: float = _setting(
        15.0,
        "a host not heard of for so long has lost its ranks; three heartbeat uploads",
        env="ARGUS_SILENT_S",
    )
    forget_s: float = _setting(
        21600.0,
        "an attempt not heard of for so long is no longer watched until it speaks",
        env="ARGUS_FORGET_S",
    )
    keep_evidence_s: float = _setting(
        7776000.0,
        "how long what a tool answered can be opened, from when it was last answered; 90 days",
        env="ARGUS_KEEP_EVIDENCE_S",
    )
    keep_windows_s: float = _setting(
        86400.0,
        "how long what ranks sent of a window is kept after its analysis, raw; a day",
        env="ARGUS_KEEP_WINDOWS_S",
        low=1,
    )
    keep_windows_bytes: int = _setting(
        20 << 30,
        "raw windows kept at most, in bytes; the oldest go first, never one that is not analysed",
        env="ARGUS_KEEP_WINDOWS_BYTES",
    )
    keep_numbers_s: float = _setting(
        7776000.0,
        "how long a window's numbers per rank and its findings are kept; 90 days",
        env="ARGUS_KEEP_NUMBERS_S",
    )
    keep_observations_s: float = _setting(
        604800.0,
        "how long stacks, host samples and captures are kept; a week",
        env="ARGUS_KEEP_OBSERVATIONS_S",
    )
    keep_captures_bytes: int = _setting(
        10 << 30, "captures kept at most, in bytes; the oldest go first", env="ARGUS_KEEP_CAPTURES_BYTES"
    )
    overhead_budget: float = _setting(
        0.02,
        "share of step time Argus may cost in a run; above it channels step down on all its hosts",
        env="ARGUS_OVERHEAD_BUDGET",
    )
    keep_history_s: float = _setting(
        180 * 86400.0,
        "how long the days of each GPU and its bad windows are kept, over runs; half a year, no less than 90 days",
        env="ARGUS_KEEP_HISTORY_S",
        low=90 * 86400.0,
    )
    model_url: str = _setting(
        "",
        "base URL of an OpenAI-compatible endpoint such as http://127.0.0.1:8000/v1; empty = no model, see docs/agent.md",
        env="ARGUS_MODEL_URL",
    )
    model: str = _setting("", "the model's name; empty takes the first the endpoint lists", env="ARGUS_MODEL")
    model_key: str = _setting(
        "", "the endpoint's key; only from the environment", env="ARGUS_MODEL_KEY", secret=True
    )
    model_profile: str = _setting(
        "auto",
        "kind of server: openai, vllm, sglang, ollama, llamacpp, deepseek, generic; auto guesses from the URL",
        env="ARGUS_MODEL_PROFILE",
    )
    model_context: int = _setting(
        0,
        "the model's context window in tokens; 0 = as its kind of server usually has",
        env="ARGUS_MODEL_CONTEXT",
    )
    model_turns: int = _setting(
        12, "requests to the model in one investigation or chat turn", env="ARGUS_MODEL_TURNS", low=1
    )
    model_calls: int = _setting(24, "tool calls in one of them", env="ARGUS_MODEL_CALLS")
    model_tokens: int = _setting(200_000, "tokens of one of them, both ways", env="ARGUS_MODEL_TOKENS", low=1)
    model_deadline_s: float = _setting(
        120.0, "seconds after which the answer stands as it is", env="ARGUS_MODEL_DEADLINE_S", low=1
    )
    model_usd: float = _setting(
        0.0, "US dollars that one of them may cost by the prices set; 0 = no limit", env="ARGUS_MODEL_USD"
    )
    model_usd_in: float = _setting(
        0.0, "price of a million tokens sent, US dollars", env="ARGUS_MODEL_USD_IN"
    )
    model_usd_out: float = _setting(
        0.0, "price of a million tokens received, US dollars", env="ARGUS_MODEL_USD_OUT"
    )
    model_hide_hosts: int = _setting(
        0,
        "1: hosts have other names towards the model, taken back in its answer",
        env="ARGUS_MODEL_HIDE_HOSTS",
    )
    investigate_from: str = _setting(
        "warning",
        "severity from which the agent looks into a new incident by itself: info, warning, critical; off = never",
        env="ARGUS_INVESTIGATE_FROM",
    )
    investigations_at_once: int = _setting(
        4, "investigations that run at once; others wait", env="ARGUS_INVESTIGATIONS_AT_ONCE", low=1
    )
    keep_investigations_s: float = _setting(
        7776000.0,
        "how long an investigation with its steps is kept; 90 days",
        env="ARGUS_KEEP_INVESTIGATIONS_S",
    )
    callback_hosts: str = _setting(
        "",
        "hosts that may be called back, comma-separated; *.x allows what ends in .x, * everything; empty = none, see docs/chat.md",
        env="ARGUS_CALLBACK_HOSTS",
    )
    callback_secret: str = _setting(
        "",
        "key that calls back are signed with; only from the environment",
        env="ARGUS_CALLBACK_SECRET",
        secret=True,
    )
    approval_expires_s: float = _setting(
        3600.0, "how long an approval may be decided", env="ARGUS_APPROVAL_EXPIRES_S", low=1
    )
    public_url: str = _setting(
        "",
        "address under which people open this service, for links in messages; empty = no links",
        env="ARGUS_PUBLIC_URL",
    )
    notify_max: int = _setting(
        5,
        "messages a channel gets in notify_window_s; what is more becomes a digest, see docs/alerts.md",
        env="ARGUS_NOTIFY_MAX",
        low=1,
    )
    notify_window_s: float = _setting(
        600.0, "the stretch of time that notify_max is counted over", env="ARGUS_NOTIFY_WINDOW_S", low=1
    )
    digest_hour: int = _setting(
        7, "hour (UTC) of the daily digest of what healed by itself", env="ARGUS_DIGEST_HOUR"
    )
    runbooks: str = _setting("", "folder of your own runbooks, Markdown", env="ARGUS_RUNBOOKS")
    keep_conversations_s: float = _setting(
        7776000.0,
        "how long a conversation is kept after its last question; 90 days",
        env="ARGUS_KEEP_CONVERSATIONS_S",
    )
    remote_write_url: str = _setting(
        "",
        "push the service's metrics there by Prometheus remote write; empty = do not",
        env="ARGUS_REMOTE_WRITE_URL",
    )
    remote_write_token: str = _setting(
        "",
        "bearer token of the receiver; only from the environment",
        env="ARGUS_REMOTE_WRITE_TOKEN",
        secret=True,
    )
    otlp_url: str = _setting(
        "",
        "push the service's metrics there by OTLP/HTTP, such as http://127.0.0.1:4318/v1/metrics; empty = do not",
        env="ARGUS_OTLP_URL",
    )
    max_series: int = _setting(
        200_000,
        "Prometheus series about ranks on /metrics; a run beyond it keeps its step times, then nothing",
        env="ARGUS_MAX_SERIES",
    )
    max_body_bytes: int = _setting(
        64 << 20, "largest request body taken, as sent", env="ARGUS_MAX_BODY_BYTES", low=1024
    )
    max_upload_bytes: int = _setting(
        256 << 20, "largest upload taken, after decompression", env="ARGUS_MAX_UPLOAD_BYTES", low=1024
    )
    max_uploads: int = _setting(
        64, "requests that may wait to be stored; beyond it the answer is 503", env="ARGUS_MAX_UPLOADS", low=1
    )
    max_requests_s: float = _setting(
        100.0,
        "requests a second of one key, thirty seconds' worth at once; uploads of hosts not counted; 0 = no limit",
        env="ARGUS_MAX_REQUESTS_S",
    )
    max_ingest_s: float = _setting(
        5000.0,
        "uploads a second of one key, thirty seconds' worth at once; 0 = no limit",
        env="ARGUS_MAX_INGEST_S",
    )
    max_replay_s: float = _setting(
        50.0,
        "uploads a second taken that waited on their hosts through an outage; the others are told when to come",
        env="ARGUS_MAX_REPLAY_S",
    )
    max_connections: int = _setting(
        8192,
        "connections held at once; beyond it new ones are closed at once",
        env="ARGUS_MAX_CONNECTIONS",
        low=16,
    )
    max_backlog: int = _setting(
        2000,
        "closed windows that may wait for their analysis; beyond it ingest answers 503",
        env="ARGUS_MAX_BACKLOG",
        low=1,
    )
    kernel_keep_s: float = _setting(
        7 * 86400.0,
        "how long kernel summaries are kept, and names that none of them uses",
        env="ARGUS_KERNEL_KEEP_S",
        low=60,
    )
    kernel_keep_bytes: int = _setting(
        20 << 30,
        "kernel summaries kept at most, in bytes; the oldest go first",
        env="ARGUS_KERNEL_KEEP_BYTES",
        low=1 << 20,
    )
    engine: str = _setting(
        "local", "where L3 computes: local (processes of this machine) or ray", env="ARGUS_ENGINE"
    )
    ray_address: str = _setting(
        "auto", "address of the Ray cluster that engine = ray joins", env="ARGUS_RAY_ADDRESS"
    )
    topology: str = _setting(
        "", "which switches, racks and NICs hosts have: see docs/topology.md", env="ARGUS_TOPOLOGY"
    )
    grafana_url: str = _setting(
        "", "where your Grafana is, for links of the web page; empty = no links", env="ARGUS_GRAFANA_URL"
    )
    perfetto_url: str = _setting(
        "https://ui.perfetto.dev", "where the web page opens traces", env="ARGUS_PERFETTO_URL"
    )
    notice: str = _setting("", "a line shown on top of the web page", env="ARGUS_NOTICE")


def settings_table() -> list[tuple[str, str, str, str]]:
    """(name, environment variable, default, meaning) of every setting."""
    return [
        (item.name, item.metadata["env"], "" if item.metadata["secret"] else str(item.default), meaning)
        for item in fields(Settings)
        for meaning in [item.metadata["meaning"]]
    ]
