"""What calls of a module have in common, and which part of them can be tried alone, with real PyTorch."""

import pytest

from modak_deploy.launch import structures
from modak_deploy.launch.frameworks.pytorch import arguments
from modak_deploy.launch.parts import Part

BATCH, ROWS = 16, 2


def test_calls_have_trials_in_common_where_only_values_differ(torch):
    def of(*args, **kwargs):
        return arguments.signature_of(torch, args, kwargs)

    rows = torch.zeros(4, 8)
    assert of(rows, scale=2) == of(torch.ones(4, 8), scale=2)
    assert of(rows) != of(rows.double()) and of(rows) != of(rows, scale=2) and of(rows, scale=2) != of(rows, scale=3)
    with torch.inference_mode():
        inferred = of(rows)
    assert inferred != of(rows)
    with pytest.raises(structures.Unsupported):
        of(object())


def test_calls_are_alike_where_only_sizes_differ(torch):
    def of(tensor):
        return arguments.signature_of(torch, (), {"rows": tensor})

    assert arguments.alike(of(torch.zeros(4, 8)), of(torch.zeros(2, 5)))
    for other in (torch.zeros(4), torch.zeros(4, 8, dtype=torch.long), torch.zeros(4, 8, requires_grad=True)):
        assert not arguments.alike(of(torch.zeros(4, 8)), of(other))


@pytest.mark.parametrize(("cuda", "words"), [(True, False), (False, True)])
def test_on_a_gpu_rows_that_may_be_numbers_of_rows_are_not_cut(torch, cuda, words):
    def part(*args):
        return arguments.part_of(torch, args, {}, cuda)

    points, neighbours = torch.randn(BATCH, 8), torch.full((BATCH, 3), BATCH - 1)
    assert (part(points, neighbours) is not None) == words
    # Whole numbers alone are words, and a mask has no numbers.
    assert part(neighbours) == part(points, neighbours > 0) == part(points) == Part(ROWS, BATCH)


def test_what_has_no_rows_of_its_own_has_no_part(torch):
    assert arguments.part_of(torch, (torch.randn(BATCH, 8).to_sparse(),), {}, False) is None
    assert arguments.part_of(torch, (torch.randn(BATCH, 8), torch.randn(BATCH + 1, 8)), {}, False) is None


def test_only_what_has_the_batchs_rows_is_cut(torch):
    rows, whole = torch.randn(BATCH, 8), torch.randn(1, 8)
    (first, other), named = arguments.cut(torch, ((rows, whole), {"scale": 2}), Part(ROWS, BATCH))
    assert torch.equal(first, rows[:ROWS]) and first.data_ptr() != rows.data_ptr()
    assert other is whole and named == {"scale": 2}


def test_calls_differ_where_tensors_lie_otherwise_are_others_or_the_same(torch):
    class Image(torch.Tensor):
        pass

    def of(*args):
        return arguments.signature_of(torch, args, {})

    rows, other = torch.zeros(4, 8), torch.zeros(8, 4).t()
    assert of(rows, torch.ones(4, 8)) != of(rows, rows)
    assert of(rows) != of(other) and of(rows) != of(rows.as_subclass(Image))
    assert of(other) == of(torch.ones(8, 4).t())
    assert not arguments.alike(of(rows), of(torch.zeros(8, 2).t()))


def test_size_of_a_call_is_that_of_all_its_tensors(torch):
    call = ((torch.zeros(4, 8), [torch.zeros(()), 5]), {"mask": torch.zeros(2, 3), "name": "all"})
    assert arguments.size_of(arguments.signature_of(torch, *call)) == 32 + 1 + 6
