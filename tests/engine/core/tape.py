"""An executor of plans whose 'keys and values' are the prefix they were computed from.

Each position of each request has a content: the whole sequence of tokens up to it, as one number.
A plan that reads a block which does not hold the request's own prefix, or writes into one that
somebody else reads, fails here at once.
"""

from engine.core.plan import Plan, Step


def chain(before: int, token: object) -> int:
    return hash((before, token))


class Tape:
    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.tokens: dict[str, list[int]] = {}  # id -> contents, position by position
        self.device: dict[int, dict[int, int]] = {}  # block -> slot -> content
        self.host: dict[int, dict[int, int]] = {}

    def add(self, name: str, prompt: list[object], output: int) -> tuple[int, ...]:
        """Contents of a request's prompt and of its next ``output`` tokens; its block hashes."""
        contents, last = [], 0
        for token in [*prompt, *((name, i) for i in range(output))]:
            last = chain(last, token)
            contents.append(last)
        self.tokens[name] = contents
        return tuple(contents[self.block_size - 1 :: self.block_size])

    def run(self, plan: Plan) -> None:
        for source, target in plan.swap_out:
            self.host[target] = dict(self.device.get(source, {}))
        for source, target in plan.swap_in:
            self.device[target] = dict(self.host.get(source, {}))
        for source, target in plan.copies:
            self.device[target] = dict(self.device.get(source, {}))
        for step in plan.steps:
            self._run(step)

    def _run(self, step: Step) -> None:
        contents = self.tokens[step.request_id]
        for position in range(step.start):
            found = self._slot(step, position)
            assert found == contents[position], (
                f"{step.request_id} reads another prefix at {position}"
            )
        for position in range(step.start, step.start + step.tokens):
            block, slot = divmod(position, self.block_size)
            self.device.setdefault(step.block_table[block], {})[slot] = contents[position]

    def _slot(self, step: Step, position: int) -> int | None:
        block, slot = divmod(position, self.block_size)
        return self.device.get(step.block_table[block], {}).get(slot)
