"""A sample of the cases over every section, on logs that outlive a process that dies between facts.

Each case is the test of its number, unchanged, and all that it asserts must hold. On SQLite it
goes once to count its commits, of which each holds one input and what follows from it, and
then again and again with a death: after the k-th commit, before anybody was told of it; before
the k-th, so that what was decided is lost; and after every one in turn. A death takes no
time, and the runner lives on. With DURATON_TEST_POINTS=all there is a run for each k. The first
of each section also goes with twelve partitions, and on Kafka, where it dies once.

What `dying.py` does for a case is what a client does by the documents.

Cases that are not in it, for they assert what a death may well change:

- 015, 018 and 019 count on a pipe that they break, and a process that comes back has another;
  051, 065, 095, 177 (the first), 204, 215 and 217 state a commit's fate themselves.
- 075: an answer says `buffered`; who has to look it up is told what the buffer became.
- 165, 166, 167 and the second of 169 count HTTP requests; one that is cut is made again.
- 220: rows of state, to which the client's dedupe ids add.
- 023, 031, 036, 060, 115, 201 and others of thousands of commits: there is nothing in them
  that smaller ones of their section have not.
"""

import inspect
import os
from collections import Counter
from functools import partial

import pytest
import test_a_keys as a
import test_b_concurrency as b
import test_c_throttle as c
import test_d_rate_limit as d
import test_e_debounce as e
import test_f_batch as f
import test_g_priority as g
import test_h_singleton as h
import test_i_events as i
import test_j_together as j
import test_k_ai as k_ai
import test_k_budget as k
import test_l_retries as l_
import test_m_errors as m
import test_n_transport as n
import test_o_on_failure as o
import test_p_replay as p
import test_p_replay_controls as p_controls
import test_q_steps as q
import test_r_timers as r
import test_s_intake as s
import test_t_observation as t
from dying import DECIDED, OF_A_START, TOLD, WRITTEN, Deaths, DyingEngine
from flow_tools import CLOCK
from test_every_case_has_its_test import CASES

ALL = os.environ.get("DURATON_TEST_POINTS") == "all"

SAMPLE = [
    a.test_case_002_what_is_no_scalar_falls_back_to_the_whole_workflow,
    a.test_case_007_a_number_and_its_digits_as_text,
    b.test_case_010_a_sleeping_run_gives_its_slot_away,
    b.test_case_012_the_backoff_between_step_attempts_holds_no_slot,
    b.test_case_024_the_tighter_of_limit_and_ceiling_applies,
    b.test_case_026_redeploy_with_a_lower_limit,
    c.test_case_037_retries_and_resumptions_are_not_starts,
    c.test_case_040_throttle_together_with_a_concurrency_limit,
    d.test_case_048_admitted_while_queued_is_already_counted,
    d.test_case_047_raising_the_limit_helps_at_once,
    e.test_case_058_an_event_during_the_debounced_run_starts_a_new_window,
    e.test_case_049_last_payload_after_quiet_for_each_key,
    partial(
        e.test_case_062_redeploy_with_another_period_while_a_window_is_open,
        more=True,
    ),
    f.test_case_070_a_retry_sees_the_same_events,
    f.test_case_063_the_timeout_runs_from_the_first_event,
    f.test_case_074_a_flushed_batch_is_closed,
    g.test_case_082_priority_does_not_preempt,
    g.test_case_081_priority_does_not_pull_a_throttled_start_forward,
    h.test_case_085_a_queued_run_already_counts,
    partial(
        h.test_case_084_whoever_has_not_ended_still_blocks,
        state="backoff",
        shown="waiting",
        event_at=300,
    ),
    i.test_case_098_the_event_does_all_its_other_work,
    i.test_case_099_dedupe_id_stops_everything_behind_it,
    j.test_case_117_a_joined_call_gets_what_the_run_gives,
    j.test_case_105_a_run_that_started_is_not_refused_when_it_wakes,
    j.test_case_109_stop_takes_the_one_that_has_worked_longest,
    j.test_case_112_join_three_webhooks_one_run,
    k.test_case_134_new_starts_while_over_budget,
    k.test_case_135_the_debt_sets_the_next_start,
    k.test_case_128_retry_from_step_carries_results_not_spend,
    partial(k_ai.test_case_125_failed_attempts_cost_too, program=k_ai.by_meter),
    l_.test_case_145_only_the_failing_step_is_repeated,
    l_.test_case_146_parallel_steps_have_separate_budgets,
    partial(m.test_case_153_non_retriable_error_inside_a_step, attempt=2),
    m.test_case_155_an_ordinary_group_is_retried_as_one_failure,
    partial(m.test_case_164_a_throw_between_steps, attempts=3),
    n.test_case_169_the_answer_is_lost_after_the_work_was_done,
    partial(n.test_case_172_a_long_step_is_not_declared_dead, transport="connect"),
    o.test_case_180_but_it_counts_for_the_ceiling,
    o.test_case_175_once_after_failed_is_recorded,
    p_controls.test_case_190_a_batch_runs_replay_has_the_same_events,
    p.test_case_184_a_replay_is_a_new_run,
    p.test_case_192_what_was_done_is_not_done_again,
    p_controls.test_case_191_a_singleton_key_in_use,
    q.test_case_193_one_name_three_times_in_a_loop,
    q.test_case_196_the_winner_of_a_race_stays_the_winner,
    r.test_case_211_an_event_for_a_paused_run,
    r.test_case_205_a_delayed_start_happens_once,
    r.test_case_210_paused_during_backoff,
    r.test_case_212_a_sleeping_run_survives_a_new_version,
    s.test_case_219_time_passes_without_records,
    s.test_case_213_redelivery_after_a_rebalance,
    t.test_case_223_several_controls_on_an_idle_system_cost_little_time,
    t.test_case_222_workflows_of_one_name_in_two_apps_have_a_row_each,
]
ENGINES = ("engine_of", "engines", "duraton")
"""The fixtures that make a case's engine; each is replaced by one that dies."""


