"""The database refuses rows that no sequence of moves can reach, whoever writes them."""

import psycopg
import pytest
from psycopg.errors import CheckViolation
from sqlalchemy import CheckConstraint

from pipeline.adapters.tables import Base

JOB, CHUNK = "00000000-0000-7000-8000-00000000000a", "00000000-0000-5000-8000-00000000000b"
POSSIBLE = f"""
    INSERT INTO job (id, source_uri) VALUES ('{JOB}', 's3://box/1.pdf');
    INSERT INTO chunk (id, job_id, ordinal, first_page, last_page, lane, cost_ms)
        VALUES ('{CHUNK}', '{JOB}', 0, 1, 2, 'cpu', 1000);
    INSERT INTO chunk_attempt (chunk_id, attempt, owner, device_id) VALUES ('{CHUNK}', 1, 'worker', 'here/cpu:0');
    INSERT INTO page (job_id, number, class) VALUES ('{JOB}', 1, 'scan');
    INSERT INTO batch (tenant, label) VALUES ('museum', 'box-17');
    INSERT INTO device (id, host, name, kind, lanes) VALUES ('here/cpu:0', 'here', 'cpu:0', 'cpu', '["cpu"]');
    INSERT INTO engine_memory (engine, revision, device, page_class) VALUES ('reader', '1', 'cuda 24', 'scan');
    INSERT INTO api_key (id, tenant, name, secret_sha256, scopes)
        VALUES ('k1', 'museum', 'desk', repeat('0', 64), '["read"]');
    INSERT INTO upload (id, tenant, api_key_id, idempotency_key, store_id, size_bytes, part_bytes)
        VALUES ('{JOB}', 'museum', 'k1', 'box 17', 'of the store', 9, 8);
    INSERT INTO upload_part (upload_id, number, etag, size_bytes, sha256) VALUES ('{JOB}', 1, 'tag', 8, 'digest');
    INSERT INTO endpoint (tenant, host) VALUES ('museum', 'museum.test');
    INSERT INTO delivery (job_id, tenant, host, url, event, body)
        VALUES ('{JOB}', 'museum', 'museum.test', 'https://museum.test/', 'job.succeeded', '{{}}');
"""

IMPOSSIBLE = {
    "job_has_one_source": "UPDATE job SET upload_key = 'uploads/1'",
    "job_options_is_object": "UPDATE job SET options = '[]'",
    "job_priority_range": "UPDATE job SET priority = 101",
    "job_state_known": "UPDATE job SET state = 'lost'",
    "job_lease_whole": "UPDATE job SET lease_owner = 'worker'",
    "job_lease_only_for_steps": "UPDATE job SET state = 'running', lease_owner = 'worker', lease_until = now()",
    "job_sha256_hex": "UPDATE job SET sha256 = 'ABC'",
    "job_sizes_positive": "UPDATE job SET page_count = 0",
    "job_chunks_counted": "UPDATE job SET chunks_total = 1, chunks_remaining = 2",
    "job_finished_when_terminal": "UPDATE job SET state = 'succeeded'",
    "job_failure_has_cause": "UPDATE job SET state = 'failed', finished_at = now()",
    "job_hours_form": "UPDATE job SET hours = '20:00_06:00'",
    "job_callback_url_form": "UPDATE job SET callback_url = 'https://user:secret@museum.test/'",
    "job_callback_events_known": "UPDATE job SET callback_events = '[\"job.lost\"]'",
    "endpoint_lease_whole": "UPDATE endpoint SET lease_owner = 'somebody'",
    "delivery_state_known": "UPDATE delivery SET state = 'lost', next_at = NULL, ended_at = now()",
    "delivery_ends_or_is_due": "UPDATE delivery SET state = 'dead'",
    "delivery_error_known": "UPDATE delivery SET last_error = 'no idea'",
    "job_lane_known": "UPDATE job SET lane = 'fast'",
    "tenant_weight_positive": "UPDATE tenant SET weight = 0",
    "tenant_bound_not_negative": "UPDATE tenant SET max_queued_pages = -1",
    "tenant_ages_in_range": "UPDATE tenant SET keep_results = '-1 s'",
    "batch_priority_range": "UPDATE batch SET priority = -101",
    "batch_hours_form": "UPDATE batch SET hours = 'at night'",
    "chunk_range_not_empty": "UPDATE chunk SET last_page = 0",
    "chunk_lane_known": "UPDATE chunk SET lane = 'fast'",
    "chunk_state_known": "UPDATE chunk SET state = 'lost'",
    "chunk_lease_while_running": "UPDATE chunk SET state = 'running', attempt = 1",
    "chunk_runs_at_an_attempt": "UPDATE chunk SET state = 'running', lease_owner = 'worker', lease_until = now()",
    "chunk_death_has_cause": "UPDATE chunk SET state = 'dead'",
    "chunk_attempt_outcome_known": "UPDATE chunk_attempt SET outcome = 'fine', ended_at = now()",
    "chunk_attempt_ends_with_outcome": "UPDATE chunk_attempt SET ended_at = now()",
    "page_counted_from_1": "UPDATE page SET number = 0",
    "page_class_known": "UPDATE page SET class = 'letter'",
    "page_outcome_known": "UPDATE page SET outcome = 'fine', segment_key = 'jobs/1'",
    "page_failure_has_cause": "UPDATE page SET outcome = 'failed'",
    "page_result_needs_outcome": "UPDATE page SET segment_key = 'jobs/1'",
    "page_outcome_has_result": "UPDATE page SET outcome = 'recognised'",
    "page_confidence_range": "UPDATE page SET confidence = 1.5",
    "page_reused_whole": "UPDATE page SET reused_page = 1",
    "device_kind_known": "UPDATE device SET kind = 'abacus'",
    "device_state_known": "UPDATE device SET state = 'tired'",
    "engine_memory_bound_whole": "UPDATE engine_memory SET pages = 1",
    "engine_memory_correction_positive": "UPDATE engine_memory SET correction = 0",
    "engine_memory_other_whole": "UPDATE engine_memory SET other_engine = 'other'",
    "api_key_secret_is_hashed": "UPDATE api_key SET secret_sha256 = 'in the clear'",
    "api_key_scopes_known": "UPDATE api_key SET scopes = '[\"everything\"]'",
    "api_key_bounds_positive": "UPDATE api_key SET requests_per_minute = 0",
    "upload_sizes_positive": "UPDATE upload SET size_bytes = 0",
    "upload_part_number": "UPDATE upload_part SET number = 10001",
    "device_lease_whole": "UPDATE device SET lease_until = now()",
}


def test_every_check_has_an_example() -> None:
    checks = {
        constraint.name
        for table in Base.metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint)
    }
    assert checks == set(IMPOSSIBLE)


def test_impossible_rows_are_refused_by_the_check_that_is_there_for_them(owner: psycopg.Connection) -> None:
    owner.execute(POSSIBLE)
    refused_by = {}
    for name, statement in IMPOSSIBLE.items():
        with pytest.raises(CheckViolation) as refusal:
            owner.execute(statement)
        refused_by[name] = refusal.value.diag.constraint_name
    assert refused_by == {name: name for name in IMPOSSIBLE}
