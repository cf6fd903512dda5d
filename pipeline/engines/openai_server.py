"""`openai-server`: a vision-language model behind an HTTP API like OpenAI's (vLLM, SGLang, TGI, TensorRT-LLM).

The server owns the device; this process holds only pictures and text, and as many questions are open as it was told.
Answers are streamed, so that a model that goes round in circles is stopped, and what it said so far is kept.
"""

import base64
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from typing import Any, Literal

import urllib3
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, HttpUrl

from pipeline.domain.batches import BatchBound
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.loops import loop_at_end
from pipeline.domain.recognition import EngineIdentity
from pipeline.engines.generated.page import page_of
from pipeline.engines.generated.said import Said
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import MemoryGauge, ReadPage, Reads

NAME = "openai-server"
_AWAY = (429, 500, 502, 503, 504)
_PATIENT = urllib3.Retry(
    total=4,
    read=0,
    backoff_factor=0.5,
    backoff_max=10,
    status_forcelist=_AWAY,
    allowed_methods=None,
    raise_on_status=False,
)
"""Of connections and refusals. Where an answer breaks off or never comes, the chunk's attempt ends, not the page."""
_LOOKED_FOR_LOOPS_EVERY = 200
"""Characters."""
_MOST_CHARACTERS = 1_000_000
"""Of one answer, whatever the server thinks of `max_tokens`."""
_MOST_LINE_BYTES = 1024**2


class ServerOptions(BaseModel):
    """Which server and model, and how it is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: HttpUrl
    """Up to and with the version, such as `http://gpu-1:8000/v1`."""
    model: str | None = None
    """One of those that the server lists; not needed where it has only one."""
    key_file: Path | None = None
    """Holds the key; without it `OPENAI_API_KEY`, without that none is sent."""
    prompt: str = "Convert the document page to Markdown. Give only what stands on it, tables as HTML."
    max_tokens: int = Field(default=8192, ge=1)
    temperature: float = Field(default=0.0, ge=0, le=2)
    at_once: int = Field(default=4, ge=1, le=256)
    """Pages that are asked for at the same time."""
    timeout_s: float = Field(default=120, gt=0)
    """Between two signs of life of the server."""
    image: Literal["png", "jpeg"] = "png"
    confidence: bool = True
    """Ask for the probabilities of tokens (`logprobs`)."""
    extra: dict[str, Any] = {}
    """Further fields of the request, as the server has them: `{"repetition_penalty": 1.05}`."""

    def key(self) -> str | None:
        """Return the key. Raises: OSError."""
        if self.key_file:
            return self.key_file.read_text(encoding="utf-8").strip()
        return os.environ.get("OPENAI_API_KEY")


class OpenAiServerEngine:
    """Asks the server for one page after another, several at the same time."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._url = str(options.url).rstrip("/")
        self._pool = urllib3.PoolManager(
            maxsize=options.at_once, timeout=urllib3.Timeout(connect=5, read=options.timeout_s), retries=_PATIENT
        )
        self._model: str | None = None

    @property
    def reads(self) -> Reads:
        """Return that it takes several pages at once."""
        return Reads.BATCH

    @property
    def batch(self) -> BatchBound:
        """Return as many pages as are asked for at the same time."""
        return BatchBound(pages=self._options.at_once, pixels=64_000_000 * self._options.at_once)

    @property
    def gauge(self) -> MemoryGauge | None:
        """Return nothing: what the model takes is the server's."""
        return None

    @property
    def identity(self) -> EngineIdentity:
        """Return what reads; servers tell no more of a model than its name. Raises: Transient."""
        told = self._options.model_dump_json(exclude={"url", "key_file", "at_once", "timeout_s"})
        digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        return EngineIdentity(name=NAME, revision=self._known_model(), settings_digest=digest)

    def warm_up(self) -> None:
        """See that the server is there and has the model. Raises: Transient (`engine_unavailable`)."""
        self._model = None
        self._known_model()

    def read(self, pages: Iterable[PageImage]) -> Iterator[ReadPage]:
        """Yield what the model says of each page, in the order given; a page that it refuses fails, and others go on.

        Raises: RecognitionFailed (`engine_failed`); Transient (`engine_unavailable`), if the server is not to be had.
        """
        together = list(pages)
        with ThreadPoolExecutor(max(1, len(together))) as threads:
            answers = list(threads.map(self._outcome, together))
        numbers = [page.number for page in together]
        together.clear()
        return map(_given, numbers, answers)

    def _outcome(self, page: PageImage) -> ReadPage | RecognitionFailed | Transient:
        try:
            return self._ask(page)
        except (RecognitionFailed, Transient) as error:
            return type(error)(error.code, error.message)

    def _ask(self, page: PageImage) -> ReadPage:
        request = {
            "model": self._known_model(),
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": _data_url(page, self._options.image)}},
                        {"type": "text", "text": self._options.prompt},
                    ],
                }
            ],
            "max_tokens": self._options.max_tokens,
            "temperature": self._options.temperature,
            "stream": True,
            **({"logprobs": True} if self._options.confidence else {}),
            **self._options.extra,
        }
        answer = self._call("POST", "/chat/completions", request)
        try:
            heard = _Heard()
            for event in _events(answer):
                heard.take(event)
                if heard.is_enough:
                    break
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise _away(f"{self._url}: the answer broke off: {type(error).__name__}") from error
        finally:
            # Not back into the pool: a server stops a model when nobody listens any more.
            answer.close()
        if heard.finish is None and not heard.is_enough:
            raise _away(f"{self._url}: the answer ended before it was finished")
        return page_of(page, heard.said(), is_whole=heard.finish == "stop")

    def _known_model(self) -> str:
        if self._model is None:
            answer = self._call("GET", "/models")
            try:
                there = [str(model["id"]) for model in json.loads(answer.data)["data"]]
            except (ValueError, KeyError, TypeError) as error:
                raise _away(f"{self._url}/models is no list of models") from error
            asked = self._options.model
            if asked is None and len(there) == 1:
                [self._model] = there
            elif asked in there:
                self._model = asked
            else:
                raise _away(f"{self._url} has {', '.join(there) or 'no models'}: set the option model to one of them")
        assert self._model is not None  # noqa: S101 - for the type checker
        return self._model

    def _call(self, method: str, path: str, content: dict[str, Any] | None = None) -> urllib3.BaseHTTPResponse:
        try:
            key = self._options.key()
        except OSError as error:
            raise _away(f"{self._options.key_file}: {error.strerror}") from error
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            answer = self._pool.request(
                method,
                self._url + path,
                headers=headers,
                redirect=False,
                preload_content=content is None,
                **({} if content is None else {"json": content}),
            )
        except urllib3.exceptions.HTTPError as error:
            raise _away(f"{self._url} did not answer: {type(error).__name__}") from error
        if answer.status == 200:
            return answer
        answer.drain_conn()
        if answer.status in (400, 413, 422) and content is not None:
            # Of this page: too large a picture, too many tokens. Not its message, which may repeat what was sent.
            raise RecognitionFailed(ErrorCode.ENGINE_FAILED, f"the server refused the page: {answer.status}")
        raise _away(f"{self._url}{path} answered {answer.status} {answer.reason or ''}".rstrip())


