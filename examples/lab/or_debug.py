"""Repair of infeasible linear programs: programs with faults, an environment with a solver, and a script that plays it.

    prompts = "or_debug.py:programs"        # with the field `difficulty`: easy, medium, hard
    environment = "or_debug.py:Debugger"
    max_turns = 5
    curriculum = "stages"                   # easy, easy and medium, medium and hard, hard

A turn has one action, and may have a diagnosis before it:

    <think> c1 contradicts c3 </think> RELAX_CONSTRAINT(c1, 2)

| action | does |
|---|---|
| `GET_IIS` | names constraints, and variables for their bounds, that cannot all hold; without any one they can |
| `CHECK_SLACK(c)` | how far a constraint is from its limit where the sum of violations is least; of all without c |
| `RELAX_CONSTRAINT(c, amount)` | moves the right-hand side outwards |
| `DROP_CONSTRAINT(c)` | removes it |
| `UPDATE_RHS(c, value)`, `UPDATE_BOUNDS(x, lower, upper)` | sets them |
| `RESET` | takes all changes back |
| `SUBMIT` | ends |

HiGHS solves the program after each action; the episode ends when it has a solution. The task is that of
Archer222arc/LLM-for-OR, with programs of its own: there, type C fails ("min() arg is empty"), and harder levels are
recovered more often than easy ones.
"""

import importlib.util
import math
import random
import re
import sys
from copy import deepcopy
from itertools import chain, pairwise
from pathlib import Path

_spec = importlib.util.spec_from_file_location("or_debug_rewards", Path(__file__).resolve().parents[1] / "or_debug.py")
rewards = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rewards)

STEPS = 5
"""Actions within which a program has to be recovered."""
WEIGHTS = {"outcome": 0.5, "diagnosis": 0.3, "efficiency": 0.2}  # code: composite_reward.py
LEVELS = {"easy": (1, 2), "medium": (2, 3), "hard": (3, 4)}
"""Number of conflicts, and of variables in each."""
KINDS = {"A": "semantic", "B": "bounds", "C": "logic", "D": "right-hand side"}
HIGHEST, OTHERS = 16, 2
"""Upper bound of a variable where nothing else is said, and number of constraints that are in no conflict."""


# Programs: {"rows": {name: [{variable: coefficient}, sense, right-hand side]}, "bounds": {variable: [low, high]}}


def generate(kind, level, seed):
    """A line of prompts: a program with as many faults of a kind as the level has.

    All constraints of the right program hold at a hidden point. A conflict is a chain such as a - b >= 2, b - c >= 3,
    and a limit on what its ends differ by, which has the fault: its sense is turned (A), it lacks a term (C), or its
    right-hand side is too small (D); for B the limit is a bound of an end. Chains may share constraints, so that one
    repair may end two conflicts. ``ground_truth_iis`` has what is in conflict by each fault alone, and ``fixes`` an
    action against each fault.
    """
    draw, (conflicts, size) = random.Random(f"{kind} {level} {seed}"), LEVELS[level]
    while True:
        values = [*draw.sample(range(HIGHEST), 5), HIGHEST]
        point = {f"x{place + 1}": value for place, value in enumerate(values)}
        chains, faults = zip(*(_conflict(draw, kind, size, point) for _ in range(conflicts)), strict=True)
        links = []
        for row in chain.from_iterable(chains):
            if row not in links:  # a constraint may be in two chains
                links.append(row)
        limits = [fault["right"] for fault in faults if "right" in fault]
        rows = [*links, *limits, *(_idle_row(draw, point) for _ in range(OTHERS))]
        draw.shuffle(rows)
        names = {f"c{place + 1}": row for place, row in enumerate(rows)}
        right = {"rows": names, "bounds": {variable: [0, HIGHEST] for variable in point}}
        targets = [fault.get("variable") or f"c{rows.index(fault['right']) + 1}" for fault in faults]
        if len(set(targets)) < conflicts or any(limit in links for limit in limits):
            continue  # two faults in one place
        wrong, truth, fixes = deepcopy(right), set(), []
        for target, fault in zip(targets, faults, strict=True):
            alone = deepcopy(right)
            for program in (alone, wrong):
                program["rows" if target in names else "bounds"][target] = fault["wrong"]
            truth |= set(find_iis(alone))
            fixes.append(fault["fix"].format(target))
        fields = {"program": wrong, "ground_truth_iis": sorted(truth), "fixes": fixes}
        return {"prompt": show(wrong), "difficulty": level, "kind": kind} | fields


