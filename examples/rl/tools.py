"""Multi-turn: a calculator that the policy may ask before it answers. `karl-fast rl --config examples/rl/tools.toml`.

An environment is made anew for each rollout. What it says is not learned from: only the policy's own tokens are.
"""

import re

CALL = re.compile(r"calc\(\s*(-?\d+)\s*([-+*])\s*(-?\d+)\s*\)")
DO = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}


class Calculator:
    """Answers ``calc(2 + 3)``; a turn without a call is the answer."""

    def reset(self, prompt):
        """The line of the prompt; there is nothing to say before the first turn."""
        self.wanted, self.said, self.calls = prompt["answer"], "", 0

    def step(self, text):
        """What the tool says, and whether the rollout is over."""
        self.said, call = text, CALL.search(text)
        if call is None:
            return None, True
        self.calls += 1
        result = str(DO[call[2]](int(call[1]), int(call[3])))
        return [{"role": "tool", "name": "calc", "success": True, "content": result}], False

    def score(self):
        """1 for the right answer, and a tenth for having asked."""
        numbers = re.findall(r"-?\d+", self.said)
        right = bool(numbers) and int(numbers[-1]) == self.wanted
        return float(right) + 0.1 * (self.calls > 0)