def plain(case):
    return getattr(case, "func", case)


def name(case):
    return plain(case).__name__.removeprefix("test_")


def section(case):
    number = int(name(case).split("_")[1])
    return next(each for each, numbers in CASES.items() if number in numbers)


FIRSTS = list({section(case): case for case in reversed(SAMPLE)}.values())
SERVED = n.test_case_169_the_answer_is_lost_after_the_work_was_done
"""A served app answers within a request: cut each time, it would never get through."""


async def go(case, deaths, *, partitions=1, log="sqlite"):
    """One run of a case; how often each point was passed is in its deaths."""

    def make(*apps, **more):
        CLOCK.engine = DyingEngine(
            *apps, deaths=deaths, **{"log": log, "partitions": partitions, **more}
        )
        return CLOCK.engine

    make.partitions = partitions
    fixtures = {each: make for each in inspect.signature(case).parameters if each in ENGINES}
    await case(**fixtures)
    return deaths


def some(last, count, salt):
    """So many of 1 to `last`, spread over them, others for each salt."""
    every = 1 if ALL else max(1, -(-last // count))
    return range(1 + salt % every, last + 1, every)


async def die_at_some(case, wanted, counts, salt, **where):
    """Run the case again with a death, at so many of the times that it passes each point."""
    for point, count in wanted.items():
        for place in some(counts[point], count, salt):
            deaths = Deaths(point, lambda at, place=place: at == place)
            try:
                await go(case, deaths, **where)
            except BaseException as error:
                error.add_note(f"it died at {point} for the {place}. time, {where}")
                raise
            assert deaths.crashes == 1


def of(cases):
    """A test for each case; the number says which of its points are drawn."""
    numbered = [pytest.param(case, at, id=name(case)) for at, case in enumerate(cases)]
    return pytest.mark.parametrize(("case", "salt"), numbered)


@of(SAMPLE)
async def test_a_death_between_two_facts(case, salt):
    counts = (await go(case, Deaths())).counts
    await die_at_some(case, {WRITTEN: 2, DECIDED: 1}, counts, salt)


@of(case for case in SAMPLE if case is not SERVED)
async def test_a_death_after_every_commit(case, salt):
    deaths = await go(case, Deaths(TOLD, lambda k: True, but=OF_A_START))
    assert deaths.crashes


@of(FIRSTS)
async def test_a_death_with_twelve_partitions(case, salt):
    counts = (await go(case, Deaths(), partitions=12)).counts
    await die_at_some(case, {WRITTEN: 1, DECIDED: 1}, counts, salt, partitions=12)


@pytest.mark.kafka
@of(FIRSTS)
async def test_a_death_on_kafka(case, salt, kafka_bootstrap, monkeypatch):
    monkeypatch.setenv("DURATON_TEST_KAFKA", kafka_bootstrap)
    deaths = await go(case, Deaths(WRITTEN, lambda k: k == 1 + salt % 3), log="kafka")
    assert deaths.crashes


def test_every_section_is_in_the_sample():
    found = Counter(section(case) for case in SAMPLE)
    assert found.keys() == CASES.keys()
    assert min(found.values()) >= 2
