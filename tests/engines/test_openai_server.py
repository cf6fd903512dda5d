"""A model behind an API like OpenAI's, against a real HTTP server that speaks it."""

import base64
import io
import json
import math
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image

from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.engines.openai_server import OpenAiServerEngine, ServerOptions
from pipeline.engines.registry import check, create
from pipeline.ports.documents import PageImage


class Server(ThreadingHTTPServer):
    """Answers as its `answer` says, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.models = ["reader"]
        self.asked = []
        self.hung_up = threading.Event()
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.plain(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.server.models]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append((dict(self.headers), request))
            turn = len(self.server.asked)
        self.server.answer(self, request, turn)

    def plain(self, status, content, **headers):
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, pieces, finish="stop", *, probabilities=(), done=True):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for number, piece in enumerate(pieces):
                choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
                if probabilities:
                    choice["logprobs"] = {"content": [{"token": piece, "logprob": math.log(probabilities[number])}]}
                self.event({"object": "chat.completion.chunk", "choices": [choice]})
            if finish:
                self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            if done:
                self.wfile.write(b': a comment\n\ndata: {"choices": [], "usage": {}}\n\ndata: [DONE]\n\n')
        except (BrokenPipeError, ConnectionResetError):
            self.server.hung_up.set()

    def event(self, content):
        self.wfile.write(f"data: {json.dumps(content)}\n\n".encode())
        self.wfile.flush()


@contextmanager
def serving(answer):
    with Server(answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def page(number=1, shade=255):
    return PageImage(number=number, pixels=np.full((60, 40, 3), shade, np.uint8), dpi=72)


def engine(server, **options):
    return OpenAiServerEngine(ServerOptions(url=server.url, **options))


def seen(request):
    """Return the shade of the picture that was sent."""
    [message] = request["messages"]
    url = message["content"][0]["image_url"]["url"]
    kind, _, data = url.partition(";base64,")
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        return kind, image.size, image.getpixel((0, 0))[0]


def test_a_page_is_asked_for_as_the_protocol_says_and_its_answer_read():
    with serving(lambda it, *_: it.stream(["# The ", "Swan"], probabilities=[0.5, 0.9])) as server:
        [read] = engine(server, prompt="Read.", extra={"repetition_penalty": 1.1}).read([page()])
        [(_, request)] = server.asked
    assert (request["model"], request["stream"], request["temperature"], request["logprobs"]) == (
        "reader",
        True,
        0,
        True,
    )
    assert (request["max_tokens"], request["repetition_penalty"]) == (8192, 1.1)
    assert request["messages"][0]["content"][1] == {"type": "text", "text": "Read."}
    assert seen(request) == ("data:image/png", (40, 60), 255)
    [block] = read.blocks
    assert (block.kind, block.text, block.level) == ("heading", "The Swan", 1)
    assert block.lines[0].confidence == pytest.approx(0.7)
    assert read.flags == ()


def test_pages_are_asked_for_at_the_same_time_and_come_in_order():
    together = threading.Barrier(3, timeout=20)

    def answer(it, request, turn):
        together.wait()
        it.stream([f"shade {seen(request)[2]}"])

    with serving(answer) as server:
        pages = [page(number, shade) for number, shade in ((7, 10), (8, 20), (9, 30))]
        read = list(engine(server, at_once=3).read(pages))
    assert [(one.number, one.blocks[0].text) for one in read] == [(7, "shade 10"), (8, "shade 20"), (9, "shade 30")]


def test_a_model_that_goes_in_circles_is_hung_up_on():
    def answer(it, *_):
        it.stream(["It begins. ", *["and so on, "] * 10_000_000])

    with serving(answer) as server:
        [read] = engine(server).read([page()])
        assert server.hung_up.wait(20)
    assert [flag.name for flag in read.flags] == ["repetition"]
    assert read.blocks[0].text == "It begins. and so on,"


def test_tokens_that_run_out_are_said():
    with serving(lambda it, *_: it.stream(["half a sent"], finish="length")) as server:
        [read] = engine(server).read([page()])
    assert [flag.name for flag in read.flags] == ["truncated"]
    assert read.blocks[0].text == "half a sent"


def outcomes(reading):
    found = []
    while True:
        try:
            found.append(next(reading).blocks[0].text)
        except StopIteration:
            return found
        except RecognitionFailed as error:
            found.append(error.code)


def test_a_page_that_the_server_refuses_fails_alone_and_its_message_is_not_repeated():
    def answer(it, request, turn):
        if seen(request)[2] == 20:
            it.plain(400, {"error": {"message": "what stands on the page"}})
        else:
            it.stream(["read"])

    with serving(answer) as server:
        reading = engine(server).read([page(1, 10), page(2, 20), page(3, 30)])
        assert outcomes(reading) == ["read", ErrorCode.ENGINE_FAILED, "read"]
        with pytest.raises(RecognitionFailed) as refused:
            next(engine(server).read([page(2, 20)]))
    assert refused.value.message == "page 2: the server refused the page: 400"


def test_a_server_that_is_busy_is_asked_again():
    def answer(it, _request, turn):
        if turn < 3:
            it.plain(503 if turn == 1 else 429, {}, Retry_After="0")
        else:
            it.stream(["read"])

    with serving(answer) as server:
        [read] = engine(server).read([page()])
        assert len(server.asked) == 3
    assert read.blocks[0].text == "read"


BROKEN = {
    "ends without an end": lambda it, *_: it.stream(["half"], finish=None, done=False),
    "is no JSON": lambda it, *_: (it.stream([], finish=None, done=False), it.wfile.write(b"data: {oops\n\n")),
    "is of another kind": lambda it, *_: (it.stream([], finish=None, done=False), it.event({"choices": [{}]})),
    "is an error": lambda it, *_: it.plain(401, {}),
    "is moved": lambda it, *_: it.plain(302, {}, Location="http://127.0.0.1:9/"),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=list(BROKEN))
def test_an_answer_that_is_none_ends_the_attempt_and_not_the_page(answer):
    with serving(answer) as server, pytest.raises(Transient) as away:
        list(engine(server).read([page()]))
    assert away.value.code is ErrorCode.ENGINE_UNAVAILABLE


def test_a_server_that_is_not_there_is_said_before_anything_is_read():
    with serving(None) as server:
        there = engine(server)
        there.warm_up()
        assert there.identity.revision == "reader"
    with pytest.raises(Transient, match="did not answer"):
        OpenAiServerEngine(ServerOptions(url="http://127.0.0.1:9/v1")).warm_up()


@pytest.mark.parametrize(
    ("models", "asked", "known"),
    [(["a", "b"], "b", "b"), (["a"], None, "a"), (["a", "b"], None, None), (["a"], "c", None), ([], None, None)],
)
def test_the_model_is_one_of_those_that_the_server_has(models, asked, known):
    with serving(None) as server:
        server.models = models
        if known:
            assert engine(server, model=asked).identity.revision == known
        else:
            with pytest.raises(Transient, match="set the option model"):
                engine(server, model=asked).warm_up()


def test_the_key_comes_from_a_file_or_the_environment_and_is_shown_nowhere(tmp_path, monkeypatch):
    (tmp_path / "key").write_text("sk-of-a-file\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    with serving(lambda it, *_: it.stream(["read"])) as server:
        list(engine(server).read([page()]))
        list(engine(server, key_file=tmp_path / "key").read([page()]))
        sent = [headers["Authorization"] for headers, _ in server.asked]
        with pytest.raises(Transient, match="No such file"):
            list(engine(server, key_file=tmp_path / "no-key").read([page()]))
    assert sent == ["Bearer sk-of-the-environment", "Bearer sk-of-a-file"]


def test_the_registry_says_what_is_missing_and_what_is_wrong():
    with pytest.raises(Exception, match="set its option `url`"):
        check("openai-server", {})
    with pytest.raises(Exception, match="at_once"):
        create("openai-server", {"url": "http://gpu-1:8000/v1", "at_once": 0})
    assert create("openai-server", {"url": "http://gpu-1:8000/v1"}).batch.pages == 4
