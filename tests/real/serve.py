"""Runs llama.cpp's own server on loopback until its standard input ends: what `ModelServer` starts.

It prints its address, and `ready` once the model is loaded.
"""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--window", type=int, default=8192, help="tokens")
    parser.add_argument("--template", type=Path, help="a file, instead of the model's own")
    parser.add_argument("--embed", action="store_true", help="vectors instead of words")
    parser.add_argument("--hold", help="a named pipe: loading ends when somebody has opened and closed it")
    options = parser.parse_args()
    params = parameters(options)
    params.port = free_port()
    say(f"http://127.0.0.1:{params.port}")
    server = xllamacpp.Server(params)
    say("ready")
    sys.stdin.read()
    del server


def parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    """How the server runs: one call at a time, always with the same answer."""
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {"small"}
    params.n_ctx, params.n_parallel = options.window, 1
    # With more threads than free cores they wait for one another, and an answer takes ten times as long.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.temp = 0.0
    params.ui, params.endpoint_metrics, params.endpoint_slots = False, True, True
    params.verbosity = 3
    if options.template:
        params.chat_template = options.template.read_text(encoding="utf-8")
    if options.embed:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    if options.hold:
        # A table of word sequences that is read while the model is loaded. The empty one changes nothing.
        params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_CACHE]
        params.speculative.ngram_cache.lookup_cache_static = options.hold
    return params


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def free_port() -> int:
    """A port of loopback that nobody has; the server itself tells its own only when the model is loaded."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
