"""What travels with a job into the application's Python interpreter: levers, progress and live trials.

This package uses the standard library only, runs under Python 3.8 and later, and imports nothing else of modak. It
travels as a folder or an archive on ``PYTHONPATH`` that ``bundle`` makes: ``sitecustomize.py`` at its top, and this
package beside it under the name in ``bundle.PACKAGE``; that is why all imports here are relative.
"""
