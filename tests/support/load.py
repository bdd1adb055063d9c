"""A bounded load on a service: a few clients on loopback that send requests one after the other, and count."""

import http.client
import threading
import time
from collections import Counter


class Load:
    """Clients of ``http://127.0.0.1:port``; half of them keep their connection, half make one for each request."""

    def __init__(
        self, port, path="/", body=None, *, clients=4, most=20000, pause=0.005, answer=lambda data: data.decode()
    ):
        self._port, self._path, self._body, self._answer = port, path, body, answer
        self._pause, self._left = pause, most
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._client, args=(bool(n % 2),)) for n in range(clients)]
        self.answers = Counter()
        """How often each answer came."""
        self.order = []
        """Answers by the time at which they came, repetitions left out."""
        self.failures = []

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def wait_for(self, count, seconds=60):
        """Wait until so many answers have come."""
        end = time.monotonic() + seconds
        while sum(self.answers.values()) < count and time.monotonic() < end:
            time.sleep(0.05)
        assert sum(self.answers.values()) >= count, (self.answers, self.failures[:3])

    def _client(self, keep):
        connection = None
        while not self._stop.is_set() and self._takes():
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
                headers = {"Content-Type": "application/json"} if self._body else {}
                connection.request("POST" if self._body else "GET", self._path, self._body, headers)
                response = connection.getresponse()
                data = response.read()
                self._count(response.status, data)
                if not keep or response.will_close:
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as error:
                with self._lock:
                    self.failures.append(repr(error))
                connection = None
            time.sleep(self._pause)

    def _takes(self):
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def _count(self, status, data):
        with self._lock:
            if status != 200:
                self.failures.append(f"{status}: {data[:200]!r}")
                return
            answer = self._answer(data)
            self.answers[answer] += 1
            if not self.order or self.order[-1] != answer:
                self.order.append(answer)
