"""Small models that do not write from left to right: discrete flow and masked diffusion, with exact laws of a step.

| module | what it holds |
|---|---|
| `flow` | discrete flow: Euler steps of a continuous-time Markov chain |
| `masked` | masked diffusion: which positions are unmasked, and with what |
| `subsets` | random subsets of a fixed size, the law of the positions |
| `network` | the transformer of both |
| `policy` | a model in a folder, as the policy of `karl-fast rl` |
| `pretrain`, `settings` | pre-training of a model: `karl-fast pretrain` |

Needs the extra ``train``. `karl_fast.rl.steps` draws rollouts of such models, and takes gradients of their steps.
"""
