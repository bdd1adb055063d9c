"""Modules whose calls are not done twice: what they keep, what is tried with them, and what the program sees of it."""

import json
import threading

import pytest

from launch_parts import launch
from modak_deploy.launch import hardware
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import once as once_module
from modak_deploy.launch.frameworks.pytorch.kinds import Subject
from modak_deploy.launch.lever import Lever
from modak_deploy.launch.levers.pytorch import onednn_products
from modak_deploy.launch.variants import DEFAULT, Variant
from module_parts import counting

PRODUCTS, MEMORY = "pytorch-onednn-products", "pytorch-keep-memory"
FEATURES = hardware.cpu_features()

GENERATION = """
import json, torch
torch.manual_seed(0)
class Cache:
    def __init__(self):
        self.keys = None
    def update(self, keys):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 1)
        return self.keys
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(50, 256)
        self.key, self.up, self.down = (torch.nn.Linear(*size) for size in ((256, 256), (256, 1024), (1024, 256)))
        self.calls = 0
    def forward(self, ids, cache):
        x = self.words(ids)
        {keys}
        weights = torch.softmax(x @ keys.transpose(1, 2), -1)
        x = x + weights @ keys
        x = x + self.down(torch.relu(self.up(x)))
        return {result}
net = Net().eval()
ids, texts = torch.randint(0, 50, (1, 16)), []
with torch.no_grad():
    for text in range(3):
        cache, new = {cache}, ids
        for word in range(80):
            {call}
            new = scores[:, -1:].argmax(-1)
            texts.append(int(new))
print(json.dumps(texts))
"""
KINDS = {
    "an object": {"keys": "keys = cache.update(self.key(x))", "result": "x @ self.words.weight.T",
                  "cache": "Cache()", "call": "scores = net(new, cache)"},
    "grows": {"keys": "keys = torch.cat([cache, self.key(x)], 1)", "result": "(x @ self.words.weight.T, keys)",
              "cache": "torch.zeros(1, 0, 256)", "call": "scores, cache = net(new, cache)"},
    "in the module": {"keys": "self.kept = keys = torch.cat([cache, self.key(x)], 1)",
                      "result": "x @ self.words.weight.T", "cache": "torch.zeros(1, 0, 256)",
                      "call": "scores = net(new, cache); cache = net.kept"},
}  # fmt: skip


@pytest.fixture
def run(torch, tmp_path):
    def program(kind, config):
        (tmp_path / "program.py").write_text(GENERATION.format(**KINDS[kind]))
        done = launch(tmp_path / "program.py", tmp_path, config)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1]), done.entries

    return program


def of(entries, event):
    return [entry for entry in entries if entry["event"] == event]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_continued_as_without_trials(run, kind):
    texts, _ = run(kind, {})
    trials = {"mode": "live", "units": 240, "share": 1.0, "candidates": [MEMORY, PRODUCTS, "pytorch-openvino"]}
    tried, entries = run(kind, {"trials": trials})
    assert tried == texts
    assert not of(entries, "fallback") and not of(entries, "no_trials")
    assert {entry["variant"] for entry in of(entries, "trial")} >= {MEMORY}
    reasons = {entry["lever"]: entry["reason"] for entry in of(entries, "not_offered")}
    assert "its results would have to be compared, and" in reasons["pytorch-openvino"]
    assert [entry["units"] for entry in of(entries, "state") if entry["name"].startswith("inference")][-1] == 240


@pytest.mark.skipif("avx512bw" not in FEATURES or "amx_bf16" in FEATURES, reason="for AVX-512 without AMX")
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_chosen_before_the_run_is_on(run, kind, monkeypatch):
    texts, _ = run(kind, {})
    monkeypatch.setenv("ONEDNN_VERBOSE", "1")
    chosen, entries = run(kind, {"levers": [PRODUCTS], "trials": {"mode": "none"}})
    assert chosen == texts
    assert [entry["variant"] for entry in of(entries, "chosen")][-1] == PRODUCTS
    assert not of(entries, "no_trials") and not of(entries, "fallback")


def test_where_nothing_can_be_tried_the_reason_is_the_modules(run):
    trials = {"mode": "live", "units": 240, "share": 1.0, "candidates": ["pytorch-openvino"]}
    _, entries = run("an object", {"trials": trials})
    (entry,) = of(entries, "no_trials")
    assert entry["reason"].startswith("an argument cannot be looked into")


@pytest.fixture(name="counting")
def counting_module(torch):
    return counting(torch)


