"""What the server counts, and the same as Prometheus reads it (text format 0.0.4)."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator, Mapping

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Upper bounds of the durations, in seconds."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts of one server. A route is a pattern of the server's own, never text of a client."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.tools: Counter[tuple[str, str]] = Counter()
        self.turns: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.requests[route, status] += 1
        self._seconds[route] = self._seconds.get(route, 0.0) + seconds
        counts = self._buckets.setdefault(route, [0] * (len(BUCKETS) + 1))
        counts[next((at for at, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return all figures; `gauges` are those of the moment, by name without prefix."""
        return "\n".join([*self._counters(), *self._durations(), *_gauges(gauges)]) + "\n"

    def _counters(self) -> Iterator[str]:
        yield "# TYPE clawbot_requests_total counter"
        for (route, status), count in sorted(self.requests.items()):
            yield f'clawbot_requests_total{{route="{route}",status="{status}"}} {count}'
        yield "# TYPE clawbot_tool_calls_total counter"
        for (tool, result), count in sorted(self.tools.items()):
            yield f'clawbot_tool_calls_total{{tool="{tool}",result="{result}"}} {count}'
        yield "# TYPE clawbot_turns_total counter"
        for ended, count in sorted(self.turns.items()):
            yield f'clawbot_turns_total{{status="{ended}"}} {count}'

    def _durations(self) -> Iterator[str]:
        name = "clawbot_request_seconds"
        yield f"# TYPE {name} histogram"
        for route, counts in sorted(self._buckets.items()):
            total = 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += count
                yield f'{name}_bucket{{route="{route}",le="{bound}"}} {total}'
            yield f'{name}_sum{{route="{route}"}} {self._seconds[route]:.6f}'
            yield f'{name}_count{{route="{route}"}} {total}'


def _gauges(gauges: Mapping[str, float]) -> Iterator[str]:
    for name, value in gauges.items():
        yield f"# TYPE clawbot_{name} gauge"
        yield f"clawbot_{name} {value:g}"
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield "# TYPE process_cpu_seconds_total counter"
    yield f"process_cpu_seconds_total {used.ru_utime + used.ru_stime:.2f}"
