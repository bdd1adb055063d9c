"""The commands ``modak model fit|show|evaluate|scale``: the evaluation decides with each model, so they belong here."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from modak_deploy.answers import answer

model = typer.Typer(no_args_is_help=True, help="The time model.", rich_markup_mode=None)
Folder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="FOLDER", help="Folder of the model; in your data folder when absent."),
]


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@model.command()
def fit(
    folder: Folder = None,
    evaluation: Annotated[
        bool,
        typer.Option(
            " /--no-evaluation", show_default=False, help="Skip the evaluation, which needs a fit for each workload."
        ),
    ] = True,
) -> None:
    """Fit the model to all measurements, shipped and your own, and keep it for later Plans."""
    from modak_deploy.optimiser.evaluating import fit_now
    from modak_deploy.performance.modelling import report
    from modak_deploy.performance.paths import model_folder
    from modak_deploy.performance.timemodel import write_model

    fitted = fit_now(judged=evaluation, tell=_tell)
    where = folder or model_folder()
    write_model(where, fitted.description, fitted.contents)
    answer({"model": fitted.description, "folder": where}, f"{report(fitted.description)}written to {where}")


@model.command()
def show(folder: Folder = None) -> None:
    """Show the fitted model: its measurements, and its errors on workloads that were held out."""
    from modak_deploy.performance.modelling import report
    from modak_deploy.performance.paths import model_folder
    from modak_deploy.performance.timemodel import TimeModel

    description = TimeModel(folder or model_folder()).description
    answer(description, report(description))


@model.command()
def evaluate() -> None:
    """Hold out each workload in turn, fit the model to the others and decide; nothing is kept."""
    from modak_deploy.optimiser.evaluating import fit_now
    from modak_deploy.performance.modelling import report

    description = fit_now(tell=_tell).description
    answer(description, report(description))


@model.command()
def scale(name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the workload.")]) -> None:
    """Show how a workload scales: laws, measurements, and a table over ranks, in seconds per unit."""
    from modak_deploy.performance.records import available_measurements
    from modak_deploy.performance.scaletable import scale_lines, scale_values

    measurements = available_measurements()
    answer(scale_values(name, measurements), "\n".join(scale_lines(name, measurements)))