def _conflict(draw, kind, size, point):
    """A chain of constraints, and the fault of its limit."""
    names = sorted(draw.sample(list(point)[:5], size), key=point.get, reverse=True)
    first, last = names[0], names[-1]
    links = [[{a: 1, b: -1}, ">=", max(1, point[a] - point[b] - draw.randint(0, 1))] for a, b in pairwise(names)]
    low, gap = draw.randint(0, sum(row[2] for row in links) - 1), point[first] - point[last]
    ends = {first: 1, last: -1}
    if kind == "B":
        variable, bounds = draw.choice([(first, [0, low]), (last, [HIGHEST - low, HIGHEST])])
        return links, {"variable": variable, "wrong": bounds, "fix": f"UPDATE_BOUNDS({{}}, 0, {HIGHEST})"}
    right = {"A": [ends, ">=", low], "C": [ends | {"x6": -1}, "<=", low], "D": [ends, "<=", gap]}[kind]
    return links, {"right": right, "wrong": [ends, "<=", low], "fix": f"UPDATE_RHS({{}}, {gap})"}


def _idle_row(draw, point):
    """A constraint that holds at the point, and contradicts no chain."""
    variable = draw.choice(list(point)[:5])
    return [{variable: 1, "x6": 1}, ">=", draw.randint(0, HIGHEST)]


def programs(count=10):
    """Lines of all kinds and levels, so many of each."""
    for seed in range(count):
        for level in LEVELS:
            for kind in KINDS:
                yield generate(kind, level, seed)


def held_out_programs(count=4):
    """Other ones."""
    for seed in range(1000, 1000 + count):
        for level in LEVELS:
            for kind in KINDS:
                yield generate(kind, level, seed)


def explained_programs():
    """The same as `programs`, with the rules, for a language model."""
    rules = (__doc__ or "").partition("A turn has")[2].partition("HiGHS solves")[0]
    for line in programs():
        yield line | {"prompt": f"This linear program has no solution. Repair it.\n\nA turn has{rules}{line['prompt']}"}


def show(program):
    """A program as words."""
    rows = [f"{name} : {_sum(terms)} {sense} {_number(rhs)}" for name, (terms, sense, rhs) in program["rows"].items()]
    bounds = [f"{_number(low)} <= {name} <= {_number(high)}" for name, (low, high) in program["bounds"].items()]
    return "\n".join([*rows, *bounds])


def _sum(terms):
    signed = [
        f"{'-' if value < 0 else '+'} {'' if abs(value) == 1 else f'{abs(value):g} '}{name}"
        for name, value in terms.items()
    ]
    return " ".join(signed).removeprefix("+ ")


def _number(value):
    """A number; the sign is a word of its own."""
    return f"{'- ' if value < 0 else ''}{abs(value):g}"


# The solver


def build(program, violated=False):
    """The program in HiGHS; with ``violated`` each constraint may be violated, at a cost of 1 a unit."""
    try:
        import highspy
    except ImportError as error:
        raise ImportError("the repair of linear programs needs highspy: pip install 'karl-fast[lab]'") from error
    solver, infinity = highspy.Highs(), highspy.kHighsInf
    solver.silent()
    place = {name: number for number, name in enumerate(program["bounds"])}
    for low, high in program["bounds"].values():
        solver.addVar(low, high)
    for terms, sense, rhs in program["rows"].values():
        columns, values = [place[name] for name in terms], [float(value) for value in terms.values()]
        if violated:
            columns, values = [*columns, solver.getNumCol()], [*values, 1.0 if sense == ">=" else -1.0]
            solver.addVar(0, infinity)
            solver.changeColCost(columns[-1], 1.0)
        limits = (rhs, infinity) if sense == ">=" else (-infinity, rhs)
        solver.addRow(*limits, len(columns), columns, values)
    return solver


def has_solution(solver):
    """Solve, and say whether there is a solution."""
    solver.run()
    return solver.getModelStatus() == type(solver.getModelStatus()).kOptimal


def is_feasible(program):
    """Whether a program has a solution."""
    return has_solution(build(program))


