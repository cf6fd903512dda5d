"""Servers that are there are made usable: by command, again and again, and beside what others have set up."""

import subprocess
import sys

from minio.commonconfig import ENABLED, Filter
from minio.lifecycleconfig import Expiration, LifecycleConfig, Rule

from pipeline.adapters.database import revisions
from pipeline.embedded.prepare import store_client


def prepare(environment):
    command = [sys.executable, "-m", "pipeline.cli", "prepare"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_named_servers_are_made_usable(empty_database_url, objects, environment):
    client = store_client(objects)
    bucket = f"{objects.bucket}-new"
    given = {"MUNIMENT_DATABASE__URL": empty_database_url, "MUNIMENT_OBJECTS__BUCKET": bucket}
    said = prepare({**environment, **given})
    at, needed = revisions(empty_database_url)
    assert at == needed
    assert f"at revision {needed}" in said
    [rule] = client.get_bucket_lifecycle(bucket).rules
    assert (rule.rule_filter.prefix, rule.expiration.days) == ("uploads/", 365 + 7)

    other = Rule(ENABLED, rule_id="theirs", rule_filter=Filter(prefix="theirs/"), expiration=Expiration(days=3))
    client.set_bucket_lifecycle(bucket, LifecycleConfig([rule, other]))
    prepare({**environment, **given, "MUNIMENT_RETENTION__UPLOADS": str(86400)})
    rules = {rule.rule_id: rule.expiration.days for rule in client.get_bucket_lifecycle(bucket).rules}
    assert rules == {"theirs": 3, "muniment-uploads": 366}
