"""The Celery application: one module that every entry point uses, so that all resolve the same settings.

Each setting here is there for a measured reason. Rows are the truth and messages are hints, so a lost message costs a
sweep, while a redelivered one would cost a page read twice: hence early acks, no prefetch, no retries, no results.
"""

import os
from typing import Any

from celery import Celery
from kombu.entity import Queue

from pipeline.settings import Settings, SettingsError, read_settings

QUEUES = ("io", "render", "cpu", "gpu")
_PERSISTENT = 2
_GO_BEFORE_OURS = (
    "CELERY_BROKER_URL",
    "CELERY_BROKER_READ_URL",
    "CELERY_BROKER_WRITE_URL",
    "CELERY_RESULT_BACKEND",
)
_LONGEST_TASK_S = 12 * 3600


def transport_options(settings: Settings) -> dict[str, Any]:
    """Return the broker options, the same for every process: the shortest visibility timeout wins for all."""
    return {
        # Above any task. Nothing is unacked while it runs, so this only matters to a message lost between pop and ack.
        "visibility_timeout": _LONGEST_TASK_S,
        "global_keyprefix": settings.broker.key_prefix,
        # Without these a publish to a frozen broker hangs for ever.
        "socket_timeout": 10,
        "socket_connect_timeout": 3,
        "socket_keepalive": True,
        "health_check_interval": 25,
        # A short job's chunk on `cpu` goes before a long one's on `gpu`, where a slot serves both.
        "queue_order_strategy": "priority",
    }


def configuration(settings: Settings) -> dict[str, Any]:
    """Return Celery's settings. Raises: SettingsError, if there is no broker, or not ours alone to say which."""
    if settings.broker.url is None:
        raise SettingsError("broker.url is not set: start the embedded stack (muniment up), or name a Redis server")
    if theirs := [name for name in _GO_BEFORE_OURS if os.environ.get(name)]:
        raise SettingsError(f"{', '.join(theirs)}: Celery would follow that before our settings: unset it")
    return {
        "broker_url": settings.broker.url.get_secret_value(),
        "broker_transport_options": transport_options(settings),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "result_backend": None,
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_acks_late": False,
        "task_reject_on_worker_lost": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_disable_prefetch": True,
        "worker_prefetch_multiplier": 1,
        "worker_pool": "prefork",
        # Replacement children are killed after 4 s otherwise, and imports alone may take longer on a busy host.
        "worker_proc_alive_timeout": 600,
        "task_time_limit": None,
        "task_soft_time_limit": None,
        "task_publish_retry_policy": {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5},
        "task_queues": [Queue(name, routing_key=name) for name in QUEUES],
        "task_default_queue": "io",
        "task_default_delivery_mode": _PERSISTENT,
        # A typo in a route must fail, not make a queue that nobody reads.
        "task_create_missing_queues": False,
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        "task_track_started": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "enable_utc": True,
        "imports": ("workers.tasks",),
    }


def create_app(settings: Settings) -> Celery:
    """Return the application for these settings."""
    app = Celery("muniment", set_as_current=False)
    app.conf.update(configuration(settings))
    return app


def __getattr__(name: str) -> Any:
    # `celery -A workers.app` looks for `app`; nothing reads the environment until it does.
    if name == "app":
        app = globals()["app"] = create_app(read_settings())
        app.set_current()
        return app
    raise AttributeError(name)
