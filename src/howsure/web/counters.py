"""Numbers about a running server, as Prometheus reads them."""

from __future__ import annotations

import time
from collections import Counter

__all__ = ["Counters"]

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds


class Counters:
    """Requests, their seconds, and the answers that were given. Touched by the event loop alone."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.answers: Counter[str] = Counter()
        self.pictures = 0
        self._slower: Counter[float] = Counter()  # by bucket, cumulative
        self._seconds, self._timed = 0.0, 0

    def count(self, method: str, route: str, status: int, *, seconds: float) -> None:
        """One more response."""
        self.requests[method, route, status] += 1
        self._seconds, self._timed = self._seconds + seconds, self._timed + 1
        for bucket in BUCKETS:
            self._slower[bucket] += seconds <= bucket

    def text(self, *, items: int, pending: int) -> str:
        """The exposition format, version 0.0.4."""
        lines = ["# HELP howsure_requests_total Responses.", "# TYPE howsure_requests_total counter"]
        for (method, route, status), count in sorted(self.requests.items()):
            marks = f'method="{_quoted(method)}",route="{_quoted(route)}",status="{status}"'
            lines.append(f"howsure_requests_total{{{marks}}} {count}")
        name = "howsure_request_seconds"
        lines += [f"# HELP {name} Time to the end of a response.", f"# TYPE {name} histogram"]
        lines += [f'{name}_bucket{{le="{bucket}"}} {self._slower[bucket]}' for bucket in BUCKETS]
        lines += [f'{name}_bucket{{le="+Inf"}} {self._timed}']
        lines += [f"{name}_sum {self._seconds:.6f}", f"{name}_count {self._timed}"]
        lines += ["# HELP howsure_answers_total Answers to queries.", "# TYPE howsure_answers_total counter"]
        lines += [f'howsure_answers_total{{answer="{kind}"}} {count}' for kind, count in sorted(self.answers.items())]
        processor = f"{time.process_time():.3f}"
        for kind, what, about, value in (
            ("counter", "process_cpu_seconds_total", "Seconds of the processor, of every thread.", processor),
            ("counter", "howsure_pictures_total", "Pictures that were embedded.", self.pictures),
            ("gauge", "howsure_gallery_items", "Items in the gallery.", items),
            ("gauge", "howsure_pending", "Requests that a worker has or that wait for one.", pending),
        ):
            lines += [f"# HELP {what} {about}", f"# TYPE {what} {kind}", f"{what} {value}"]
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