def find_iis(program):
    """Names of an irreducible infeasible subset: each constraint, or bound of a variable, that cannot be left out."""
    solver, names = build(program), []
    for column, (name, bounds) in enumerate(program["bounds"].items()):
        needed = list(bounds)
        for side, free in enumerate((-math.inf, math.inf)):
            kept, needed[side] = needed[side], free
            solver.changeColBounds(column, *needed)
            if has_solution(solver):
                needed[side] = kept
                solver.changeColBounds(column, *needed)
                names.append(name)
    for row, (name, (_, sense, rhs)) in enumerate(program["rows"].items()):
        solver.changeRowBounds(row, -math.inf, math.inf)
        if has_solution(solver):
            solver.changeRowBounds(row, *((rhs, math.inf) if sense == ">=" else (-math.inf, rhs)))
            names.append(name)
    return sorted(set(names))


# The environment

ACTIONS = (
    *("GET_IIS", "CHECK_SLACK", "RELAX_CONSTRAINT", "DROP_CONSTRAINT", "UPDATE_RHS", "UPDATE_BOUNDS"),
    *("RESET", "SUBMIT"),
)
ACTION = re.compile(rf"\b({'|'.join(ACTIONS)})\b\s*(?:\(([^()]*)\)|([^()<\n]*))")
ARGUMENT = re.compile(r"[A-Za-z_][\w.]*|-?\s*\d+(?:\.\d+)?")


class Debugger:
    """Repairs a program; its reward is `composite`.

    Attributes:
        steps: actions so far.
        recovered: the number of the action after which the program had a solution; None without one.
    """

    def reset(self, prompt):
        """The prompt has the program."""
        self.line, self.program = prompt, deepcopy(prompt["program"])
        self.texts, self.recovered = [], None

    @property
    def steps(self):
        """Actions so far."""
        return len(self.texts)

    def step(self, text):
        """Act; say whether the program has a solution, and what was asked for."""
        self.texts.append(text)
        action = ACTION.search(rewards.THOUGHT.sub(" ", text))
        if action is None:
            return "INVALID", False
        words = [word.replace(" ", "") for word in ARGUMENT.findall(action[2] or action[3] or "")]
        try:
            answer = getattr(self, f"_{action[1].lower()}")(*words)
        except (KeyError, TypeError, ValueError):  # no such name, too few or too many words, no such number
            return "INVALID", False
        if is_feasible(self.program):
            self.recovered = self.steps
            return f"OPTIMAL {answer}".strip(), True
        return f"INFEASIBLE {answer}".strip(), action[1] == "SUBMIT"

    def _get_iis(self):
        return " ".join(["IIS", *find_iis(self.program)])

    def _check_slack(self, *names):
        solver = build(self.program, violated=True)
        solver.run()
        values = dict(zip(self.program["bounds"], solver.getSolution().col_value, strict=False))
        slacks = []
        for name in map(str.lower, names or self.program["rows"]):
            terms, sense, rhs = self.program["rows"][name]
            slack = (rhs - sum(values[variable] * value for variable, value in terms.items())) * (-1) ** (sense == ">=")
            slacks.append(f"{name} {_number(round(slack, 4) + 0.0)}")
        return " ".join(["SLACK", *slacks])

    def _relax_constraint(self, name, amount):
        row = self.program["rows"][name.lower()]
        row[2] += _finite(amount) * (1 if row[1] == "<=" else -1)
        return ""

    def _drop_constraint(self, name):
        del self.program["rows"][name.lower()]
        return ""

    def _update_rhs(self, name, value):
        self.program["rows"][name.lower()][2] = _finite(value)
        return ""

    def _update_bounds(self, name, low, high):
        bounds = self.program["bounds"][name.lower()]
        low, high = _finite(low), _finite(high)
        if low > high:
            raise ValueError("an empty range")
        bounds[:] = [low, high]
        return ""

    def _reset(self):
        self.program = deepcopy(self.line["program"])
        return ""

    def _submit(self):
        return ""

    @property
    def solved(self):
        """Whether the program was recovered within `STEPS` actions."""
        return self.recovered is not None and self.recovered <= STEPS

    @property
    def accuracy(self):
        """The Jaccard index of what was named while thinking and what is in conflict."""
        names = [*self.line["program"]["rows"], *self.line["program"]["bounds"]]
        return diagnose(self.texts, self.line["ground_truth_iis"], names)

    def score(self):
        """The composite reward."""
        return composite(self.solved, self.accuracy, self.steps)


def _finite(word):
    number = float(word)
    if not abs(number) <= 1e6:
        raise ValueError("too large for the solver")
    return number


