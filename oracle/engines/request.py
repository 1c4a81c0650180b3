"""What is asked of an engine, and the checks that several engines share."""

import re
from dataclasses import dataclass

from oracle.engines.schedule import Schedule
from oracle.errors import InputError, printable

VERSION = re.compile(r"v?(\d+)\.(\d+)(?!\d)[\w.+-]*", re.ASCII)


@dataclass(frozen=True)
class Request:
    """A schedule, and what of the deployment decides how it is written; see `configuration` for the fields."""

    schedule: Schedule
    version: str | None = None
    method: str | None = None
    draft_model: str | None = None
    data_parallel: int = 1
    most_draft_tokens: int | None = None
    max_batch_size: int | None = None

    def release(self, engine: str) -> tuple[int, int] | None:
        """Major and minor number of the version; None if it is not given.

        Raises
        ------
        InputError
            A version that does not begin with two numbers.
        """
        if self.version is None:
            return None
        found = VERSION.fullmatch(self.version)
        if found is None:
            raise InputError(f"{engine}: version {printable(self.version)!r} cannot be read; give it like 1.2 or 1.2.0")
        return int(found[1]), int(found[2])

    def ceiling(self, engine: str, name: str) -> int:
        """The engine's maximum of draft tokens: as given, else the largest K of the schedule.

        Raises
        ------
        InputError
            A draft length above the maximum.
        """
        longest = self.schedule.longest
        if self.most_draft_tokens is not None and self.most_draft_tokens < longest:
            raise InputError(
                f"{engine}: K = {longest} is above {name} = {self.most_draft_tokens}; raise --most-draft-tokens, or "
                "lower K"
            )
        return longest if self.most_draft_tokens is None else self.most_draft_tokens

    def one_length(self, engine: str) -> int:
        """The draft length for all batch sizes, for engines that know no other.

        Raises
        ------
        InputError
            The schedule has more than one draft length, or the length is above the maximum.
        """
        lengths = {step.draft_length for step in self.schedule.steps}
        if len(lengths) > 1:
            raise InputError(
                f"{engine} has no draft length by batch size, and the schedule holds "
                f"K = {', '.join(map(str, sorted(lengths)))}; pick one K, or serve with vllm, sglang or trtllm"
            )
        self.ceiling(engine, "the maximum of draft tokens")
        return lengths.pop()