@dataclass(slots=True)
class _Heard:
    """What has come of an answer so far."""

    pieces: list[str] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    characters: int = 0
    finish: str | None = None
    is_enough: bool = False
    _looked_at: int = 0

    def take(self, event: dict[str, Any]) -> None:
        """Take what a `chat.completion.chunk` brings. Raises: ValueError, if it is none."""
        try:
            if not event["choices"]:
                return
            choice = event["choices"][0]
            piece = choice["delta"].get("content") or ""
            self.finish = choice.get("finish_reason") or self.finish
            told = (choice.get("logprobs") or {}).get("content") or []
            self.tokens += [str(token["token"]) for token in told]
            self.probabilities += [exp(min(0.0, float(token["logprob"]))) for token in told]
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError("no chat.completion.chunk") from error
        self.pieces.append(piece)
        self.characters += len(piece)
        if self.characters - self._looked_at >= _LOOKED_FOR_LOOPS_EVERY:
            self._looked_at = self.characters
            self.pieces = ["".join(self.pieces)]
            self.is_enough = self.characters > _MOST_CHARACTERS or loop_at_end(self.pieces[0]) is not None

    def said(self) -> Said:
        """Return it; probabilities only where they are of just this text."""
        text = "".join(self.pieces)
        if "".join(self.tokens) != text:
            return Said(text=text)
        return Said(text=text, tokens=self.tokens, probabilities=self.probabilities)


def _events(answer: urllib3.BaseHTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield the data of server-sent events until `[DONE]`. Raises: ValueError."""
    waiting = b""
    for piece in answer.stream(65536):
        *lines, waiting = (waiting + piece).split(b"\n")
        if len(waiting) > _MOST_LINE_BYTES:
            raise ValueError("a line without an end")
        for line in lines:
            name, _, data = line.strip().partition(b":")
            if name != b"data":
                continue
            if data.strip() == b"[DONE]":
                return
            event = json.loads(data)
            if not isinstance(event, dict):
                raise ValueError("no object")  # noqa: TRY004 - of the server's
            yield event


def _data_url(page: PageImage, form: str) -> str:
    written = io.BytesIO()
    Image.fromarray(page.pixels).save(written, form.upper(), **({"quality": 92} if form == "jpeg" else {}))
    return f"data:image/{form};base64,{base64.b64encode(written.getvalue()).decode()}"


def _given(number: int, answer: ReadPage | RecognitionFailed | Transient) -> ReadPage:
    if isinstance(answer, RecognitionFailed):
        raise RecognitionFailed(answer.code, f"page {number}: {answer.message}")
    if isinstance(answer, Transient):
        raise answer
    return answer


def _away(message: str) -> Transient:
    return Transient(ErrorCode.ENGINE_UNAVAILABLE, message)
