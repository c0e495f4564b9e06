"""What can go wrong before a kernel runs."""


class EmulatorUnavailable(RuntimeError):
    """The emulated device cannot be made here; the message says what is missing and how to get it."""


class CompileError(RuntimeError):
    """A kernel source does not compile; the message is the compiler's, with the source's own lines."""
