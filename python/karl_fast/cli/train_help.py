"""Help texts of the options of a training run."""

from __future__ import annotations

HELP = {
    "recipe": (
        "What is minimised. sft: the log-likelihood. dft: each token scaled by its probability. boltzmann, "
        "awr: each row weighted by log_weight, by advantage. oapl, vargrad: log-ratios regressed on rewards, "
        "by group."
    ),
    "inverse_temperature": "vargrad: b of exp(b * reward).",
    "temperature": "awr, oapl: what the reward is divided by.",
    "train_on": "Learn from every assistant turn, the last one, or all tokens.",
    "iters": "Batches to train on.",
    "epochs": "Instead of --iters: how often every row is seen.",
    "batch_size": (
        "Rows a batch, and the most that are in memory at a time: where a recipe keeps groups together, a larger one "
        "passes in parts."
    ),
    "grad_accumulation_steps": "Batches a step: their gradients add up as those of one batch.",
    "max_seq_length": "Tokens a row may have; auto: as the longest row has, or as many as there is memory for.",
    "overlong": "A longer row: keep its last tokens, cut it into windows, drop it, or end with an error.",
    "rewritten": (
        "A template that renders earlier turns otherwise once others follow: train each turn in a row of its "
        "own, as it was when the model said it, or end with an error."
    ),
    "fine_tune_type": "What is trained.",
    "num_layers": "Layers to train, from the last one; -1 for all. [default: 16, or all]",
    "lora_rank": "Rank of LoRA.",
    "lora_scale": "What the product of the two LoRA matrices is multiplied with.",
    "lora_dropout": "Dropout in front of LoRA.",
    "lora_keys": "Layers that get LoRA, with commas. [default: all that are linear]",
    "optimizer": "Adam and AdamW correct their bias.",
    "weight_decay": "adamw: share of a weight that a step at learning rate 1 takes away.",
    "learning_rate": "Learning rate, after the warm-up.",
    "lr_schedule": "How it falls after the warm-up: not, or to 0 at the end.",
    "warmup": "Steps over which it rises from 0.",
    "max_grad_norm": "The gradient is scaled down to this norm; 0 for not.",
    "grad_checkpoint": "Less memory, a third more time: layers are computed again going back.",
    "val_batches": "Batches of valid.jsonl that are judged by; -1 for all.",
    "steps_per_eval": "Steps between validations.",
    "steps_per_report": "Steps between lines of the report.",
    "patience": "Stop after so many validations without a better one.",
    "save_every": "Steps between checkpoints.",
    "keep": "Checkpoints that are kept, beside the one that was best.",
    "seed": "Same seed, data and settings: same bytes.",
    "memory_limit": "GB that may be used. [default: what the device recommends]",
    "cache_limit": "GB that MLX may hold on to for later.",
    "report_to": "Trackers beside metrics.jsonl: wandb, trackio.",
    "project_name": "The project that trackers file the run under.",
}
