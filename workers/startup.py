"""What workers, launchers and dispatchers make sure of before they begin."""

from functools import partial

from pipeline.adapters.fitness import check_database, check_store
from pipeline.monitoring.tracing import check_traces
from pipeline.settings import Settings
from pipeline.starting import until_fit
from workers.broker_check import check_broker


def check_services(settings: Settings) -> None:
    """Make sure that database, broker and store are fit, waiting for a while. Raises: SettingsError, Unfit.

    Leaves no connection behind, so that a pool may be forked then.
    """
    check_traces(settings.traces)
    until_fit(
        (
            partial(check_database, settings.database),
            partial(check_broker, settings),
            partial(check_store, settings.objects),
        ),
        settings.start.patience,
    )
