"""What engines take of an accelerator as JSON, for those who plan for it and do not have the models."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pipeline.domain.chunk_memory import EngineMemory
from pipeline.domain.memory import DType, Workload
from pipeline.domain.model_shapes import UnknownArchitecture, shape_of
from pipeline.domain.pixel_memory import BatchModel, PixelModel
from pipeline.domain.sequence_memory import SequenceModel

_PIXELS, _SEQUENCES = "pixels", "sequences"


def needs_to_json(model: EngineMemory) -> dict[str, Any]:
    """Return what an engine takes, as it stands on a device's row."""
    return {"by": _SEQUENCES if isinstance(model, SequenceModel) else _PIXELS, **asdict(model)}


def needs_from_json(row: Mapping[str, Any]) -> EngineMemory:
    """Return it as it was written. Raises: ValueError, if a later version wrote what is not known here."""
    try:
        match row["by"]:
            case "pixels":
                return BatchModel(model=PixelModel(**row["model"]), pages=row["pages"])
            case "sequences":
                shape_of(row["config"])
                return SequenceModel(
                    config=row["config"],
                    dtype=DType(row["dtype"]),
                    together=Workload(**row["together"]),
                    alone=Workload(**row["alone"]),
                )
            case other:
                raise ValueError(f"memory is counted by {other}, which is not known here")
    except (KeyError, TypeError, UnknownArchitecture) as error:
        raise ValueError(f"these needs can't be read here: {error}") from error
