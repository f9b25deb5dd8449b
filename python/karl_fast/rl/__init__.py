"""The online loop: rollouts, rewards, scores, steps; on MLX, with any recipe of `karl_fast.objective`."""
