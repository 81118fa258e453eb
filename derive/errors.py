"""The one kind of error a user of Handgrad meets: it names the op, the equation, the cause and the fix."""


OUR_FAULT = 'the spec is sound, its derivation is not: please report it; another way of saving, as save="input", may do'
"""The fix where a stage finds that one before it went wrong."""


class DeriveError(ValueError):
    """Something a user can mend: `op`, `equation` (either may be unknown), what is wrong, what to do."""

    def __init__(self, cause: str, *, op: str | None = None, equation: str | None = None, fix: str | None = None):
        self.op, self.equation, self.cause, self.fix = op, equation, cause, fix
        super().__init__(self._line())

    def _line(self) -> str:
        where = []
        if self.op:
            where.append(f"op {self.op}")
        if self.equation:
            where.append(f"equation {self.equation}")
        head = ", ".join(where)
        line = f"{head}: {self.cause}" if head else self.cause
        return f"{line}; {self.fix}" if self.fix else line

    def within(self, op: str | None = None, equation: str | None = None) -> "DeriveError":
        """The same error, told where it happened (what is already known stays)."""
        return type(self)(self.cause, op=self.op or op, equation=self.equation or equation, fix=self.fix)


class ReturnedError(DeriveError):
    """What a spec returns cannot be an op's output."""
