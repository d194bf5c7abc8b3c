"""Findings of several windows become causes: the one place that decides class, suspects, scope and verdict.

The order of tests is that of incidents.md §2.2, one module a test, called from one list in `order`:

1. `stopped`      ranks lost, else behind, else the group that is stuck
2. `startup`      start-up only teaches (known steps were left out of the window's usable ones before)
3. `restart`      all ranks, from a restart: what changed between two runs
4. `own_work`     a rank's own work, by host path and compute (`classify`); what a host's ranks share (`scope`)
   `paused`       rare pauses that the runtime tells of, mostly of ranks that change
   `uneven`       many ranks against their own past; a pipeline stage that is slow or unevenly cut; uneven work, which accuses nobody
5. `transfer`     transfers of a group, only where nobody is late and the members are clean
6. `kernels`      kernels that L3 finds changed: a silent fault of its own, or more about a cause named before
7. `whole_job`    where nothing of that: all ranks became slower alike and stay so, which accuses nobody
8. checks         counters, host metrics and events confirm or contradict a cause, never make one; `priced`, `remedy`: what they cost
9. `second_best`  the second-best cause and the one command that separates the two

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
  replay_gain_s (own excess)   what the step would gain if the suspect were healthy, by replay; a part of it where
                            several causes delay the same steps
  by_itself_s               what it would be if the other causes of the step were healed
  transfer_s (own past)     transfer time of the group it delayed; in `ruled_out` of link.slow
  compile_s (median rank)   compilations, as the runtime told
  alloc_retries (median rank)  allocations that had to be retried, in the window
  stack_share (peers)       share of the suspect's dumps that show a kind of host work, kind and frame in the note
  half_excess_s (other half)   excess of the half of a host the suspect is on
  period_steps              every how many steps its own time is high
  bouts (by chance)         stretches of bad windows in a day, of a fault that comes and goes
  bad_share                 share of the windows since the first bout that were bad (ratio)
  earlier_runs              other runs in which the same GPU was suspected
  gc_share, data_share, cpu_share, phase_share   shares of the lost time, in `ruled_out`
link causes
  transfer_s (own past or sibling groups)   transfer time of the group per step
  own_ratio                 members' own work against their past (ratio; 1 = clean)
  cpu_ratio                 CPU time of the member that got least of it, against its past (ratio)
  unclean                   a member whose process did not run, in the note
  victims_wait_s, step_s    as above
kernel causes; also added to the causes above when L3 sees the same suspects
  kernel_ratio              the slowest kernel against its peers' (ratio), its name in the note
  kernel_lost_s             what slow kernels take longer, what they have in common in the note
  kernel_share              share of the step that kernel takes (ratio)
  slow_kernels              how many kernels are slow (count)
  error_bound_ratio, w1_to_peers_us (median rank), own_past_ratio, max_ratio   of that kernel
  compression_ratio (own past)   of the rank's kernels
  caused_wait_s             by the latest member of a slow group; in `ruled_out` of compute.slow
causes of the whole job
  step_s (before), own_s (before), in_calls_s (before)   of the job; of the median rank in its own work and in calls
  step_now_s (before)       of the job by now, for as much work, where it was told in an earlier window
  step_work                 work of a step of the mean rank when this was told, its unit in the note
stage and work causes
  stage_compute_s (past or other stages)   own compute of the stage in a step
  micro_batch_s (past or other stages)   the same per micro-batch
  bubble_s (other stages)   what of the step is not own work
  lost_s, lost_by_unit_s    what the rank with most work takes beyond the mean, in all and by unit (note)
  own_past_s (before), slow_ranks   own work of ranks that became slow together
  pauses, paused_ranks, longest_pause_s   steps with a pause (kind in the note), on how many ranks; `step_s` is the mean
                            of the steps they were looked for in, beside clean windows'
  save_s (others), late_saves   how long the rank saves, and how often in a row it was the last
  explained                 share of the deviation of times that the work explains (ratio)
any cause, from others than the ranks
  event_for                 an event that fits class and suspects: its reading, 1 without one; which in the note
  probe_slow, probe_well    a probe's time over its healthy peers' (ratio)
  event_against             in `ruled_out`: an event that tempts and does not fit
stops
  stalled_s (limit)         no step ended for so long
  median_step_s             usual step time
  entered, completed (furthest member)      calls of the rank behind (calls), rank and group in the note
  call_differs, call_not_started            number of the call some ranks made differently or have not begun, which in the note
  lost (rank number)        one per vanished rank, state and exit reason in the note
  last_step                 last step of the lost rank (step)
what hosts measured, beside any cause (ratio of the window's time unless the unit says otherwise)
  thread_run_delay_ratio (other ranks)   the suspects' thread that waited longest in the run queue
  throttled_ratio (other ranks)          their cgroup had used up its quota
  member_state (rank)                    a member of a slow group that is stopped or blocked, state in the note
  host_excess                            by how much the suspects' host stands out, number in the note
"""

from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.order import checked, decide
from argus.analytics.fuse.series_only import series_cause
from argus.analytics.fuse.stopped import stop_cause

__all__ = ["Lasting", "checked", "decide", "series_cause", "stop_cause"]
