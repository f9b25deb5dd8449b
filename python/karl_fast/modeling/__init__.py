"""Models for training, offline and online: loading, adapters, log-probabilities, gradients, checkpoints."""
