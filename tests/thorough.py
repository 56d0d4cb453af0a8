"""Tests that only `make test-all` runs: more seeds, a second server, rarer deaths, more of Spark's sessions, and more
values of a parameter of which `make test` takes one. Every law and every behavior has a test in `make test`.

Besides these patterns, `make test-all` runs the ledger's contract in the memory of the process and on every server
installed (tests/contract/conftest.py), where `make test` runs it on the first server; and 1,000 seeds of the
simulator, where `make test` runs 50.

Patterns are of test ids; a file's name alone means all of it.
"""

THOROUGH = (
    "tests/acceptance/test_backlog.py",
    "tests/acceptance/test_spark_tutorial.py",
    "tests/acceptance/test_steering.py::test_what_measures_says_so_while_it_does[[]command[12]]",
    "tests/acceptance/test_types.py",
    "tests/contract/test_ledger_waiting.py::test_a_thousand_lanes_share_while_a_hundred_are_held[[]cap:channel:null]",
    "tests/exploration/test_reduction.py",
    "tests/exploration/test_settle_orders.py::test_every_order_ends_well[[]cancelled in a shared lane]",
    "tests/exploration/test_settle_orders.py::test_every_order_ends_well[[]two envelopes]",
    "tests/integration/test_audiences.py::test_a_task_that_is_cancelled_half_submitted_ends_cancelled[[]False]",
    "tests/integration/test_closed_tasks.py::test_what_a_worker_records*",
    "tests/integration/test_delivery_http.py::test_what_waits_in_a_retry_lane_does_not_hold_up_the_end[[]high]",
    "tests/integration/test_fail_over.py::test_what_the_replica_lacks*[[]valkey]",
    "tests/integration/test_ingest.py::test_a_driver_killed*",
    "tests/integration/test_ingest.py::test_with_too_many_bad_rows*",
    "tests/integration/test_journal.py::test_a_run_killed*",
    "tests/integration/test_journal.py::test_a_running_journal*",
    "tests/integration/test_journal.py::test_a_stream*",
    "tests/integration/test_nemesis.py::test_outcomes_that_are_not_recorded*",
    "tests/integration/test_redis_slow.py::test_a_slow_redis_costs_a_fifth_of_the_rate_at_most[[]0-*",
    "tests/integration/test_redis_trouble.py::test_a_full_redis*[[]valkey]",
    "tests/integration/test_redis_trouble.py::test_with_redis_gone_and_lanes_unloaded*",
    "tests/integration/test_snapshots.py::test_by_hand*",
    "tests/integration/test_snapshots.py::test_without_a_readable*",
    "tests/integration/test_spark_cluster.py",
    "tests/integration/test_spark_source.py::test_a_stream*",
    "tests/integration/test_spark_source.py::test_the_examples*",
    "tests/integration/test_stack.py::test_a_broker_that_is_killed_while*",
    "tests/integration/test_stack.py::test_what_was_stopped*",
    "tests/integration/test_submit_resume.py::test_a_killed_submission*[[]end]",
    "tests/integration/test_submit_resume.py::test_a_killed_submission*[[]more]",
    "tests/integration/test_task_controls.py::test_a_start_time_is_waited_for[[]medium]",
    "tests/integration/test_worker_hangs.py::test_a_worker_of_which_a_part_hangs*[[]B*",
    "tests/integration/test_worker_hangs.py::test_a_worker_of_which_a_part_hangs*[[]HangsTheLedger]",
    "tests/integration/test_worker_hangs.py::test_a_worker_of_which_a_part_hangs*[[]IgnoresCancelling]",
    "tests/integration/test_worker_hangs.py::test_a_worker_that_was_stopped*",
    "tests/simulation/test_fairness_page.py",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]all-backlogged]",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]apps]",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]caps]",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]crash-storm]",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]one-worker-has-high]",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]thousand-lanes]",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]weight-change]",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]workers-come-and-go]",
    "tests/unit/producers/test_submitters.py::test_a_submitter_that_stops_anywhere*[[]list-stream-[gns]*",
    "tests/unit/producers/test_submitters.py::test_a_submitter_that_stops_anywhere*[[]stream-list-*",
    "tests/unit/producers/test_targets_file.py::test_a_large_array_is_read_in_parts[[], ]",
    "tests/unit/spark_jobs/test_backlog_series.py",
    "tests/unit/spark_jobs/test_reconcile.py",
)
