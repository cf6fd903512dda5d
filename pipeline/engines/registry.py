"""The engines by name: whatever the installed packages offer under the entry point group `muniment.engines`.

An engine's plugin is loaded when it is looked up and the engine itself when it is made, so that one need not be
installed for another to work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from pipeline.domain.chunk_memory import EngineMemory
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.languages import Language
from pipeline.domain.profiles import Profile
from pipeline.ports.engines import EngineOptions, EnginePlugin, Recogniser

GROUP = "muniment.engines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An engine that is to be had here, or the reason why it is not."""

    name: str
    plugin: EnginePlugin | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a job asks of whichever engine reads it."""

    languages: tuple[str, ...] = ()
    """That it is to read, by their codes."""
    profile: Profile | None = None


ASKED_NOTHING = Asked()


def names() -> tuple[str, ...]:
    """Return the names of all engines, able to run here or not. Raises: PipelineError, if the installation has none."""
    return tuple(_offered())


def offers(options: Mapping[str, EngineOptions]) -> list[Offer]:
    """Return all engines with what keeps each from running here; a plugin that can't be loaded is no failure.

    Args: options of the engines by name, from the settings.
    Raises: PipelineError (`engine_unavailable`), if the installation has none.
    """
    return [_offer(name, options.get(name, {})) for name in names()]


def find(name: str) -> EnginePlugin:
    """Return an engine's plugin. Raises: PipelineError (`engine_unavailable`), if there is none that can be loaded."""
    if name not in (offered := _offered()):
        raise _unavailable(f"there is no engine {name}; there are {', '.join(offered)}")
    try:
        plugin = offered[name].load()
    except Exception as error:  # other people's code
        raise _unavailable(f"the plugin of engine {name} can't be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(plugin, EnginePlugin) or plugin.name != name:
        raise _unavailable(f"{offered[name].value} is not the plugin of an engine {name}")
    return plugin


def check(name: str, options: EngineOptions) -> EnginePlugin:
    """Return the plugin of an engine that can run here. Raises: PipelineError (`engine_unavailable`), with the cure."""
    plugin = find(name)
    if problem := plugin.missing(options):
        raise _unavailable(f"engine {name} can't run here: {problem}")
    return plugin


def create(name: str, options: EngineOptions) -> Recogniser:
    """Return an engine that has not loaded anything yet.

    Raises: PipelineError (`engine_unavailable`), if there is no such engine, it can't run here, or its options are
        not its own.
    """
    plugin = check(name, options)
    try:
        return plugin.create(options)
    except (ImportError, ValueError) as error:
        raise _unavailable(f"engine {name} can't be made: {error}") from error


def told(name: str, options: EngineOptions, asked: Asked) -> EngineOptions:
    """Return the options of an engine for a document of which this is asked.

    Raises: PipelineError (`engine_unavailable`), if there is no such engine.
    """
    heard = heard_by(name, asked)
    languages = {"languages": list(heard.languages)} if heard.languages else {}
    profile = {"profile": heard.profile.value} if heard.profile else {}
    return {**options, **languages, **profile}


def heard_by(name: str, asked: Asked) -> Asked:
    """Return that of what is asked which an engine can be told. Raises: as `told`."""
    if asked == ASKED_NOTHING:
        return asked
    plugin = find(name)
    return Asked(
        languages=asked.languages if plugin.is_told_languages else (),
        profile=asked.profile if plugin.is_told_profile else None,
    )


def unread(name: str, options: EngineOptions, languages: Sequence[Language]) -> list[Language]:
    """Return those of the languages that an engine is known not to read.

    Raises: PipelineError (`engine_unavailable`), if there is no such engine.
    """
    known = find(name).languages(options) if languages else None
    return [] if known is None else [language for language in languages if language not in known]


def memory_of(name: str, options: EngineOptions) -> EngineMemory | None:
    """Return what an engine takes of an accelerator, if that can be said before it is loaded, and if there is one."""
    try:
        return find(name).memory(options)
    except (PipelineError, ValueError):
        return None  # whoever makes it says what is wrong


def _offered() -> dict[str, EntryPoint]:
    offered = {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}
    if not offered:
        # They are written down when a package is installed; an editable one may be older than the code it points to.
        raise _unavailable("this installation names no engines: install it again, as `python3 run.py` does by itself")
    return offered


def _offer(name: str, options: EngineOptions) -> Offer:
    try:
        plugin = find(name)
    except PipelineError as error:
        return Offer(name=name, plugin=None, problem=error.message)
    return Offer(name=name, plugin=plugin, problem=plugin.missing(options))


def _unavailable(message: str) -> PipelineError:
    return PipelineError(ErrorCode.ENGINE_UNAVAILABLE, message)
