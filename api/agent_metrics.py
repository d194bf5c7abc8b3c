"""What the agent uses up and how it fares, as Prometheus counters."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from argus.agent.loop.chat import Answered
from argus.agent.loop.course import Step
from argus.agent.loop.investigate import Outcome
from argus.agent.registry import registry as all_tools

AGENT_METRICS: tuple[tuple[str, str, str], ...] = (
    ("argus_agent_tokens_total", "kind", "tokens of models: prompt, completion"),
    ("argus_agent_usd_total", "", "US dollars by the prices set"),
    ("argus_agent_tool_calls_total", "tool,status", "tool calls of models by status"),
    ("argus_agent_investigations_total", "verdict,stage,stance", "investigations by what came of them"),
    ("argus_agent_answers_total", "result", "chat answers: clean, marked, failed"),
    ("argus_agent_grounding_failures_total", "part", "parts of answers that were dropped or marked"),
    ("argus_agent_budget_exhausted_total", "kind", "budgets that ran out"),
    ("argus_agent_failures_total", "kind", "models that gave no usable answer, by reason"),
    ("argus_agent_retries_total", "kind", "requests sent again: provider, repair"),
)
"""(name, labels, meaning) of every counter; labels hold our own words only, never a model's."""

DURATION = "argus_agent_duration_seconds"
OTHER = "other"
"""Label of a tool that is none of ours: its name is a model's word."""


@dataclass(frozen=True, kw_only=True)
class AgentMetrics:
    """The counters by name."""

    counters: dict[str, Counter]
    duration: Histogram

    def step(self, step: Step) -> None:
        """Count a tool call."""
        if step.what == "called":
            tool = step.text if step.text in all_tools().tools else OTHER
            status = str(step.details.get("status"))
            self.counters["argus_agent_tool_calls_total"].labels(tool=tool, status=status).inc()

    def outcome(self, outcome: Outcome) -> None:
        """Count an investigation."""
        verdict = str(outcome.diagnosis["verdict"])
        self.counters["argus_agent_investigations_total"].labels(
            verdict=verdict, stage=outcome.stage, stance=outcome.stance
        ).inc()
        for item in outcome.dropped:
            self.counters["argus_agent_grounding_failures_total"].labels(part=item.what).inc()
        self._spent(outcome)

    def answered(self, answer: Answered) -> None:
        """Count a chat answer."""
        num_marked = answer.num_unverified + len(answer.unknown)
        result = "failed" if answer.failure else "marked" if num_marked else "clean"
        self.counters["argus_agent_answers_total"].labels(result=result).inc()
        failures = self.counters["argus_agent_grounding_failures_total"]
        failures.labels(part="number").inc(answer.num_unverified)
        failures.labels(part="name").inc(len(answer.unknown))
        self._spent(answer)

    def _spent(self, done: Outcome | Answered) -> None:
        spent = done.spent
        tokens = self.counters["argus_agent_tokens_total"]
        tokens.labels(kind="prompt").inc(spent.prompt_tokens)
        tokens.labels(kind="completion").inc(spent.completion_tokens)
        self.counters["argus_agent_usd_total"].inc(spent.usd)
        retries = self.counters["argus_agent_retries_total"]
        retries.labels(kind="provider").inc(spent.num_retries)
        retries.labels(kind="repair").inc(spent.num_repairs)
        self.duration.observe(spent.seconds)
        if done.budget:
            self.counters["argus_agent_budget_exhausted_total"].labels(kind=done.budget).inc()
        if done.failure:
            self.counters["argus_agent_failures_total"].labels(kind=done.failure).inc()


def make_agent_metrics(registry: CollectorRegistry) -> AgentMetrics:
    """Fresh counters on a registry."""
    counters = {
        name: Counter(name, meaning, labels.split(",") if labels else [], registry=registry)
        for name, labels, meaning in AGENT_METRICS
    }
    duration = Histogram(DURATION, "time an investigation or chat turn took", registry=registry)
    return AgentMetrics(counters=counters, duration=duration)
