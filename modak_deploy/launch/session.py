"""What all adapters of this process share."""

import functools
import glob
import os
from typing import Any, Callable, Collection, List, Mapping, Optional, Tuple

from . import compiled, processes, record, store
from . import lever as levers_table
from .config import Config
from .handlers import let_through, suppressed
from .lever import EXACT, Lever
from .progress import Counters

NOT_KEPT = "no earlier run has kept what makes it ready, and the job is too short to make that"


class Session:
    """The configuration, the record and the counters of this process, and whether it still takes part."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.record = record.Record(config.record)
        self.store: Optional[store.Store] = None
        """What earlier runs have kept, where there is a folder for it."""
        if config.cache:
            trouble = functools.partial(self._without, "conversions")
            self.store = store.Store(config.cache, "conversions", trouble)
        self.counters = Counters(self.record, config.interval, config.trials.units)
        self.rank, self.ranks = processes.rank()
        self.active = True
        self.searches: List[Any] = []
        """Trials of this process, which tell at its end what was not tried."""
        self._ledgers: List[Any] = []
        self.together = False
        """Whether this process decides for all ranks, which switch with it."""
        self.hands_off: Optional[str] = None
        """Why the program is left alone, where it does itself what levers do."""
        self.trained = False
        """Whether an optimizer has made a step."""
        self.evaluations = 0
        """Calls of modules in evaluation mode so far."""
        self._claimed: Optional[bool] = None
        self._pid = os.getpid()

    @functools.cached_property
    def _crashed(self) -> List[str]:
        """Levers that an earlier attempt of the job was trying when it ended.

        Records are read once something is tried: a job may start thousands of interpreters, each of which leaves one.
        """
        folders = [self.config.record, *sorted(path for pattern in self.config.earlier for path in glob.glob(pattern))]
        return [name for folder in folders for name in record.unfinished(folder)]

    def compiled(self, framework: str, version: str) -> Optional[str]:
        """Return the folder that keeps what a framework compiles; None where there is none."""
        if not self.config.cache:
            return None
        try:
            return compiled.folder(self.config.cache, framework, version)
        except (OSError, ValueError) as error:
            self._without(framework, "{}: {}".format(type(error).__name__, error))
            return None

    def _without(self, what: str, reason: str) -> None:
        self.record.add("no_cache", of=what, reason=reason)

    def follow(self, search: Any) -> None:
        """Take part in the trials of an object: they share what may be lost with those of all others."""
        self.searches.append(search)
        self._ledgers.append(search.ledger)
        search.ledger.others = self._ledgers
        search.beside = self.searches

    def disable(self) -> None:
        """Take no part any more: a forked child counts nothing and tries nothing."""
        self.active = False

    def give_up(self, counting: str, error: Exception) -> None:
        """Take no part any more: counting has failed, and what was to be counted is done and the program's.

        What a handler of the program's for a signal has raised is raised.
        """
        let_through(error)
        self.active = False
        self.record.fallback("the counting of " + counting, error)

    def end(self) -> None:
        """Write the last state, and take no part any more: what runs while Python ends has half of its modules."""
        if not self.active or os.getpid() != self._pid:
            return
        self.active = False
        for tell in (*(search.end for search in self.searches), self.counters.write):
            with suppressed():  # what goes wrong with one of them is not the program's
                tell()
        if not self.record.empty:
            self.record.add("end")

    @property
    def tries(self) -> bool:
        """Tell whether live trials may be made; with several ranks, only where these switch at the same unit."""
        alone = self.ranks == 1 or self.together
        return self.active and self.config.trials.wanted and alone and self._claim()

    def _claim(self) -> bool:
        """Tell whether this is the process that tries, where one of several does: the first that asks."""
        path = self.config.trials.claim
        if path is None:
            return True
        if self._claimed is None:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                self._claimed = True
            except OSError:  # made by another one; or the disk is full, and then nothing is tried
                self._claimed = False
        return self._claimed

    @property
    def tries_or_chosen(self) -> bool:
        """Tell whether modules are anything but counted."""
        return self.tries or (self.active and bool(self.config.levers))

    def chosen(self, framework: str, version: str, kind: Callable[[Lever], bool]) -> List[Lever]:
        """Return the live levers that are on from the start, in the order of the configuration."""
        table = {lever.name: lever for lever in levers_table.levers(framework) if lever.live and kind(lever)}
        names = [name for name in self.config.levers if name in table]
        return [table[name] for name in names if table[name].unusable(version) is None]

    def candidates(self, framework: str, version: str, kind: Callable[[Lever], bool]) -> List[Lever]:
        """Return the levers to try, in their order, that the numerics permit and this process can use."""
        trials = self.config.trials
        table = {lever.name: lever for lever in levers_table.levers(framework) if lever.live and kind(lever)}
        names = trials.candidates
        if names is None:
            names = sorted(table, key=lambda name: (table[name].order, name))
        chosen = []
        for name in names:
            lever = table.get(name)
            if lever is None or (lever.numerics != EXACT and trials.numerics == EXACT):
                continue
            reason = "an earlier run of this job ended while it was tried" if name in self._crashed else None
            reason = reason or (NOT_KEPT if name in trials.kept and not lever.keeps else lever.unusable(version))
            if reason is None:
                chosen.append(lever)
            elif trials.candidates is not None or name in self._crashed:
                self.record.fallback(name, reason)
            else:
                self.record.add("not_offered", lever=name, reason=reason)
        return chosen

    def _accepted(self, levers: List[Lever], refuses: Callable[[Any], Optional[str]]) -> List[Any]:
        """Return the levers that nothing speaks against; the reason against others is recorded."""
        reasons = [(lever, refuses(lever)) for lever in levers]
        for lever, reason in reasons:
            if reason is not None:
                self.record.add("not_offered", lever=lever.name, reason=reason)
        return [lever for lever, reason in reasons if reason is None]

    def offered(
        self, framework: str, version: str, kind: Callable[[Lever], bool], refuses: Callable[[Any], Optional[str]]
    ) -> List[Any]:
        """Return the candidates that nothing speaks against; ``refuses`` gives the reason that is recorded, if any."""
        levers = self._accepted(self.candidates(framework, version, kind), refuses)
        names = {lever.name for lever in levers}.difference(self.config.trials.kept)
        return [lever for lever in levers if lever.faster not in names]

    def without_unkept(self, of: str, levers: List[Any], held: Collection[str]) -> List[Any]:
        """Return the levers without those that were to be tried only if an earlier run had kept what makes them ready.

        ``of`` is the object of the program that they are tried on, and ``held`` names those for which it has.
        """
        kept = self.config.trials.kept
        for lever in levers:
            if lever.name in kept and lever.name not in held:
                self.record.add("not_tried", of=of, lever=lever.name, reason=NOT_KEPT)
        return [lever for lever in levers if lever.name in held or lever.name not in kept]

    def chosen_or_offered(
        self, framework: str, version: str, kind: Callable[[Lever], bool], refuses: Callable[[Any], Optional[str]]
    ) -> Tuple[List[Any], List[Any]]:
        """Return the levers to try, and those that are on from the start.

        With such, only what the configuration names as candidates is tried.
        """
        chosen = self._accepted(self.chosen(framework, version, kind), refuses)
        trials = self.config.trials
        if not self.tries or (chosen and trials.candidates is None and not trials.surveys):
            return [], chosen
        names = {lever.name for lever in chosen}
        levers = self.offered(framework, version, kind, refuses)
        return [lever for lever in levers if lever.faster not in names], chosen

    def start_levers(self, framework: str, version: str, module: Any) -> None:
        """Switch on the levers of a framework that the configuration names."""
        for lever in levers_table.levers(framework):
            if lever.name not in self.config.levers:
                continue
            reason = lever.unusable(version)
            if reason is None:
                try:
                    lever.start(module, self.settings(lever))
                    if lever.at_start(module, self.settings(lever)):
                        self.record.add("lever", lever=lever.name, framework=framework, version=version)
                except Exception as error:  # whatever a framework's version makes of it
                    reason = "{}: {}".format(type(error).__name__, error)
            if reason is not None:
                self.record.fallback(lever.name, reason)

    def settings(self, lever: Lever) -> Mapping[str, Any]:
        """Return what the configuration sets for a lever."""
        settings: Mapping[str, Any] = self.config.settings.get(lever.name, {})
        return settings

    def guarded(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function such that its failure is a line in the log and not the program's."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception as error:  # the program's own run matters more
                let_through(error)
                self.record.fallback(what, "{}: {}".format(type(error).__name__, error))
                return None

        return call


_session: Optional[Session] = None


def current() -> Optional[Session]:
    """Return the session of this process."""
    return _session


def begin(config: Config) -> Session:
    """Make the session of this process."""
    global _session
    _session = Session(config)
    return _session
