"""Tests that only `make test-all` runs: more seeds, a second server, rarer deaths, more of Spark's sessions.
Every law and every behavior has a test in `make test`.

Patterns are of test ids; a file's name alone means all of it.
"""

THOROUGH = (
    "tests/acceptance/test_backlog.py",
    "tests/acceptance/test_spark_tutorial.py",
    "tests/acceptance/test_types.py",
    "tests/exploration/test_reduction.py",
    "tests/integration/test_closed_tasks.py::test_what_a_worker_records*",
    "tests/integration/test_ingest.py::test_a_driver_killed*",
    "tests/integration/test_ingest.py::test_with_too_many_bad_rows*",
    "tests/integration/test_journal.py::test_a_run_killed*",
    "tests/integration/test_journal.py::test_a_running_journal*",
    "tests/integration/test_journal.py::test_a_stream*",
    "tests/integration/test_nemesis.py::test_outcomes_that_are_not_recorded*",
    "tests/integration/test_redis_trouble.py::test_with_redis_gone_and_lanes_unloaded*",
    "tests/integration/test_snapshots.py::test_by_hand*",
    "tests/integration/test_snapshots.py::test_without_a_readable*",
    "tests/integration/test_spark_cluster.py",
    "tests/integration/test_spark_source.py::test_a_stream*",
    "tests/integration/test_spark_source.py::test_the_examples*",
    "tests/integration/test_stack.py::test_a_broker_that_is_killed_while*",
    "tests/integration/test_stack.py::test_what_was_stopped*",
    "tests/integration/test_worker_hangs.py::test_a_worker_of_which_a_part_hangs*[[]B*",
    "tests/integration/test_worker_hangs.py::test_a_worker_that_was_stopped*",
    "tests/simulation/test_fairness_page.py",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]crash-storm]",
    "tests/simulation/test_seeds.py::test_a_scenario_that_ships_is_met[[]thousand-lanes]",
    "tests/unit/spark_jobs/test_backlog_series.py",
    "tests/unit/spark_jobs/test_reconcile.py",
)
