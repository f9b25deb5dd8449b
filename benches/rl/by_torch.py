"""The online loop on token reversal in PyTorch: bare, and with the rewards, the log and the metrics of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reversing import GROUP, HEADS, LAYERS, LONGEST, SYMBOLS, Task, all_prompts, answers, compared, earned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal import Journal


def by_torch(seed: int, task: Task, journal: Journal | None = None) -> Iterator[float]:
    """The same loop in PyTorch: GRPO with k3 at 0.04, Adam, the norm at most 1.

    The mean reward of each round, and at its end the exact match. A journal gives the rewards, and keeps the rounds.
    """
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    symbols, prompts = task.symbols, task.prompts
    model, reference = _model(torch, task.size), _model(torch, task.size)
    reference.load_state_dict(model.state_dict())
    adam = torch.optim.Adam(model.parameters(), lr=task.rate)
    every = torch.tensor(all_prompts(symbols)).long()
    for _ in range(task.rounds):
        chosen = every[torch.randperm(len(every))[:prompts]].repeat_interleave(GROUP, 0)
        tokens, drawn = _drawn(torch, model, chosen, symbols + 1, measured=journal is not None)
        mask, rewards = earned(chosen.numpy(), tokens.numpy(), task)
        if journal is not None:  # by the function that ours calls; those of arrays cost next to nothing
            rewards = journal.earned(chosen.numpy(), tokens.numpy(), mask)
        mask, advantages = map(torch.from_numpy, (mask, compared(rewards)))
        with torch.no_grad():
            ref = _logp(torch, reference, tokens, symbols)
        logp = _logp(torch, model, tokens, symbols)
        ratio, far = (logp - logp.detach()).exp(), ref - logp
        loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages) + 0.04 * (far.exp() - far - 1)
        adam.zero_grad()
        ((loss * mask).sum(1) / mask.sum(1)).mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        if journal is not None:
            k3 = ((far.exp() - far - 1) * mask).detach().sum() / mask.sum()
            steps = {
                "loss": float((loss.detach() * mask).sum() / mask.sum()),
                "grad_norm": float(norm),
                "kl": float(k3),
            }
            journal.keep(logp.detach().numpy(), drawn.numpy(), mask.numpy(), **steps)
        yield float(rewards.mean())
    said = _drawn(torch, model, every, symbols + 1, greedy=True)[0][:, symbols + 1 :]
    yield float((said.numpy() == answers(every.numpy(), symbols)).all(1).mean())


def _model(torch: Any, size: int) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
            self.joint, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
            self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

        def forward(self, x: Any, cache: dict[str, Any] | None) -> Any:
            rows, length, _ = x.shape
            joint = self.joint(self.norms[0](x)).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            keys, values = joint[1], joint[2]
            if cache is not None:
                keys = torch.cat([cache["keys"], keys], 2) if cache else keys
                values = torch.cat([cache["values"], values], 2) if cache else values
                cache.update(keys=keys, values=values)
            heard = nn.functional.scaled_dot_product_attention(joint[0], keys, values, is_causal=length > 1)
            x = x + self.out(heard.transpose(1, 2).reshape(rows, length, size))
            return x + self.narrow(torch.relu(self.wide(self.norms[1](x))))

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(SYMBOLS + 2, size), nn.Embedding(LONGEST, size)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.norm, self.logits = nn.LayerNorm(size), nn.Linear(size, SYMBOLS + 2)

        def forward(self, tokens: Any, caches: list[dict[str, Any]] | None = None, start: int = 0) -> Any:
            x = self.tokens(tokens) + self.places(torch.arange(start, start + tokens.shape[1]))
            for place, block in enumerate(self.blocks):
                x = block(x, None if caches is None else caches[place])
            return self.logits(self.norm(x))

    return Transformer()


def _drawn(
    torch: Any, model: Any, prompts: Any, count: int, *, greedy: bool = False, measured: bool = False
) -> tuple[Any, Any]:
    """Prompts with what was said, and where it is measured the entropy of each token's distribution. [B, T'], [B, U]"""
    tokens, caches, entropy = prompts, [{} for _ in range(LAYERS)], []
    with torch.no_grad():
        logits = model(prompts, caches)[:, -1]
        for place in range(count):
            chances = torch.distributions.Categorical(logits=logits)
            new = logits.argmax(-1) if greedy else chances.sample()
            if measured:
                entropy.append(chances.entropy())
            tokens = torch.cat([tokens, new[:, None]], 1)
            if place + 1 < count:
                logits = model(new[:, None], caches, tokens.shape[1] - 1)[:, -1]
    return tokens, torch.stack(entropy, 1) if measured else None


def _logp(torch: Any, model: Any, tokens: Any, symbols: int) -> Any:
    logits = model(tokens[:, :-1])[:, symbols:]
    return logits.log_softmax(-1).gather(-1, tokens[:, symbols + 1 :, None])[..., 0]
