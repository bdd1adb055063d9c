"""Modules in which what is not a number may be lost are the program's own; all others are done by other software."""

import functools
from typing import Any

import pytest

from modak_deploy.launch.frameworks.pytorch.exported import Exported
from modak_deploy.launch.frameworks.pytorch.following import Following
from modak_deploy.launch.frameworks.pytorch.keeping import KEEPING
from modak_deploy.launch.structures import Unsupported

LOWEST = float("-inf")


def causal(torch: Any, x: Any) -> Any:
    scores = x @ x.mT
    return scores.masked_fill(torch.ones(4, 4).triu(1).bool(), LOWEST).softmax(-1) @ x


def normed(torch: Any, x: Any) -> Any:
    return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)


def written(torch: Any, x: Any) -> Any:
    made = torch.zeros(4, 4)
    made[:, :2] = x[:, :2].abs().sqrt()
    return (made / (made.sum() + 1)).relu()


def thresholded(torch, x):
    kept = torch.nn.functional.threshold(x.sigmoid() + 1e-3, 0.5, 0.0)
    return (kept / kept.sum(-1, keepdim=True)).relu()


def baddbmm(torch, x):
    mask = torch.zeros(1, 4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), LOWEST)
    return torch.baddbmm(mask, x[None], x.mT[None]).softmax(-1)


HARMLESS = {
    "softmax": lambda torch, x: x.softmax(-1).relu(),
    "norm": lambda torch, x: torch.nn.functional.layer_norm(x, (4,)).relu(),
    "norm by hand": lambda torch, x: normed(torch, x).relu(),
    "root mean square": lambda torch, x: (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)).clamp(-1, 1),
    "normalized": lambda torch, x: torch.nn.functional.normalize(x, dim=-1).relu(),
    "cosine": lambda torch, x: torch.nn.functional.cosine_similarity(x, x.flip(0), dim=-1).relu(),
    "clamped divisor": lambda torch, x: (x / x.abs().sum(-1, keepdim=True).clamp(min=1e-9)).relu(),
    "constant divisor": lambda torch, x: (x / 4**0.5).relu() / 6.0,
    "softplus": lambda torch, x: torch.nn.functional.softplus(x).sqrt().relu(),
    "distance": lambda torch, x: ((x - 1.0) ** 2).sum(-1).sqrt().relu(),
    "causal": lambda torch, x: causal(torch, x).relu(),
    "causal attention": lambda torch, x: torch.nn.functional.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], is_causal=True
    ).relu(),
    "nothing lost": lambda torch, x: (x / x.flip(0)) @ x + 1.0,
    "what sizes tell": lambda torch, x: (x + torch.log(torch.arange(-1.0, 3.0)).nan_to_num(0.0)).relu(),
    "written": lambda torch, x: written(torch, x),
    "product with itself": lambda torch, x: (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)).relu(),
    "products added to a mask": lambda torch, x: baddbmm(torch, x).relu(),
    "gated": lambda torch, x: torch.nn.functional.glu(x, -1).softmax(-1).relu(),
    "magnitude": lambda torch, x: (x / (x.norm(dim=-1, keepdim=True) + 1e-6)).relu(),
}
LOST = {
    "quotient": lambda torch, x: (x / x.flip(0)).relu(),
    "logarithm": lambda torch, x: x.log().clamp(min=-1),
    "root": lambda torch, x: x.sqrt().amax(-1),
    "power": lambda torch, x: (x**0.5).relu(),
    "inverse root": lambda torch, x: (x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True))).relu(),
    "arc": lambda torch, x: x.acos().relu(),
    "largest": lambda torch, x: (x / x.abs().amax(-1, keepdim=True)).argmax(-1),
    "exponentials": lambda torch, x: (x.exp() / x.exp().sum(-1, keepdim=True)).relu(),
    "in place": lambda torch, x: x.clone().div_(x.flip(0)).relu_(),
    "into a part": lambda torch, x: torch.cat([x[:2], (x / x.flip(0))[2:]]).relu(),
    "pooled": lambda torch, x: torch.nn.functional.max_pool2d((x / x.flip(0))[None], 2),
    "a threshold's number": lambda torch, x: thresholded(torch, x),
    "hyperbolic": lambda torch, x: (x.sinh() / x.cosh()).relu(),
    "a large power": lambda torch, x: (x**4 / (x**4 + 1)).relu(),
    "made whole": lambda torch, x: (x / x.flip(0)).long().float(),
    "an unknown operation": lambda torch, x: torch.special.i0(x).relu(),
}


@pytest.fixture
def net(torch):
    class Net(torch.nn.Module):
        def __init__(self, forward: Any) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))
            self.function = forward

        def forward(self, *given: Any) -> Any:
            return self.function(torch, *given)

    return lambda forward: Net(forward).eval()


def followed(torch: Any, forward: Any, *given: Any) -> Following:
    torch.manual_seed(0)
    given = given or (torch.randn(4, 4),)
    following = Following(torch, list(given), KEEPING["openvino"] & KEEPING["onnxruntime"])
    with torch.no_grad(), following:
        forward(torch, *given)
    return following


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_makes_numbers_of_finite_ones_is_harmless(torch, kind):
    assert followed(torch, HARMLESS[kind]).reason is None


