"""The one exception for what a user can put right."""


class InputError(ValueError):
    """Bad input: one line that names the file, column or row and says what to do.

    The command line prints the line and exits with code 2; the Python API raises it.
    """


class WorkerError(InputError):
    """Bad input that one worker met in its share of the work, so that only this one can tell."""