def test_each_call_is_done_once(torch, counting, session_of, monkeypatch):
    monkeypatch.setattr(hardware, "cpu_features", lambda: frozenset(("avx512bw",)))
    session = session_of(units=60, candidates=[MEMORY, PRODUCTS])
    calls_module.Calls(session, torch, counting)
    with torch.no_grad():
        for number in range(60):
            counting(torch.rand(1 + number % 2, 300))
            assert counting.calls == number + 1
        with pytest.raises(KeyError, match="own"):
            counting(torch.rand(7, 300))
    assert counting.calls == 61
    assert not session.record.of("fallback")
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"


def test_products_that_differ_with_weights_of_the_module_are_refused(torch, monkeypatch):
    lever = onednn_products.OnednnProducts()
    module = torch.nn.Sequential(torch.nn.Linear(300, 30), torch.nn.Linear(30, 40)).eval()
    assert lever.unsound(Subject(torch, module)) is None
    switched = []
    monkeypatch.setattr(lever, "switch", lambda torch, on: switched.append(on))
    own = torch.nn.functional.linear
    monkeypatch.setattr(
        torch.nn.functional, "linear", lambda x, weight: own(x, weight) * (1 + 1e-3 * (switched[-1:] == [True]))
    )
    assert lever.unsound(Subject(torch, module)) == "a product with weights of 30 x 300 has another result"
    assert switched == [True, False]


def test_weights_of_other_formats_are_no_factors(torch):
    lever = onednn_products.OnednnProducts()
    module = torch.nn.Linear(300, 30).eval()
    module.numbers = torch.nn.Parameter(torch.ones(300, 300, dtype=torch.int8), requires_grad=False)
    assert lever.unsound(Subject(torch, module)) is None


def test_calls_of_other_sizes_and_those_not_looked_at_are_booked(torch, counting, session_of, monkeypatch):
    session = session_of(units=400, share=1.0, candidates=[MEMORY])
    calls_module.Calls(session, torch, counting)
    with torch.no_grad():
        for number in range(200):
            counting(torch.rand(1 + (number > 10 and number % 2), 300))
    (search,) = session.searches
    assert search.ledger.done >= 200 - 2 - 32  # the first is observed, and the last may not have been looked at


def test_what_interrupts_a_call_before_it_begins_leaves_nothing_on(torch, counting, session_of, monkeypatch):
    monkeypatch.setattr(hardware, "cpu_features", lambda: frozenset(("avx512bw",)))
    monkeypatch.setattr(onednn_products, "_in_single", lambda torch: True)
    session = session_of(levers=[PRODUCTS])
    calls_module.Calls(session, torch, counting)
    follow = once_module.Settings.follow

    def interrupted(settings, variant):
        follow(settings, variant)
        if variant.levers:
            raise KeyboardInterrupt

    with torch.no_grad():
        counting(torch.rand(1, 300))
        monkeypatch.setattr(once_module.Settings, "follow", interrupted)
        with pytest.raises(KeyboardInterrupt):
            counting(torch.rand(1, 300))
    assert counting.calls == 1
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"


def test_settings_follow_several_threads_in_turn(torch):
    switched = []

    class Slow(Lever):
        name = "slow"
        within_units = True

        def switch(self, framework, on):
            if on:
                thread = threading.Thread(target=settings.follow, args=(DEFAULT,))
                threads.append(thread)
                thread.start()
                thread.join(0.2)
            switched.append(on)

    settings, threads = once_module.Settings(torch), []
    settings.follow(Variant((Slow(),)))
    threads[0].join()
    assert switched == [True, False]


def test_what_another_thread_calls_meanwhile_is_not_tried_later(torch, counting, session_of):
    session = session_of(units=60, candidates=[MEMORY])
    calls_module.Calls(session, torch, counting)
    own = counting.forward

    def forward(x):
        if counting.calls == 0 and threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=torch.no_grad()(counting), args=(x,))
            thread.start()
            thread.join()
        return own(x)

    counting.forward = forward
    with torch.no_grad():
        for _ in range(20):
            counting(torch.rand(1, 300))
    assert counting.calls == 21
    assert not session.searches


def test_calls_from_several_threads_are_left_alone(torch, counting, session_of):
    session = session_of(units=60, candidates=[MEMORY])
    calls_module.Calls(session, torch, counting)
    meanwhile = []
    own = counting.forward

    def beside(x):
        with torch.no_grad():  # of each thread for itself
            meanwhile.append(counting(x))

    def forward(x):
        if counting.calls == 10 and threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=beside, args=(x,))
            thread.start()
            thread.join()
        return own(x)

    with torch.no_grad():
        for _ in range(9):
            counting(torch.rand(1, 300))
        counting.forward = forward
        for _ in range(9):
            counting(torch.rand(1, 300))
    assert len(meanwhile) == 1 and counting.calls == 19
    assert {entry["reason"] for entry in session.record.of("settled")} >= {
        "the module is called from several threads at once"
    }
