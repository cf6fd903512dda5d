"""Whether somebody already serves the system that the settings name."""

from pipeline.adapters.admissions import PostgresAdmissions
from pipeline.adapters.database import connect
from pipeline.domain.errors import Transient
from pipeline.settings import default_home, read_settings


def someone_serves() -> bool:
    """Whether the servers are named and workers hold devices there; a stack in our own home is shared another way."""
    from pipeline.embedded.state import read_state

    settings = read_settings()
    if read_state(default_home()) is not None or settings.database.url is None or settings.objects.endpoint is None:
        return False
    engine = connect(settings.database.url.get_secret_value(), actor="muniment cli", pool_size=1)
    try:
        return bool(PostgresAdmissions(engine).live_devices())
    except Transient:
        # Starting a stack over these servers will say what is wrong with them.
        return False
    finally:
        engine.dispose()
