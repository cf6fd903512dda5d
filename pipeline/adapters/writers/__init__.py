"""The forms in which a finished document is written, each streamed from its pages."""

from collections.abc import Mapping
from types import MappingProxyType

from pipeline.adapters.writers.json_document import write_json
from pipeline.adapters.writers.markdown import write_markdown
from pipeline.adapters.writers.plain_text import write_text
from pipeline.domain.options import OutputFormat
from pipeline.ports.outputs import Output

OUTPUTS: Mapping[OutputFormat, Output] = MappingProxyType(
    {
        OutputFormat.JSON: Output(file_name="document.json", media_type="application/json", write=write_json),
        OutputFormat.MARKDOWN: Output(
            file_name="document.md", media_type="text/markdown; charset=utf-8", write=write_markdown
        ),
        OutputFormat.TEXT: Output(file_name="document.txt", media_type="text/plain; charset=utf-8", write=write_text),
    }
)

__all__ = ["OUTPUTS", "write_json", "write_markdown", "write_text"]