@pytest.mark.parametrize("kind", LOST)
def test_what_may_be_no_number_and_is_lost_is_seen(torch, kind):
    assert "not a number" in (followed(torch, LOST[kind]).reason or "")


def hidden(torch: Any, how: str, x: Any, mask: Any) -> Any:
    attention = functools.partial(torch.nn.functional.scaled_dot_product_attention, x, x, x)
    if how == "attention":
        return attention(attn_mask=mask)
    if how == "numbers":
        return attention(attn_mask=torch.zeros(4, 4).masked_fill(~mask, LOWEST))
    scores = x @ x.mT
    if how == "twice":
        scores = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), LOWEST)
    if how == "where":
        scores = torch.where(mask, scores, torch.tensor(LOWEST))
    else:
        scores = (
            scores + torch.zeros_like(scores).masked_fill_(~mask, LOWEST)
            if how == "in place"
            else (scores.masked_fill(~mask, LOWEST))
        )
    return scores.softmax(-1) @ x


@pytest.mark.parametrize("how", ["attention", "numbers", "fill", "twice", "where", "in place"])
def test_masks_that_hide_all_are_the_programs(torch, how):
    x, mask = torch.randn(1, 2, 4, 4), torch.ones(1, 1, 4, 4, dtype=torch.bool)
    mask[..., 3] = False
    following = followed(
        torch, lambda torch, x, mask: hidden(torch, how, hidden(torch, how, x, mask), mask).relu(), x, mask
    )
    assert following.reason is None
    rows = [entry for entry in following.checks() if hasattr(entry, "hides_all")]
    assert len(rows) == 1 + (how == "twice")
    rows[0].check(torch, [x, mask])
    none = mask.clone()
    none[0, 0, 2] = False
    left = mask.clone()
    left[..., 0] = False
    with pytest.raises(ArithmeticError, match="hides all"):
        rows[0].check(torch, [x, none])
    for _ in range(2):
        if how == "twice":
            with pytest.raises(ArithmeticError, match="hides all"):
                rows[0].check(torch, [x, left])
        else:
            rows[0].check(torch, [x, left])
    assert followed(torch, lambda torch, x, mask: hidden(torch, how, x, mask).relu(), x, none).reason is not None


def encoded(torch, x, pad):
    """Add a mask of padding to a causal one, as encoders do, for as many texts as these are long."""
    causal = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), LOWEST)
    padding = torch.zeros(pad.shape).masked_fill(pad, LOWEST).view(4, 1, 4).expand(-1, 4, -1)
    return (x @ x.mT + (causal.unsqueeze(0) + padding)).softmax(-1).relu()


def test_masks_are_put_together_in_the_shapes_that_they_have(torch):
    x, pad = torch.randn(4, 4, 4), torch.zeros(4, 4, dtype=torch.bool)
    following = followed(torch, encoded, x, pad)
    assert following.reason is None
    pad[1, 2:] = True
    for entry in following.checks():
        entry.check(torch, [x, pad])
    pad[1] = torch.tensor([True, False, False, False])
    assert encoded(torch, x, pad).isnan().any()
    with pytest.raises(ArithmeticError, match="hides all"):
        for entry in following.checks():
            entry.check(torch, [x, pad])


def test_masks_of_arguments_may_be_infinite_where_they_were(torch):
    x, mask = torch.randn(1, 2, 4, 4), torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), LOWEST)
    attention = torch.nn.functional.scaled_dot_product_attention
    following = followed(torch, lambda torch, x, mask: attention(x, x, x, attn_mask=mask).relu(), x, mask)
    assert following.reason is None
    for entry in following.checks():
        entry.check(torch, [x, mask])
    for other in ([x / 0.0, mask], [x, mask * -1], [x, mask.fill_diagonal_(LOWEST)], [x * float("nan"), mask]):
        with pytest.raises(ArithmeticError):
            for entry in following.checks():
                entry.check(torch, other)


@pytest.mark.parametrize(
    ("value", "error"),
    [(float("nan"), "not numbers"), (float("inf"), "infinite"), (LOWEST, "infinite"), (1e30, "so large"), (1e9, None)],
)
def test_arguments_that_are_not_finite_are_the_programs(torch, net, value, error):
    class Doubled(Exported):
        def made(self, graph, tensors, keep=None):
            return lambda given: [tensor * 2 for tensor in given]

        def _graph(self, observed):
            return None

    converted, given = Doubled(torch, net(lambda torch, x: x * 2)), torch.ones(4, 4)
    assert torch.equal(converted(given), given * 2)
    given[2, 1] = value
    if error is None:
        assert torch.equal(converted(given), given * 2)
    else:
        with pytest.raises(ArithmeticError, match=error):
            converted(given)


def test_large_arguments_are_taken_where_the_first_ones_were(torch):
    following = followed(torch, lambda torch, x: x * 2, torch.full((4,), 1e20))
    (entry,) = following.checks()
    entry.check(torch, [torch.full((4,), 3e38)])


@pytest.mark.parametrize("kind", ["quotient", "logarithm"])
def test_such_a_module_is_not_converted(torch, net, kind):
    with torch.no_grad(), pytest.raises(Unsupported, match="not a number"):
        Exported(torch, net(LOST[kind]))(torch.ones(4, 4))
