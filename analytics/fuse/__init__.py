"""Findings of several windows become causes: the one place that decides class, suspects, scope and verdict.

The order of tests is that of incidents.md §2.2, one module a test, called from one list in `order`:

1. `stopped`      ranks lost, else behind, else the group that is stuck
2. `startup`      start-up only teaches (known steps were left out of the window's usable ones before)
3. `restart`      all ranks, from a restart: what changed between two runs
4. `own_work`     a rank's own work, by host path and compute (`classify`); what a host's ranks share (`scope`)
5. `transfer`     transfers of a group, only where nobody is late and the members are clean
6. `kernels`      kernels that L3 finds changed: a silent fault of its own, or more about a cause named before
7. checks         counters, host metrics and events confirm or contradict a cause, never make one
8. `second_best`  the second-best cause and the one command that separates the two

One cause per suspect rank, host or group, however many phases and groups show it (`merge`).

Names of the evidence in a Cause, seconds per step unless the unit says otherwise; `baseline` in brackets:

rank causes
  own_self_s (peers)        all own work of the suspect in a step
  self_s (peers)            own work in the phase of the cause, named in the note
  cpu_s (peers)             CPU time of that phase; flat beside a grown self_s = starved
  gc_pause_s (peers)        garbage collection pauses
  caused_wait_s (median)    waiting of the others per step because the suspect entered late
  last_share                share of its collectives the suspect entered last (ratio)
  victims_wait_s            how long the victims waited per step, group in the note
  step_s (clean windows)    step time now
  replay_gain_s (own excess)   what the step would gain if the suspect were healthy, by replay of the pipeline
  transfer_s (own past)     transfer time of the group it delayed; in `ruled_out` of link.slow
  gc_share, data_share, cpu_share, phase_share   shares of the lost time, in `ruled_out`
link causes
  transfer_s (own past or sibling groups)   transfer time of the group per step
  own_ratio                 members' own work against their past (ratio; 1 = clean)
  victims_wait_s, step_s    as above
stops
  stalled_s (limit)         no step ended for so long
  median_step_s             usual step time
  entered, completed (furthest member)      calls of the rank behind (calls), rank and group in the note
  lost (rank number)        one per vanished rank, state and exit reason in the note
  last_step                 last step of the lost rank (step)
"""

from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.order import decide
from argus.analytics.fuse.series_only import series_cause
from argus.analytics.fuse.stopped import stop_cause

__all__ = ["Lasting", "decide", "series_cause", "stop_cause"]
