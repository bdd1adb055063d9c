"""Live trials between the steps of an optimizer, with real PyTorch; the time of a step is what the test says."""

import copy

import pytest

from modak_deploy.launch import memory
from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import owners, training
from modak_deploy.launch.levers.pytorch import keep_memory


class Clock:
    """Goes on with each forward call, by what the variant costs."""

    now = 0.0


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    Clock.now = 0.0
    monkeypatch.setattr(training.Training, "_now", lambda self: Clock.now)
    return Clock


@pytest.fixture
def program(torch, session_of):
    """Return a training program that is followed as the adapter would."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3)
            self.norm = torch.nn.BatchNorm2d(8)
            self.head = torch.nn.Linear(8, 4)
            self.spoil = None

        def forward(self, images):
            hidden = torch.relu(self.norm(self.conv(images)))
            scores = self.head(hidden.mean((2, 3)))
            lower = scores.dtype == torch.bfloat16
            Clock.now += 0.4 if lower else 1.0
            if self.spoil == "nan" and lower:
                return scores * float("nan")
            if self.spoil == "rise" and lower:
                return scores * 100
            if self.spoil == "own" and Clock.now > 19:
                return scores * 100
            if self.spoil == "fails" and lower:
                raise RuntimeError("not implemented for bf16")
            return scores

    class Program:
        def __init__(self, optimizer="Adam", numerics="relaxed", levers=(), **trials):
            torch.manual_seed(0)
            self.model = Net()
            self.optimizer = getattr(torch.optim, optimizer)(self.model.parameters(), lr=0.01)
            self.session = session_of(levers=levers, numerics=numerics, **trials)
            self.training = None
            self.images = torch.randn(16, 3, 8, 8)
            self.classes = torch.randint(0, 4, (16,))
            self.losses = []
            self.cost = {}

        def step(self):
            self.optimizer.zero_grad()
            scores = self.model(self.images)
            assert scores.dtype == torch.float32
            loss = torch.nn.functional.cross_entropy(scores, self.classes)
            if self.training:
                self.training.loss(loss)
            loss.backward()
            if self.training:
                self.training.before_step(self.optimizer)
            self.optimizer.step()
            for name, seconds in self.cost.items():
                if any(group.get(name) for group in self.optimizer.param_groups):
                    Clock.now -= seconds
            if self.training is None:
                self.training = training.Training(
                    self.session, torch, self.optimizer, lambda m: calls_module.Calls(self.session, torch, m)
                )
            self.training.after_step()
            self.losses.append(float(loss.detach()))

        def run(self, steps):
            for _ in range(steps):
                self.step()
            return self

        @property
        def best(self):
            settled = self.session.record.of("settled")
            return settled[-1]["variant"] if settled else "default"

    return Program


def test_autocast_is_found_and_the_loss_goes_on(program):
    one = program(candidates=["pytorch-autocast-bf16"]).run(60)
    assert one.best == "pytorch-autocast-bf16"
    assert Clock.now < 45
    assert one.losses[-1] < one.losses[0] / 2
    one.session.counters.write()
    state = one.session.record.states["training: Net"]
    assert state["units"] == 60
    assert state["loss"] == pytest.approx(one.losses[-1])
    assert state["features"]["parameters"] == 276


def test_exact_numerics_permit_no_autocast(program):
    one = program(numerics="exact", candidates=["pytorch-autocast-bf16"]).run(30)
    assert not one.session.record.of("trying")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("nan", "the loss is not finite; this step was left out"),
        ("rise", "the loss rises"),
        ("fails", "RuntimeError: not implemented for bf16"),
    ],
)
def test_a_lever_that_spoils_the_loss_is_given_up(torch, program, spoil, reason):
    one = program(candidates=["pytorch-autocast-bf16"])
    one.model.spoil = spoil
    one.run(40)
    assert one.best == "default"
    assert reason in one.session.record.of("fallback")[0]["reason"]
    assert all(bool(torch.isfinite(weight).all()) for weight in one.model.parameters())
    assert one.losses[-1] < one.losses[0]


def test_a_rise_of_the_trainings_own_costs_one_lever_and_not_all_that_follow(program):
    one = program("SGD", candidates=["pytorch-fused-optimizer", "pytorch-autocast-bf16"])
    one.model.spoil = "own"
    one.run(80)
    assert [entry["what"] for entry in one.session.record.of("fallback")] == ["pytorch-autocast-bf16"]
    assert [(trial["variant"], trial["failed"]) for trial in one.session.record.of("trial")] == [
        ("pytorch-autocast-bf16", True),
        ("pytorch-fused-optimizer", False),
    ]


def test_number_formats_are_tried_before_what_depends_on_them(program):
    one = program(candidates=["pytorch-keep-memory", "pytorch-fused-optimizer", "pytorch-autocast-bf16"])
    one.run(120)
    assert [entry["lever"] for entry in one.session.record.of("trying")] == [
        "pytorch-keep-memory",
        "pytorch-autocast-bf16",
        "pytorch-fused-optimizer",
    ]


@pytest.fixture
def switches(monkeypatch):
    """Return the variants that were switched to, in their order."""
    switched = []
    switch = training.Training._switch

    def note(self, variant):
        switched.append(variant.name)
        switch(self, variant)

    monkeypatch.setattr(training.Training, "_switch", note)
    return switched


def until_the_first_trial_ended(one):
    while not one.session.record.of("trial"):
        one.step()


def test_steps_take_turns_where_a_switch_is_cheap(program, switches):
    one = program(candidates=["pytorch-autocast-bf16"])
    until_the_first_trial_ended(one)
    assert switches == ["pytorch-autocast-bf16", "default"] * (len(switches) // 2) + switches[-1:] * (len(switches) % 2)
    assert len(switches) >= 6
    (trial,) = one.session.record.of("trial")
    assert trial["times"] == pytest.approx([0.4] * len(trial["times"]))
    assert trial["rival_times"] == pytest.approx([1.0] * len(trial["rival_times"])) and len(trial["rival_times"]) > 2


def test_steps_follow_one_another_where_a_switch_takes_long(program, switches, monkeypatch):
    switch = training.Training._switch

    def slow(self, variant):
        search = self._search
        switch(self, variant)
        search.prepared(0.5)

    monkeypatch.setattr(training.Training, "_switch", slow)
    one = program(candidates=["pytorch-autocast-bf16"], share=0.5)
    until_the_first_trial_ended(one)
    assert switches in (["pytorch-autocast-bf16"], ["pytorch-autocast-bf16", "default"])  # the comparison at the end
    one.run(120)
    assert one.session.record.of("drift")[0]["kept"]
    assert one.best == "pytorch-autocast-bf16"


def test_what_lasts_is_on_when_the_winner_is_measured_again(program, monkeypatch):
    monkeypatch.setattr(memory, "refusal", lambda: None)
    kept = []

    def keep(on, lever):
        kept.append(on)
        Clock.cheaper = 0.5 if on else 0.0

    monkeypatch.setattr(memory, "keep", keep)
    one = program("Adam", numerics="exact", candidates=["pytorch-keep-memory", "pytorch-fused-optimizer"])
    one.cost = {"fused": 0.2}
    forward = one.model.forward

    def called(images):
        Clock.now -= getattr(Clock, "cheaper", 0.0)
        return forward(images)

    one.model.forward = called
    one.run(160)
    (drift,) = one.session.record.of("drift")
    assert (drift["variant"], drift["rival"]) == (
        "pytorch-keep-memory + pytorch-fused-optimizer",
        "pytorch-keep-memory",
    )
    assert drift["gain"] == pytest.approx(1 / 0.3, rel=0.01) and kept[-1] is True
    Clock.cheaper = 0.0


def test_a_rise_of_losses_is_not_hidden_by_the_steps_between(program):
    """What a variant does to the weights raises the losses of the default's steps beside it as well."""
    one = program("SGD", candidates=["pytorch-autocast-bf16"])
    one.run(8)
    spoiled = one.model.forward

    def forward(images):
        scores = spoiled(images)
        if scores.dtype != one.images.dtype:
            one.worse = getattr(one, "worse", 1.0) * 3
        return scores * getattr(one, "worse", 1.0)

    one.model.forward = forward
    one.run(60)
    assert "the loss rises" in {entry["reason"] for entry in one.session.record.of("fallback")}


