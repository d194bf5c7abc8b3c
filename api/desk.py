"""What works beside a project's analysis: investigations, notices, answers to people."""

from __future__ import annotations

import logging
import random
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from argus.analytics.store import investigations
from argus.api.agent import agent_for
from argus.api.asking import Asking, asking_of
from argus.api.complaints import Complaints
from argus.api.investigating import unasked
from argus.api.investigating.asked import Busy
from argus.api.investigating.callbacks import Callbacks
from argus.api.investigating.runner import RENEW_S, Runner
from argus.api.notify import dispatcher
from argus.api.notify.dispatcher import Dispatcher
from argus.api.notify.matter import DEFAULT, Origin
from argus.api.notify.notifier import Means, Notifier, notifiers_of
from argus.api.notify.pace import Pace
from argus.api.notify.post import Http, HttpxHttp
from argus.api.notify.settings import NO_NOTIFIERS, NotifySettings, Value
from argus.api.service import Service
from argus.api.slack.ears import Ears, Note, no_note
from argus.api.slack.socket import Socket, listening
from argus.api.slack.switchboard import Switchboard
from argus.api.toolbox import Toolbox

LOG = logging.getLogger("argus.desk")

TEND_S = 1.0
FORGET_EVERY_S = 3600.0


@dataclass(kw_only=True)
class Desk:
    """Of one project; `name` is this service's own, unlike that of any other on the same database."""

    service: Service
    toolbox: Toolbox
    name: str
    origin: Origin
    notifiers: Mapping[str, Notifier]
    runner: Runner
    dispatcher: Dispatcher
    callbacks: Callbacks
    http: Http
    switchboard: Switchboard = field(default_factory=Switchboard, repr=False)
    ears: Ears | None = None
    socket: Socket | None = None
    num_streams: int = 0
    num_asked: int = 0
    signing_secret: str = field(default="", repr=False)
    note: Note = field(default=no_note, repr=False)

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._renewed_s = self._forgot_s = float("-inf")

    def start(self) -> None:
        """Begin to tell, to listen and to look after investigations."""
        self.dispatcher.start()
        if self.socket is not None:
            self.socket.start()
        # Who is called back may be slow to answer, and what runs must be held on to meanwhile.
        for name, turn in (("argus-desk", self.tend), ("argus-callbacks", self.callbacks.turn)):
            self._threads.append(threading.Thread(target=self._run, args=(turn,), name=name, daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """End all of it."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self.socket is not None:
            self.socket.stop()
        self.runner.stop()
        self.dispatcher.stop()
        self.http.close()

    @property
    def asking(self) -> Asking:
        """Where questions are answered."""
        return asking_of(self.service, agent_for(self.service), self.toolbox)

    def tend(self, now_s: float) -> None:
        """Once over what is to be begun, renewed and forgotten."""
        if not 0 <= now_s - self._renewed_s < RENEW_S:
            self._renewed_s = now_s
            self.runner.renew(now_s)
        self._look_unasked()
        if not 0 <= now_s - self._forgot_s < FORGET_EVERY_S:
            self._forgot_s = now_s
            before_s = now_s - self.service.settings.keep_investigations_s
            with self.service.store.write() as connection:
                investigations.forget_investigations(connection, before_s=before_s)

    def _look_unasked(self) -> None:
        """Have the agent look into what is new and bad enough, where there is a model."""
        settings = self.service.settings
        if not settings.model_url:
            return
        with self.service.store.read() as connection:
            wanted = unasked.due(connection, floor=settings.investigate_from)
        for asked in wanted:
            try:
                self.runner.ask(asked)
            except Busy:
                return

    def _run(self, turn: Callable[[float], object]) -> None:
        complaints = Complaints(LOG)
        while not self._stopping.wait(TEND_S):
            try:
                turn(self.service.clock())
            except Exception as error:  # noqa: BLE001 - what failed is there at the next turn
                complaints.about("investigations could not be looked after", error)
            else:
                complaints.over()


def desk_of(
    service: Service,
    toolbox: Toolbox,
    *,
    project: str,
    notify: NotifySettings = NO_NOTIFIERS,
    http: Http | None = None,
    note: Note = no_note,
    switchboard: Switchboard | None = None,
) -> Desk:
    """The desk of a project, not started yet. Raises NotifierError."""
    settings, web = service.settings, http or HttpxHttp()
    origin = Origin(public_url=settings.public_url, project=project)
    has_agent = bool(settings.model_url) and settings.investigate_from != unasked.OFF
    notifiers = notifiers_of(Means(http=web, origin=origin, has_agent=has_agent), values=notify.values)
    name = f"desk-{secrets.token_hex(8)}"
    made = Desk(
        service=service,
        toolbox=toolbox,
        name=name,
        origin=origin,
        notifiers=notifiers,
        runner=_runner(service, toolbox, name=name),
        note=note,
        switchboard=switchboard or Switchboard(),
        dispatcher=_dispatcher(service, notifiers, name=name, origin=origin),
        http=web,
        callbacks=Callbacks(store=service.store, http=web, settings=settings, clock=service.clock),
    )
    _listen(made, notify.values.get("slack", {}))
    return made


def _runner(service: Service, toolbox: Toolbox, *, name: str) -> Runner:
    return Runner(
        agent_of=lambda: agent_for(service),
        toolbox=toolbox,
        store=service.store,
        clock=service.clock,
        name=name,
        at_once=service.settings.investigations_at_once,
    )


def _dispatcher(
    service: Service, notifiers: Mapping[str, Notifier], *, name: str, origin: Origin
) -> Dispatcher:
    settings = service.settings
    pace = Pace(
        max_posts=settings.notify_max, window_s=settings.notify_window_s, digest_hour=settings.digest_hour
    )
    return Dispatcher(
        dispatcher.Desk(
            store=service.store,
            notifiers=notifiers,
            clock=service.clock,
            rng=random.Random(),
            counter=service.metrics.notices,
            name=name,
            origin=origin,
            pace=pace,
        )
    )


def _listen(made: Desk, values: Mapping[str, Value]) -> None:
    """Ears for the Slack bot, if it is set up to hear."""
    bot = made.notifiers.get("slack")
    if bot is None or not getattr(bot, "hears", False):
        return
    from argus.api.notifiers.slack import Slack

    assert isinstance(bot, Slack), bot
    made.ears = Ears(
        client=bot.client,
        channel=bot.channel,
        store=made.service.store,
        clock=made.service.clock,
        asking=lambda: made.asking,
        poke=made.dispatcher.poke,
        origin=made.origin,
        note=made.note,
    )
    made.switchboard.ears.append(made.ears)
    made.signing_secret = str(values.get("signing_secret", ""))
    app_token = str(values.get("app_token", ""))
    if app_token and made.origin.project == DEFAULT:
        made.socket = listening(made.switchboard, bot.client.web, app_token=app_token)
