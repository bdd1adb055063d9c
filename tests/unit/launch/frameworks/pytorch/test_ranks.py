"""What ranks tell one another, by a real store of torch.distributed."""

import pytest

from launch_parts import lever
from modak_deploy.launch.frameworks.pytorch import ranks as ranks_module
from modak_deploy.launch.frameworks.pytorch.ranks import SECONDS, Instruction, Ranks, ranks_of
from modak_deploy.launch.frameworks.pytorch.together import Together


@pytest.fixture
def store(torch):
    return torch.distributed.HashStore()


@pytest.fixture
def ranks(store, monkeypatch):
    monkeypatch.setattr(ranks_module, "SECONDS", 0.2)
    return Ranks(store, 0, "training: Net"), Ranks(store, 1, "training: Net")


def test_a_word_reaches_the_others(ranks):
    first, other = ranks
    assert first.tell(7, Instruction("pytorch-autocast-bf16 + pytorch-fused-optimizer", False))
    assert first.tell(8, Instruction("default", True))
    assert other.ask(7) == Instruction("pytorch-autocast-bf16 + pytorch-fused-optimizer", False)
    assert other.ask(8) == Instruction("default", True)
    assert (first.first, other.first) == (True, False)


def test_trainings_of_one_program_do_not_meet(store, ranks):
    first, _ = ranks
    first.tell(2, Instruction("pytorch-autocast-bf16", False))
    assert Ranks(store, 1, "training: Net 2").ask(2) == Instruction("default", True)


def test_a_rank_that_hears_nothing_goes_on_with_the_default(ranks):
    assert ranks[1].ask(3) == Instruction("default", True)


def test_a_failure_is_of_one_variant(ranks):
    first, other = ranks
    assert not first.complained("pytorch-autocast-bf16")
    other.complain("pytorch-autocast-bf16")
    assert first.complained("pytorch-autocast-bf16") and not first.complained("pytorch-fused-optimizer")


def test_a_rank_that_goes_on_by_itself_says_so(ranks):
    first, other = ranks
    assert not first.left()
    other.ask(3)
    assert first.left()


def test_words_are_forgotten(store, ranks):
    first, _ = ranks
    for step in range(10):
        first.tell(step, Instruction("default", False))
    assert store.num_keys() <= ranks_module.KEPT + 1


def test_a_store_that_is_gone(ranks):
    class Gone:
        def __getattr__(self, name):
            raise RuntimeError("Connection reset by peer")

    lost = Ranks(Gone(), 0, "training: Net")
    assert not lost.tell(1, Instruction("default", True)) and not lost.complained("x") and not lost.left()
    lost.complain("x")
    assert lost.ask(1) == Instruction("default", True)


def test_ranks_that_torch_distributed_does_not_join(session_of):
    session = session_of(mode="live")
    assert ranks_of(session, "training: Net") is None
    session.ranks = 2
    assert ranks_of(session, "training: Net") is None


@pytest.mark.parametrize("chosen", [False, True])
def test_what_the_others_do_not_wait_for_is_not_switched_on(torch, session_of, ranks, chosen):
    """The first one switches before it tells the others what the next step is done with."""
    one = Together()
    one._session, one._torch, one._owner, one._ranks = session_of(mode="live"), torch, lambda: None, ranks[0]
    one._session.together = True
    slow, quick = (lever(name, ranks=True, taking=lambda s=s: s) for name, s in (("slow", SECONDS / 2), ("quick", 1.0)))
    assert one._alike([slow, quick], chosen) == [quick]
    (entry,) = one._session.record.of("not_offered")
    assert entry["lever"] == "slow" and not one._session.record.of("fallback")
    one._ranks = None  # each for itself
    assert one._alike([slow, quick], chosen) == [slow, quick]