def test_the_programs_own_nan_is_not_hidden(torch, program):
    one = program(candidates=["pytorch-fused-optimizer"])
    one.run(2)
    one.images = torch.full_like(one.images, float("nan"))
    one.run(1)
    assert not all(bool(torch.isfinite(weight).all()) for weight in one.model.parameters())


@pytest.mark.parametrize(("optimizer", "lever"), [("Adam", "fused"), ("SGD", "fused"), ("AdamW", "foreach")])
def test_the_optimizers_step_is_switched_in_place(torch, program, optimizer, lever):
    name = f"pytorch-{lever}-optimizer"
    one = program(optimizer, numerics="exact", candidates=[name])
    one.cost = {lever: 0.3}
    one.run(60)
    assert one.best == name
    seen = []
    one.optimizer.register_step_post_hook(lambda optimizer, *_: seen.append(optimizer.param_groups[0][lever]))
    one.step()
    assert seen == [True]
    same = program(optimizer, mode="none")
    same.run(61)
    assert one.losses == pytest.approx(same.losses, rel=1e-3)


def test_a_slower_lever_is_switched_back(torch, program):
    one = program(numerics="exact", candidates=["pytorch-fused-optimizer"])
    one.cost = {"fused": -0.3}
    one.run(120)
    assert one.best == "default"
    assert not any(group["fused"] for group in one.optimizer.param_groups)


