"""Reports of dead and silent workers and of embedders in trouble: the same facts on PostgreSQL."""

from tests.acceptance.bad_days.test_reports import (  # noqa: F401 the same facts hold on every database
    test_a_frozen_worker_is_reported_after_three_heartbeats,
    test_a_halted_embedder_names_its_way_out,
    test_a_killed_process_is_dead_in_every_report_at_once,
    test_a_refused_key_is_told_in_the_providers_words,
    test_an_unknown_model_is_told,
)
