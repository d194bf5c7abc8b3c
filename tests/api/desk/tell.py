"""Notices of a database to the stand-in for Slack, as a process of its own: `python -m tests.api.desk.tell DB URL`."""

from __future__ import annotations

import random
import secrets
import sys
import time

from argus.analytics.store.engine import open_store
from argus.api.notifiers import slack
from argus.api.notify.dispatcher import Desk, Dispatcher
from argus.api.notify.notifier import Means
from argus.api.notify.pace import Pace
from argus.api.notify.post import HttpxHttp
from argus.api.slack.double import CHANNEL, TOKEN
from tests.api.desk.kit import notice_counter

LEASE_S = 3.0
"""Shorter than in the service: the test waits for it."""


def main() -> None:
    """Tell until killed."""
    db, url = sys.argv[1:3]
    bot = slack.notifier(Means(http=HttpxHttp()), token=TOKEN, channel=CHANNEL, api_url=url)
    desk = Desk(
        store=open_store(db),
        notifiers={"slack": bot},
        clock=time.time,
        rng=random.Random(0),
        counter=notice_counter(),
        name=secrets.token_hex(8),
        pace=Pace(max_posts=100),
        lease_s=LEASE_S,
    )
    Dispatcher(desk).start()
    print("ready", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