def diagnose(texts, truth, names):
    """The Jaccard index; only whole words that are names of the program count, so "Because" does not."""
    return rewards.diagnosis(["\n".join(texts)], [truth], [names])[0] / rewards.FULL_MARKS


def composite(solved, accuracy, steps):
    """Half the outcome (100 or -50), .3 times 20 times the accuracy, .2 times the efficiency; at most 58."""
    parts = {
        "outcome": rewards.SOLVED if solved else rewards.FAILED,
        "diagnosis": rewards.FULL_MARKS * accuracy,
        "efficiency": rewards.efficiency([""], [steps])[0],
    }
    return sum(WEIGHTS[name] * value for name, value in parts.items())


# Reward functions, which play the answers again: with the weight 0 they measure


def recovery(prompts, completions, program, **columns):
    """1 if the program was recovered within five actions."""
    return [float(replay(turns, line).solved) for turns, line in zip(completions, _lines(program), strict=True)]


def diagnosis(prompts, completions, program, ground_truth_iis, **columns):
    """The accuracy of the diagnosis."""
    lines = _lines(program, ground_truth_iis)
    return [replay(turns, line).accuracy for turns, line in zip(completions, lines, strict=True)]


def _lines(programs, truths=None):
    truths = truths or [[] for _ in programs]
    return [{"program": program, "ground_truth_iis": truth} for program, truth in zip(programs, truths, strict=True)]


def replay(turns, line):
    """The environment after the turns of a policy: a text, or messages."""
    environment = Debugger()
    environment.reset(line)
    texts = [turns] if isinstance(turns, str) else [turn["content"] for turn in turns if turn["role"] == "assistant"]
    for text in texts:
        environment.step(text)
    return environment


# A script that plays


def play(line, draw, turns=20):
    """Ask for a conflict, name it, repair one of its members by chance, and again; the environment at the end."""
    environment, done, answer = Debugger(), False, ""
    environment.reset(line)
    while not done and environment.steps < turns:
        _, _, conflict = answer.partition("IIS ")
        answer, done = environment.step(_repair(line, conflict.split(), draw) if conflict else "GET_IIS")
    return environment


def _repair(line, conflict, draw):
    """A diagnosis, and a repair of one member of the conflict."""
    name = draw.choice(conflict)
    if name in line["program"]["bounds"]:
        action = f"UPDATE_BOUNDS({name}, - {HIGHEST}, {2 * HIGHEST})"
    else:
        action = draw.choice([f"DROP_CONSTRAINT({name})", f"RELAX_CONSTRAINT({name}, 3)"])
    return f"<think> {' '.join(conflict)} </think> {action}"


# A policy that begins with the form of a turn


def novice(seed, steps=60):
    """The policy `small` after some steps on turns whose action and constraint are drawn by chance."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim
    from policy import END, NUMBER, Words
    from reversal import Snapshot

    policy, draw, optimizer = Words(), random.Random(seed), optim.Adam(1e-2)
    prompts = [policy.encode([{"role": "user", "content": line["prompt"]}]) for line in programs(1)]

    def loss(model, tokens, mask):
        losses = nn.losses.cross_entropy(model.logits(model.norm(model(tokens[:, :-1]))), tokens[:, 1:])
        return (losses * mask[:, 1:]).sum() / mask[:, 1:].sum()

    gradient = nn.value_and_grad(policy.model, loss)
    for _ in range(steps):
        rows = [(draw.choice(prompts), [NUMBER[word] for word in [*_any_turn(draw), END]]) for _ in range(16)]
        longest = max(len(prompt) + len(turn) for prompt, turn in rows)
        tokens = mx.array([[*a, *b, *[NUMBER[END]] * (longest - len(a) - len(b))] for a, b in rows])
        mask = mx.array([[0] * len(a) + [1] * len(b) + [0] * (longest - len(a) - len(b)) for a, b in rows])
        _, gradients = gradient(policy.model, tokens, mask)
        optimizer.update(policy.model, gradients)
        mx.eval(policy.model, optimizer.state)
    policy.before = Snapshot(policy.model)
    return policy


def _any_turn(draw):
    """The words of a turn: two names as a diagnosis, and an action on another."""
    names = [f"c{draw.randint(1, 12)}" for _ in range(3)]
    action = draw.choice([["GET_IIS"], ["DROP_CONSTRAINT", names[2]], ["RELAX_CONSTRAINT", names[2], "3"]])
    return ["<think>", *names[:2], "</think>", *action]
