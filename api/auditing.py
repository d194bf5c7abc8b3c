"""Writes down who did what, also outside of a request."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.store.audit import Deed, add_deed, forget_deeds
from argus.analytics.store.engine import Store
from argus.api.masking import mask
from argus.collectors.records.text import tame

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Auditor:
    """The audit of a service; `store` is the default project's, `clock` gives Unix seconds."""

    store: Store
    clock: Callable[[], float]
    keep_s: float
    secrets: tuple[str, ...] = ()

    def note(self, deed: Deed) -> bool:
        """Write a deed down, without secrets; False if the database did not take it, which is logged."""
        clean = {name: self._clean(getattr(deed, name)) for name in ("who", "action", "target", "outcome")}
        now_s = self.clock()
        try:
            with self.store.write() as connection:
                add_deed(connection, replace(deed, **clean), now_s=now_s)
                forget_deeds(connection, before_s=now_s - self.keep_s)
        except SQLAlchemyError as error:
            LOG.error("not in the audit, %s: %s by %s", type(error).__name__, clean["action"], clean["who"])
            return False
        return True

    def _clean(self, text: str) -> str:
        return tame(mask(text, secrets=self.secrets), 300)
