"""The scheduler and the real executor in one thread, step by step, without the loop."""

from engine.core import policies
from engine.core.plan import Plan
from engine.core.request import Request
from engine.core.scheduler import Scheduler, SchedulerConfig
from engine.executor import TorchExecutor
from engine.hashing import BlockHasher, HashChain
from engine.models import Model
from engine.runner import Runner
from engine.sampling import SamplingParams
from engine.stop import StopRule
from engine.token import Token
from ranker.types import FinishReason


class Server:
    """Steps take a second each. ``tokens``: of each request that ended well, its output."""

    def __init__(
        self,
        model: Model,
        config: SchedulerConfig,
        policy=None,
        speculation=None,
        drafter=None,
        buckets=None,
    ) -> None:
        shape = model.kv_shape(config.num_blocks, config.block_size)
        self.executor = TorchExecutor(Runner(model, shape, config.host_blocks, buckets), drafter)
        self.scheduler = Scheduler(config, policy or policies.make("fcfs"), speculation=speculation)
        self.tokens: dict[str, list[int]] = {}
        self.plans: list[Plan] = []
        self.failed: set[str] = set()
        self.cached: dict[str, int] = {}
        self._stop = StopRule(model.eos, min(model.context_length, config.capacity))
        self._hasher = BlockHasher(config.block_size)
        self._chains: dict[str, HashChain] = {}

    @property
    def stats(self):
        return self.scheduler.stats

    def submit(self, name: str, ids: list[int], sampling: SamplingParams, **fields) -> None:
        self.executor.add(name, ids, sampling)
        chain = self._chains[name] = self._hasher.chain(ids)
        arrival = float(len(self.plans))
        request = Request(name, arrival, len(ids), block_hashes=chain.hashes, **fields)
        self.scheduler.add(request, arrival)

    def step(self) -> Plan:
        now = float(len(self.plans))
        plan = self.scheduler.schedule(now)
        self.plans.append(plan)
        sampled = self.executor.run(plan)
        drafted = self.executor.drafted
        accepted, reasons = {}, {}
        for name, tokens in sampled.items():
            taken, reasons[name] = self._take(name, tokens)
            if name in drafted:
                accepted[name] = taken - 1
        lost = {s.request_id for s in plan.steps if s.samples and s.request_id not in sampled}
        reasons |= dict.fromkeys(lost, FinishReason.ERROR)
        self.failed |= lost
        finished = {name: reason for name, reason in reasons.items() if reason}
        ended = self.scheduler.commit(plan, finished, now, accepted, drafted)
        self.scheduler.check_integrity()
        for request in ended:
            self.cached[request.id] = request.cached_tokens
            if request.id not in self.failed:
                sequence = self.executor.sequence(request.id)
                end = request.prompt_tokens + request.output_tokens
                self.tokens[request.id] = sequence.tokens[request.prompt_tokens : end]
            self.executor.remove(request.id)
        return plan

    def abort(self, name: str) -> None:
        """Between steps, as the loop does it."""
        self.scheduler.abort(name, float(len(self.plans)))
        self.executor.remove(name)

    def _take(self, name: str, tokens: tuple[Token, ...]) -> tuple[int, FinishReason | None]:
        """How many of the tokens count, and why the request ends, if it does."""
        sequence, request = self.executor.sequence(name), self.scheduler.get(name)
        assert request is not None
        reason, count = None, 0
        for count, token in enumerate(tokens, start=1):
            self._chains[name].append(token.id)
            output = request.output_tokens + count
            reason = self._stop.check(token.id, output, request.prompt_tokens, sequence.sampling)
            if reason is not None:
                break
        return count, reason

    def run(self) -> "Server":
        """Until nobody is left."""
        while self.scheduler.has_work:
            assert self.step(), "nothing can run"
        return self

    @property
    def preemptions(self) -> int:
        return self.stats.preemptions

    @property
    def mixed_steps(self) -> int:
        return sum(0 < plan.decode_tokens < plan.tokens for plan in self.plans)

    @property
    def later_chunks(self) -> int:
        return sum(step.start > 0 and not step.decodes for p in self.plans for step in p.steps)


def serve_all(
    model: Model,
    prompts: dict[str, list[int]],
    sampling: SamplingParams | dict[str, SamplingParams],
    config: SchedulerConfig,
    policy=None,
    **options,
) -> Server:
    """Generate for all prompts together. ``options`` go to the server."""
    server = Server(model, config, policy, **options)
    for name, ids in prompts.items():
        server.submit(name, ids, sampling[name] if isinstance(sampling, dict) else sampling)
    return server.run()
