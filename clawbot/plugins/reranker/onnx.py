"""The only import of onnxruntime and tokenizers: a small model on this machine that scores texts for a question.

It is a cross-encoder, which reads the question and a text together, or a model that makes vectors of sentences; which
one, the shape of its answer shows. Its files come from the user and may be broken: whatever goes wrong in them is a
`RerankError`, and a run that takes too long is ended.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from clawbot.config.schema_memory import OnnxSettings
from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.extras import install_command
from clawbot.local_model.pull import Source, pull
from clawbot.local_model.store import ModelStore
from clawbot.memory.arrays import numpy
from clawbot.memory.search.protocols import MAX_RERANKED, RerankerContext
from clawbot.plugins.reranker.model import RerankError

if TYPE_CHECKING:
    from clawbot.memory.arrays import Floats

log = logging.getLogger(__name__)

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
TOKENS = 512
"""Of question and text together; more are cut off."""
TEXT_CHARS = 4_000
"""Characters that are read at all: they hold the tokens."""
BATCH = 10
"""Texts in one run: between two runs, a search that has waited too long is given up."""
FIRSTS = 5
"""How fast the reciprocal of a rank falls where two orders are joined."""
VECTOR_SHARE = 0.1
"""Weight of the order by vectors next to that of the ranking, which knows them and more: alone it is far worse."""
LARGEST_MODEL = 2**31 - 1
"""Bytes, the most that the format can hold."""
LARGEST_TOKENIZER = 64 * 1024**2
RETRY_SECONDS = 60.0
"""After a failure nothing is loaded for so long: a search each second must not read a broken file each second."""
TRY_SECONDS = 10.0
"""Time limit of the first run, of two letters."""
LOAD_SECONDS = 20.0
"""Time limit of the check whether it works."""
MISSING = "onnxruntime is not installed, so no model orders the results"
_CHECK = "Check memory_search.query.onnx in the settings."
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_SENTENCE = ("sentence_embedding", "logits")
_PADS = ("[PAD]", "<pad>")
_INTEGERS = {"tensor(int64)": "int64", "tensor(int32)": "int32"}


def open_onnx(context: RerankerContext) -> OnnxReranker:
    """Loads nothing yet."""
    return OnnxReranker(context.settings.onnx, context.folder)


class Files(Struct, frozen=True):
    """The two files of a model."""

    model: Path
    tokenizer: Path


class OnnxReranker:
    """A `Reranker` with the model of `settings`; what is downloaded is in `folder`. Belongs to the event loop.

    Nothing is imported or read before the first order, and then on a thread that nobody has to wait for. One order at a
    time: a search that comes while the model is busy keeps its order.
    """

    def __init__(self, settings: OnnxSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._scorer: Scorer | None = None
        self._failed: RerankError | None = None
        self._retry_at = 0.0
        self._running: asyncio.Future[Any] | None = None
        self._progress = ""

    async def order(self, queries: Sequence[str], texts: Sequence[str]) -> Sequence[int] | None:
        scorer = await self._within(self._settings.timeout)
        run = Run()
        scores = self._begin(lambda: scorer.scores(queries[0], texts[:MAX_RERANKED], run))
        try:
            async with deadline(self._settings.timeout):
                found = await asyncio.shield(scores)
        except TimeoutError as error:
            limit = f"{self._settings.timeout:g} s"
            raise RerankError(f"The small model did not order the results within {limit}.") from error
        finally:
            run.stop()
        ranks = dict(zip(sorted(range(len(found)), key=lambda number: -found[number]), range(len(found)), strict=True))
        if scorer.reads_pairs:
            return list(ranks)
        return sorted(ranks, key=lambda number: -1 / (FIRSTS + number) - VECTOR_SHARE / (FIRSTS + ranks[number]))

    async def problem(self) -> str:
        """See `Reranker`. Loads the model, but downloads nothing."""
        try:
            if not self._settings.is_url or self._downloaded() is not None:
                await self._within(LOAD_SECONDS)
            else:
                await asyncio.to_thread(_demand_installed)
        except RerankError as error:
            return str(error)
        return ""

    async def _within(self, seconds: float) -> Scorer:
        """Return the model, loaded within `seconds`; loading goes on afterwards. Raises RerankError."""
        if self._scorer is not None and (self._running is None or self._running.done()):
            return self._scorer
        if self._failed is not None and time.monotonic() < self._retry_at:
            raise _again(self._failed)
        running = self._running
        if running is None or running.done():
            running = self._begin(self._load)
        await asyncio.wait([running], timeout=seconds)
        if not running.done():
            what = "is busy with an earlier search" if self._scorer is not None else self._progress or "is being loaded"
            raise RerankError(f"The small model {what}: it did not order these results.")
        if self._scorer is None:
            raise _again(self._failed)
        return self._scorer

    def _begin(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Return `work` on a thread of its own, which does not keep the program from ending."""
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()

        def run() -> None:
            try:
                done.set_result(work())
            except RerankError as error:
                done.set_exception(error)
            except BaseException as error:  # panics of tokenizers are no Exception
                log.exception("the model that orders results broke")
                done.set_exception(RerankError(f"The small model broke: {_reason(error)}.", hint=_CHECK))

        threading.Thread(target=run, name="memory-rerank", daemon=True).start()
        self._running = running = asyncio.wrap_future(done)
        running.add_done_callback(_on_end)
        return running

    def _load(self) -> None:
        """Get and read the model. Blocks. Raises RerankError, which is kept for a while."""
        try:
            self._scorer = Scorer(self._files(), self._settings)
        except RerankError as error:
            self._fail(error)
            raise
        except BaseException as error:
            failed = RerankError(f"The small model can't be loaded: {_reason(error)}.", hint=_CHECK)
            self._fail(failed)
            raise failed from error

    def _fail(self, error: RerankError) -> None:
        self._failed, self._retry_at = error, time.monotonic() + RETRY_SECONDS
        log.warning("no model orders the results: %s", error)

    def _files(self) -> Files:
        _demand_installed()
        settings = self._settings
        if not settings.is_url:
            folder = Path(settings.model or "").expanduser()
            return Files(folder / MODEL, folder / TOKENIZER)
        return self._downloaded() or self._download()

    def _downloaded(self) -> Files | None:
        stores, names = self._stores(), self._names()
        found = [store.path(name) for store, name in zip(stores, names, strict=True)]
        return Files(*found) if all(path.is_file() for path in found) else None

    def _stores(self) -> tuple[ModelStore, ModelStore]:
        return ModelStore(self._folder, ".onnx", b""), ModelStore(self._folder, ".json", b"{")

    def _names(self) -> tuple[str, str]:
        settings = self._settings
        return (settings.sha256 or "").lower(), (settings.tokenizer_sha256 or "").lower()

    def _download(self) -> Files:
        """Blocks. Raises RerankError."""
        found = []
        urls = (self._settings.model or "", self._settings.tokenizer or "")
        for store, name, url in zip(self._stores(), self._names(), urls, strict=True):
            try:
                pull(Source(name, url, name), store, self._watch)
            except (ClawbotError, OSError) as error:
                raise RerankError(f"The small model can't be downloaded: {error}", hint=_CHECK) from error
            found.append(store.path(name))
        self._progress = ""
        return Files(*found)

    def _watch(self, done: int, size: int | None) -> None:
        share = f" ({done / size:.0%})" if size else ""
        self._progress = f"is being downloaded{share}"


