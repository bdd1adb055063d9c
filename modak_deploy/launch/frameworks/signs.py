"""Which kinds of numbers operations may make: below, at and above zero, infinite ones, and what is not a number.

By the kinds of what an operation is given those of its result are told, whatever framework it is of. Numbers are taken
to fit their type: that a finite one becomes infinite is followed in exponentials and powers above the third alone.
"""

from typing import Callable, Iterator

LOWEST, NEGATIVE, ZERO, POSITIVE, HIGHEST, NONE = (1 << bit for bit in range(6))
"""Minus infinity, finite numbers, infinity, and what is not a number (NaN); kinds are a sum of them."""
FINITE = NEGATIVE | ZERO | POSITIVE
INFINITE = LOWEST | HIGHEST
_LEAST = 3
"""The greatest power of 1e12, beyond which no argument is, that single precision holds."""
ANY = FINITE | INFINITE | NONE


def each(kinds: int) -> Iterator[int]:
    """Yield each kind of several."""
    return (1 << bit for bit in range(6) if kinds >> bit & 1)


def pairwise(function: Callable[[int, int], int], left: int, right: int) -> int:
    """Return the kinds of what a function of two kinds may return for any of these; none but NONE come of NONE."""
    result = (left | right) & NONE
    for first in each(left & ~NONE):
        for second in each(right & ~NONE):
            result |= function(first, second)
    return result


def of_number(value: float) -> int:
    """Return the kind of a number."""
    if value != value:
        return NONE
    if value in (float("inf"), float("-inf")):
        return HIGHEST if value > 0 else LOWEST
    return POSITIVE if value > 0 else NEGATIVE if value < 0 else ZERO


def negated(kinds: int) -> int:
    """Return the kinds of numbers with the other sign."""
    opposite = {LOWEST: HIGHEST, NEGATIVE: POSITIVE, POSITIVE: NEGATIVE, HIGHEST: LOWEST}
    return sum(opposite.get(kind, kind) for kind in each(kinds))


def added(left: int, right: int) -> int:
    """Return the kinds of sums."""
    return pairwise(_added, left, right)


def _added(left: int, right: int) -> int:
    if left & INFINITE or right & INFINITE:
        infinite = (left | right) & INFINITE
        return infinite if infinite != INFINITE else NONE
    signs = (left | right) & ~ZERO
    return FINITE if signs == NEGATIVE | POSITIVE else signs or ZERO


def multiplied(left: int, right: int) -> int:
    """Return the kinds of products; of two small numbers the product may be zero."""
    return pairwise(_multiplied, left, right)


def _multiplied(left: int, right: int) -> int:
    if ZERO in (left, right):
        return NONE if (left | right) & INFINITE else ZERO
    sign = _is_negative(left) != _is_negative(right)
    if (left | right) & INFINITE:
        return LOWEST if sign else HIGHEST
    return ZERO | (NEGATIVE if sign else POSITIVE)


def scaled(kinds: int, factor: float) -> int:
    """Return the kinds of products with a number, which is not so small that they become zero."""
    products = multiplied(kinds, of_number(factor))
    return products & ~ZERO if factor and not kinds & ZERO else products


def divided(left: int, right: int) -> int:
    """Return the kinds of quotients."""
    return pairwise(_divided, left, right)


def _divided(left: int, right: int) -> int:
    if right & INFINITE:
        return NONE if left & INFINITE else ZERO
    if right == ZERO:
        return NONE if left == ZERO else INFINITE
    if left == ZERO:
        return ZERO
    sign = _is_negative(left) != _is_negative(right)
    if left & INFINITE:
        return LOWEST if sign else HIGHEST
    return NEGATIVE if sign else POSITIVE


def _is_negative(kind: int) -> bool:
    return kind in (LOWEST, NEGATIVE)


def larger(left: int, right: int) -> int:
    """Return the kinds of the larger of two numbers each."""
    return pairwise(max, left, right)


def smaller(left: int, right: int) -> int:
    """Return the kinds of the smaller of two numbers each."""
    return pairwise(min, left, right)


def summed(kinds: int) -> int:
    """Return the kinds of sums and means of many numbers."""
    signs = FINITE if kinds & NEGATIVE and kinds & POSITIVE else kinds & FINITE
    return signs | kinds & (INFINITE | NONE) | (NONE if kinds & INFINITE == INFINITE else 0)


def powered(kinds: int, exponent: float) -> int:
    """Return the kinds of powers with a number as exponent."""
    if exponent == 0:
        return POSITIVE
    if exponent < 0:
        return divided(POSITIVE, powered(kinds, -exponent))
    if exponent != int(exponent):
        return roots(kinds)
    result = kinds & (ZERO | NONE) | (ZERO if exponent > 1 and kinds & (NEGATIVE | POSITIVE) else 0)
    signs = kinds & ~(ZERO | NONE)
    if exponent > _LEAST:
        signs |= (HIGHEST if kinds & POSITIVE else 0) | (LOWEST if kinds & NEGATIVE else 0)
    return result | (signs if exponent % 2 else larger(signs, negated(signs)) & ~(LOWEST | NEGATIVE))


def roots(kinds: int) -> int:
    """Return the kinds of roots: there are none of numbers below zero."""
    return kinds & ~(LOWEST | NEGATIVE) | (NONE if kinds & (LOWEST | NEGATIVE) else 0)


def logarithms(kinds: int) -> int:
    """Return the kinds of logarithms: there are none of numbers below zero."""
    result = kinds & (HIGHEST | NONE) | (NONE if kinds & (LOWEST | NEGATIVE) else 0)
    return result | (LOWEST if kinds & ZERO else 0) | (FINITE if kinds & POSITIVE else 0)


def exponentials(kinds: int) -> int:
    """Return the kinds of exponentials: of 89 on they are infinite in single precision, and zero from -104 on."""
    made = {LOWEST: ZERO, NEGATIVE: ZERO | POSITIVE, ZERO: POSITIVE, POSITIVE: POSITIVE | HIGHEST}
    result = 0
    for kind in each(kinds):
        result |= made.get(kind, kind)
    return result


def absolute(kinds: int) -> int:
    """Return the kinds of numbers without their signs."""
    below = kinds & (LOWEST | NEGATIVE)
    return kinds & ~below | negated(below)