def test_weights_keep_their_memory_and_gradients_their_layout(torch, program):
    """Programs flatten gradients by ``view``, share weights with processes, and keep references to them."""
    options = {"numerics": "exact", "candidates": ["pytorch-channels-last"]}
    for one in (program(**options), program(levers=["pytorch-channels-last"], mode="none")):
        one.model.share_memory()
        alias, saved = one.model.conv.weight.detach(), one.model.state_dict()
        for _ in range(20):
            one.step()
            torch.cat([weight.grad.view(-1) for weight in one.model.parameters()])
        assert torch.equal(alias, one.model.conv.weight)
        assert all(torch.equal(saved[name], value) for name, value in one.model.state_dict().items())
        assert all(weight.is_shared() for weight in one.model.parameters())
        assert not one.session.record.of("trying")


@pytest.mark.parametrize("lever", ["fused", "foreach"])
@pytest.mark.parametrize("key", ["fused", "foreach"])
@pytest.mark.parametrize("value", [True, False])
def test_what_the_program_has_chosen_stays(torch, program, lever, key, value):
    one = program(numerics="exact", candidates=[f"pytorch-{lever}-optimizer"])
    for group in one.optimizer.param_groups:
        group[key] = value
    one.run(20)
    assert one.session.record.of("not_offered")[0]["reason"] == "the program has chosen how the optimizer steps"
    assert all(group[key] is value for group in one.optimizer.param_groups)