class Run:
    """One order, which may be stopped from another thread."""

    def __init__(self) -> None:
        self.stopped = False
        self.options: Any = None

    def stop(self) -> None:
        """End it soon, even during a run of the model."""
        self.stopped = True
        if self.options is not None:
            self.options.terminate = True


class Scorer:
    """A loaded model. Everything blocks."""

    def __init__(self, files: Files, settings: OnnxSettings) -> None:
        """Raises RerankError, and whatever the libraries raise."""
        model = _read(files.model, LARGEST_MODEL, settings.sha256)
        tokenizer = _read(files.tokenizer, LARGEST_TOKENIZER, settings.tokenizer_sha256)
        # Deferred: a quarter of a second, for the few who ask for it.
        import onnxruntime

        self._runtime = onnxruntime
        self._tokenizer = _tokenizer(tokenizer, files.tokenizer)
        try:
            self._session = onnxruntime.InferenceSession(
                model, _options(onnxruntime, settings.threads), providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise RerankError(f"{files.model} is no model, or a broken one: {_reason(error)}.", hint=_CHECK) from error
        self._inputs = self._known_inputs(files.model)
        outputs = [each.name for each in self._session.get_outputs()]
        self._output = next((name for name in _SENTENCE if name in outputs), outputs[0])
        self._pad = next((found for pad in _PADS if (found := self._tokenizer.token_to_id(pad)) is not None), 0)
        self.reads_pairs = self._tried(files.model)

    def scores(self, query: str, texts: Sequence[str], run: Run) -> list[float]:
        """How well each text answers the question: more is better. Raises RerankError."""
        if self.reads_pairs:
            pairs = [(query[:TEXT_CHARS], text[:TEXT_CHARS]) for text in texts]
            found = self._batches(self._tokenizer.encode_batch(pairs), run).reshape(len(texts), -1)
            scores = found[:, -1] - found[:, 0] if found.shape[1] == 2 else found[:, 0]
        else:
            vectors = self._batches(self._tokenizer.encode_batch([each[:TEXT_CHARS] for each in (query, *texts)]), run)
            scores = vectors[1:] @ vectors[0]
        if not numpy().isfinite(scores).all():
            raise RerankError("The small model answers with what is no number.", hint=_CHECK)
        return [float(score) for score in scores]

    def _known_inputs(self, path: Path) -> dict[str, str]:
        """The inputs by name, each with its type of number. Raises RerankError for those of another kind of model."""
        inputs = {each.name: _INTEGERS.get(each.type, "") for each in self._session.get_inputs()}
        if _INPUTS[0] not in inputs or not set(inputs) <= set(_INPUTS) or not all(inputs.values()):
            raise RerankError(
                f"{path} takes {', '.join(sorted(inputs))}; expected are integers as {', '.join(_INPUTS)}.",
                hint=_CHECK,
            )
        return inputs

    def _tried(self, path: Path) -> bool:
        """Return whether the model scores pairs, not makes vectors. Raises RerankError, also for a run without end."""
        run = Run()
        ending = threading.Timer(TRY_SECONDS, run.stop)
        ending.daemon = True
        ending.start()
        try:
            shape_of, _ = self._run([self._tokenizer.encode("a", "b")], run)
        finally:
            ending.cancel()
        if shape_of.ndim in (1, 2, 3) and shape_of.shape[0] == 1:
            return shape_of.ndim == 1 or (shape_of.ndim == 2 and shape_of.shape[1] <= 2)
        raise RerankError(
            f"{path} answers with the shape {shape_of.shape}, which is no score and no vector.", hint=_CHECK
        )

    def _batches(self, encoded: Sequence[Any], run: Run) -> Floats:
        """One row of scores or a unit vector for each text `(n, …)`; texts of like length share a run."""
        np = numpy()
        by_length = sorted(range(len(encoded)), key=lambda number: len(encoded[number].ids))
        rows: list[Floats] = []
        for start in range(0, len(by_length), BATCH):
            if run.stopped:
                raise RerankError("The search is over.")
            rows.extend(self._rows([encoded[number] for number in by_length[start : start + BATCH]], run))
        back = np.empty(len(by_length), np.int64)
        back[by_length] = np.arange(len(by_length))
        found: Floats = np.stack(rows)[back]
        return found

    def _rows(self, encoded: Sequence[Any], run: Run) -> Floats:
        answer, mask = self._run(encoded, run)
        if len(answer) != len(encoded):
            raise RerankError(f"The small model gave {len(answer)} answers for {len(encoded)} texts.", hint=_CHECK)
        if self.reads_pairs:
            return answer.reshape(len(encoded), -1)
        if answer.ndim == 3:
            answer = (answer * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1)[:, None]
        lengths: Floats = numpy().linalg.norm(answer, axis=1, keepdims=True)
        unit: Floats = answer / numpy().maximum(lengths, 1e-9)
        return unit

    def _run(self, encoded: Sequence[Any], run: Run) -> tuple[Floats, Floats]:
        """Return the model's output for texts, and the mask of their tokens `(n, t)`. Raises RerankError."""
        np = numpy()
        longest = max(1, *(len(each.ids) for each in encoded))

        def padded(rows: Sequence[Sequence[int]], pad: int) -> Any:
            return np.array([[*row, *[pad] * (longest - len(row))] for row in rows])

        mask = padded([each.attention_mask for each in encoded], 0)
        values = {
            "input_ids": padded([each.ids for each in encoded], self._pad),
            "attention_mask": mask,
            "token_type_ids": padded([each.type_ids for each in encoded], 0),
        }
        run.options = options = self._runtime.RunOptions()
        options.log_severity_level = _FATAL
        if run.stopped:
            options.terminate = True
        try:
            given = {name: values[name].astype(kind) for name, kind in self._inputs.items()}
            (answer,) = self._session.run([self._output], given, options)
        except Exception as error:
            reason = "it took too long" if run.stopped else _reason(error)
            raise RerankError(f"The small model can't be run: {reason}.", hint=_CHECK) from error
        if not isinstance(answer, np.ndarray) or answer.dtype.kind != "f":
            raise RerankError("The small model answers with what is no number.", hint=_CHECK)
        return answer.astype(np.float32), mask.astype(np.float32)


_FATAL = 4
_MAX_REASON = 200


def _demand_installed() -> None:
    """Raise RerankError with the command that installs the extra if it is missing. Blocks."""
    if find_spec("onnxruntime") is None:
        raise RerankError(f"{MISSING}.", hint=f"Install it with: {install_command('rerank')}")


def _options(runtime: Any, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Waiting threads would take the processor from everybody else; what one search needed would remain allocated.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    options.log_severity_level = _FATAL
    return options


def _tokenizer(content: bytes, path: Path) -> Any:
    """Raises RerankError."""
    # Deferred: only with the model.
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(content)
        tokenizer.no_padding()
        tokenizer.enable_truncation(TOKENS)
    except BaseException as error:  # its panics are no Exception
        raise RerankError(f"{path} is no tokenizer, or a broken one: {_reason(error)}.", hint=_CHECK) from error
    return tokenizer


def _read(path: Path, largest: int, sha256: str | None) -> bytes:
    """Return the content of a file, which is then what was checked. Raises RerankError."""
    try:
        if path.stat().st_size > largest:
            raise RerankError(f"{path} has more than {largest >> 20:,} MiB.", hint=_CHECK)
        content = path.read_bytes()
    except OSError as error:
        raise RerankError(f"{path} can't be read: {error.strerror}.", hint=_CHECK) from error
    found = hashlib.sha256(content).hexdigest()
    if sha256 and found != sha256.lower():
        raise RerankError(f"{path} has the SHA-256 {found}; the settings expect {sha256.lower()}.", hint=_CHECK)
    return content


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return (text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}…").rstrip(".")


def _again(error: RerankError | None) -> RerankError:
    """Return the same without the earlier traceback, which would grow with every search."""
    return RerankError(error.message, hint=error.hint) if error is not None else RerankError("It can't be loaded.")


def _on_end(future: asyncio.Future[Any]) -> None:
    """Keep asyncio from complaining about a failure that nobody waits for: it is kept for the next search."""
    if not future.cancelled():
        future.exception()
