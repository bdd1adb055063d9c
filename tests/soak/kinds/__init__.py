"""One module for each kind of round; each has ``ROUNDS``, how many of a soak of 1,000 are of that kind by site, and
``one(site, name, chance)``, which carries out one round and returns what went wrong, nothing when all was well."""

from types import ModuleType

from kinds import clocks, disk, emptied, kills, namespaces, slow

KINDS: dict[str, ModuleType] = {
    "killed": kills,
    "full disk": disk,
    "namespaces": namespaces,
    "emptied records": emptied,
    "slow scheduler": slow,
    "clock set": clocks,
}