@pytest.mark.parametrize("lever", ["fused", "foreach"])
class TestWhatIsSaved:
    @pytest.fixture
    def one(self, program, lever):
        one = program("AdamW", levers=[f"pytorch-{lever}-optimizer"], mode="none").run(2)
        one.within = []
        one.optimizer.register_step_post_hook(lambda optimizer, *_: one.within.append(optimizer.param_groups[0][lever]))
        return one

    def test_it_is_the_programs_own(self, program, one, lever):
        saved = []
        one.optimizer.register_step_post_hook(lambda optimizer, *_: saved.append(optimizer.state_dict()))
        one.step()
        saved += [one.optimizer.state_dict(), copy.deepcopy(one.optimizer).state_dict()]
        plain = program("AdamW", mode="none").run(3).optimizer.state_dict()
        assert one.within == [True] and [state["param_groups"] for state in saved] == [plain["param_groups"]] * 3

    def test_a_step_that_fails_leaves_nothing_in_it(self, one, lever):
        def fail(*_):
            raise RuntimeError("planted")

        hook = one.optimizer.register_step_pre_hook(fail)
        with pytest.raises(RuntimeError, match="planted"):
            one.step()
        assert one.optimizer.state_dict()["param_groups"][0][lever] is None
        hook.remove()
        one.step()
        assert one.optimizer.param_groups[0][lever] is None

    def test_what_is_loaded_is_used(self, one, lever):
        state = one.optimizer.state_dict()
        one.optimizer.load_state_dict(state)
        one.step()
        state["param_groups"][0]["foreach"] = False  # what a run that has chosen for itself has saved
        one.optimizer.load_state_dict(state)
        one.step()
        assert one.within[0] is True and not one.within[1]
        assert one.optimizer.param_groups[0]["foreach"] is False


def test_steps_with_an_evaluation_between_them_are_not_measured(torch, program):
    one = program(candidates=["pytorch-autocast-bf16"])
    for step in range(120):
        one.step()
        if step % 2:
            Clock.now += 50
            one.session.evaluations += 1
    assert one.best == "pytorch-autocast-bf16"
    (trial,) = one.session.record.of("trial")
    assert trial["gain"] == pytest.approx(2.5)


def test_a_program_that_uses_autocast_itself_is_left_alone(torch, program):
    one = program(candidates=["pytorch-channels-last", "pytorch-autocast-bf16"])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        one.run(3)
    forward = one.model.forward
    one.model.forward = lambda images: forward(images)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "is_autocast_enabled", lambda device: True)
        one.run(20)
    assert one.session.record.of("no_trials")[0]["reason"] == "the program uses autocast itself"


def test_the_module_of_an_optimizer_is_the_outermost_that_holds_its_weights(torch):
    inner = torch.nn.Linear(2, 2)
    outer = torch.nn.Sequential(inner, torch.nn.Linear(2, 2))
    assert owners.owner(torch, torch.optim.SGD(inner.parameters(), lr=1)) is outer
    assert owners.owner(torch, torch.optim.SGD(outer.parameters(), lr=1)) is outer
    other = torch.nn.Linear(2, 2)
    both = [*inner.parameters(), *other.parameters()]
    assert owners.owner(torch, torch.optim.SGD(both, lr=1)) is None


def test_what_fails_in_its_own_turn_is_to_blame_and_not_what_is_tried(program):
    one = program(levers=["pytorch-autocast-bf16"], candidates=["pytorch-fused-optimizer"], gain=2.0)
    search = one.run(3).training._search
    while not search.current != search.best == one.training._variant:
        one.step()
        assert not search.settled
    one.model.spoil = "nan"
    one.step()
    assert [entry["what"] for entry in one.session.record.of("fallback")] == ["pytorch-autocast-bf16"]
    assert not any(entry["failed"] for entry in one.session.record.of("trial"))
    assert one.run(5).best == "default"


def test_what_a_lever_does_for_later_steps_is_no_part_of_their_time(program, monkeypatch):
    monkeypatch.setattr(memory, "refusal", lambda: None)
    monkeypatch.setattr(memory, "keep", lambda on, lever: None)
    monkeypatch.setattr(keep_memory.KeepMemory, "again", lambda self: setattr(Clock, "now", Clock.now + 0.5))
    one = program("SGD", numerics="exact", candidates=["pytorch-keep-memory"], share=3.0)
    until_the_first_trial_ended(one)
    (trial,) = one.session.record.of("trial")
    assert trial["times"] == pytest.approx([1.0] * len(trial["times"]))
    assert trial["lost"] >= 0.5 * len(trial["times"])
