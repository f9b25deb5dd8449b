//! Presets: fields of id, group, reward and conversation in the logs of known tools.
//!
//! Each format is a constant, detected by the keys of a record. [`GENERIC`] is last: it matches every record and uses
//! plain field names. [`expr`](super::expr) is the language of their entries.

/// Fields of one tool. Every entry but the first three is a [`Field`](super::Field) or a dotted path; an
/// empty one means that the tool does not write it.
#[derive(Debug)]
pub struct Format {
    /// Name in options and reports.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Sets of top-level keys that only records of this tool have together; one set for each form of its
    /// records.
    pub signatures: &'static [&'static [&'static str]],
    /// Paths of the parts of a record's id, joined by `/`.
    pub id: &'static str,
    /// Prompt or task that records share: fields, joined like those of the id.
    pub group: &'static str,
    /// Number in the group that is in no record.
    pub sidecar: Option<Sidecar>,
    /// Reward.
    pub reward: &'static str,
    /// Category for reports.
    pub domain: &'static str,
    /// Conversation: an array of objects with `role` and `content`.
    pub messages: &'static str,
    /// Tools offered to the model.
    pub tools: &'static str,
    /// Prompt of records without a conversation.
    pub prompt: &'static str,
    /// Completion of records without a conversation.
    pub completion: &'static str,
    /// Text of records with neither.
    pub text: &'static str,
    /// Path that is set in a rollout that failed for reasons outside the model: its row has no reward.
    pub failed: &'static str,
    /// Path that is true in a truncated rollout: its reward counts, its text is not written.
    pub truncated: &'static str,
    /// Key of a message's text when its `content` is null.
    pub reasoning: &'static str,
    /// Version of the policy that made a rollout, or the trainer's step that identifies it.
    pub policy_version: &'static str,
    /// Name of the model.
    pub model: &'static str,
    /// Number of input tokens; 0 is unknown.
    pub input_tokens: &'static str,
    /// Number of output tokens; 0 is unknown.
    pub output_tokens: &'static str,
}

/// Formats are equal if their names are.
impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

impl Format {
    /// Preset without any field.
    pub(super) const NOTHING: Self = Self {
        name: "",
        about: "",
        signatures: &[],
        id: "",
        group: "",
        sidecar: None,
        reward: "",
        domain: "",
        messages: "",
        tools: "",
        prompt: "",
        completion: "",
        text: "",
        failed: "",
        truncated: "",
        reasoning: "",
        policy_version: "",
        model: "",
        input_tokens: "",
        output_tokens: "",
    };
}

/// Number that a tool writes to a file beside the log; the format's group refers to it by name.
#[derive(Clone, Copy, Debug)]
pub struct Sidecar {
    /// Name of the file.
    pub file: &'static str,
    /// Key of the number.
    pub number: &'static str,
}

/// Canonical trajectories.
///
/// Canonical trajectories, one per line, as `karl-fast convert` writes them. The manual's page `trajectory`
/// defines them.
///
/// Version 1 is supported, and every later one in which the keys below have the same meaning.
pub const TRAJECTORY: Format = Format {
    name: "trajectory",
    about: "canonical trajectories, as karl-fast convert writes them",
    signatures: &[&["karl_fast_trajectory", "id", "messages"]],
    id: "id",
    group: "group",
    reward: "reward",
    domain: "source.format",
    messages: "messages",
    tools: "tools",
    ..Format::NOTHING
};

/// Results of tau-bench (<https://github.com/sierra-research/tau-bench>).
///
/// tau-bench's `historical_trajectories` and the checkpoints of its `run.py`: one JSON array of results.
///
/// The same task is run in several trials, so the task is the group. A trajectory ends with a turn of the
/// user or the environment (`###STOP###`), which is not trained on: export trims it.
pub const TAU_BENCH: Format = Format {
    name: "tau-bench",
    about: "tau-bench results: task_id, trial, traj, reward",
    signatures: &[&["task_id", "trial", "traj", "reward"]],
    id: "task_id,trial",
    group: "task_id",
    reward: "reward",
    messages: "traj",
    ..Format::NOTHING
};

/// Rollouts of a hosted prime-rl run (<https://github.com/PrimeIntellect-ai/prime-rl>).
///
/// Rollouts that Prime Intellect's platform exports from a hosted prime-rl run: `results.jsonl`.
///
/// The trainer's group is a block of `rollouts_per_example` neighbours in `sample_id`: a problem that occurs
/// twice in a step makes two groups. The size of the block is not in the records, but in `run_manifest.json`
/// beside the file. So here, and in no other format, a group depends on more than its record: the same
/// records without that file have no group, unless `--group run_id,step,problem_id,sample_id//8` gives it.
///
/// `prompt` and `completion` are lists of messages as JSON texts, and each of their tool calls is a JSON text
/// too. The model's text is often in `reasoning_content` alone: its parser treats text without an
/// end-of-thought marker as reasoning.
pub const PRIME_RL: Format = Format {
    name: "prime-rl",
    about: "rollouts of a hosted prime-rl run: results.jsonl beside run_manifest.json",
    signatures: &[&[
        "run_id",
        "step",
        "problem_id",
        "sample_id",
        "env_name",
        "prompt",
        "completion",
        "reward",
        "advantage",
    ]],
    id: "run_id,step,sample_id",
    group: "run_id,step,problem_id,sample_id//rollouts_per_example",
    sidecar: Some(Sidecar { file: "run_manifest.json", number: "rollouts_per_example" }),
    reward: "reward",
    domain: "env_name",
    prompt: "json(prompt)",
    completion: "json(completion)",
    reasoning: "reasoning_content",
    policy_version: "step",
    input_tokens: "num_input_tokens",
    output_tokens: "num_output_tokens",
    ..Format::NOTHING
};

/// Results of verifiers (<https://github.com/PrimeIntellect-ai/verifiers>).
///
/// `results.jsonl` of `vf-eval -s` of verifiers, and the `train_rollouts.jsonl` that prime-rl wrote in the
/// same form until June 2026.
///
/// Examples are numbered within one environment, so the number alone would mix the environments of a folder:
/// the prompt is part of the group. The step of a training run is not recorded; rollouts of one example in
/// several steps are one group. Records have no id field: the id is the hash of the bytes. A rollout with an
/// `error` was never scored, and its reward of 0 is meaningless. A truncated one was scored, but is not used
/// for training.
pub const VERIFIERS: Format = Format {
    name: "verifiers",
    about: "vf-eval's results.jsonl: example_id, prompt, completion, reward",
    signatures: &[
        &[
            "example_id",
            "prompt",
            "completion",
            "reward",
            "timing",
            "is_completed",
            "is_truncated",
            "metrics",
        ],
        &["example_id", "prompt", "completion", "reward", "task", "generation_ms", "scoring_ms", "total_ms"],
    ],
    group: "example_id,hash(prompt)",
    reward: "reward",
    domain: "env_name|task",
    prompt: "prompt",
    completion: "completion",
    tools: "tool_defs|info.oai_tools",
    failed: "error",
    truncated: "is_truncated",
    reasoning: "reasoning_content",
    input_tokens: "token_usage.input_tokens",
    output_tokens: "token_usage.output_tokens",
    ..Format::NOTHING
};

/// Rollouts of verl (<https://github.com/volcengine/verl>).
///
/// verl's `trainer.rollout_data_dir` and `validation_data_dir`: one file per step, `<step>.jsonl`.
///
/// A record has neither an id nor a prompt id: its id is the hash of its bytes, and its group the step
/// together with the hash of the prompt's text, wherever the rows of a prompt are. A prompt that occurs twice
/// in a batch makes one group. Chats were flattened to text before they were written. `score` is the sum of
/// the scores of all tokens and may be NaN, which counts as missing. Files from before August 2025 have no
/// `gts`, and too few other keys to be detected: they need `--format verl`.
pub const VERL: Format = Format {
    name: "verl",
    about: "verl's rollout_data_dir: input, output, gts, score, step",
    signatures: &[&["input", "output", "gts", "score", "step"]],
    group: "step,hash(input)",
    reward: "score",
    prompt: "input",
    completion: "output",
    policy_version: "step",
    ..Format::NOTHING
};

/// Completions of TRL (<https://github.com/huggingface/trl>).
///
/// TRL's `log_completions` of GRPO and RLOO: `completions/completions_STEP.parquet`, one row per completion.
///
/// Parquet is read as lines, one key per column. Each reward function has a column, and the weights are not
/// recorded: `trl_reward` is the unweighted sum, added when the table is read, as TRL's own default is. The
/// group is the step together with the hash of the prompt's text.
pub const TRL: Format = Format {
    name: "trl",
    about: "TRL's log_completions: completions_STEP.parquet, with step, prompt, completion, advantage",
    signatures: &[&["step", "prompt", "completion", "advantage", "trl_reward"]],
    group: "step,hash(prompt)",
    reward: "trl_reward",
    prompt: "prompt",
    completion: "completion",
    policy_version: "step",
    ..Format::NOTHING
};

/// Trajectories of KARL (<https://github.com/Diomandeee/karl>).
///
/// KARL's `trajectories.jsonl`. Its records have two forms, often in one file: those of its taps (`skill` an
/// object, `trajectory.events`) and those of its extractors (`skill` a text, `domain` beside it,
/// `trajectory.tool_calls`).
///
/// No prompt is attempted twice. KARL compares a reward with the mean of its domain, so the domain is the
/// group, and `--score centre` is the advantage of its exporter. A record without a domain has no group.
///
/// The taps record no text of the model, so the training example is KARL's own: the prompt, and the plan of
/// tool calls that followed. As in KARL, the plan mentions neither success nor reward. A recorded response is
/// used as the completion instead.
pub const KARL: Format = Format {
    name: "karl",
    about: "KARL's trajectories.jsonl, as its taps or its extractors wrote it",
    signatures: &[
        &[
            "id",
            "session_id",
            "channel",
            "recorded_at",
            "skill",
            "context",
            "trajectory",
            "outcome",
            "timing",
        ],
        &["id", "session_id", "skill", "domain", "trajectory", "context", "timing", "outcome"],
    ],
    id: "id",
    group: "domain|skill.domain",
    reward: "outcome.reward_score|reward_score",
    domain: "domain|skill.domain",
    prompt: "context.prompt_text|trajectory.prompt",
    completion: "trajectory.response|plan(trajectory.events)|plan(trajectory.tool_calls)",
    ..Format::NOTHING
};

/// Rollouts of `NeMo` Gym (<https://github.com/NVIDIA-NeMo/Gym>).
///
/// `ng_collect_rollouts`' output: the request of `OpenAI`'s Responses interface, its response and the reward. The items of
/// both become messages. The rows of a task are its repeats; logs without the index of their task are grouped by prompt.
pub const NEMO_GYM: Format = Format {
    name: "nemo-gym",
    about: "NeMo Gym's rollouts: responses_create_params, response, reward",
    signatures: &[&["responses_create_params", "response", "reward"]],
    id: "_ng_task_index,_ng_rollout_index",
    group: "_ng_task_index|hash(responses_create_params.input)",
    reward: "reward",
    prompt: "responses_create_params.input",
    completion: "response.output",
    tools: "responses_create_params.tools",
    model: "response.model",
    input_tokens: "response.usage.input_tokens",
    output_tokens: "response.usage.output_tokens",
    ..Format::NOTHING
};

/// Simulations of tau2-bench (<https://github.com/sierra-research/tau2-bench>).
///
/// The array `simulations` of a results file; the array `tasks` beside it is not read.
pub const TAU2: Format = Format {
    name: "tau2",
    about: "tau2-bench's simulations: task_id, trial, messages, reward_info",
    signatures: &[&["id", "task_id", "trial", "messages", "reward_info", "termination_reason"]],
    id: "id",
    group: "task_id",
    reward: "reward_info.reward",
    messages: "messages",
    ..Format::NOTHING
};

/// Trajectories of SWE-smith (<https://github.com/SWE-bench/SWE-smith>), as its data set has them.
pub const SWE_SMITH: Format = Format {
    name: "swe-smith",
    about: "SWE-smith's trajectories: messages, instance_id, resolved, traj_id",
    signatures: &[&["messages", "instance_id", "resolved", "traj_id"]],
    id: "traj_id",
    group: "instance_id",
    reward: "resolved",
    messages: "json(messages)",
    tools: "tools",
    model: "model",
    ..Format::NOTHING
};

/// Samples of slime (<https://github.com/THUDM/slime>), written as lines from what `--save-debug-rollout-data` saves.
pub const SLIME: Format = Format {
    name: "slime",
    about: "slime's samples: group_index, index, prompt, response, reward",
    signatures: &[&["group_index", "index", "prompt", "response", "reward", "response_length"]],
    id: "index",
    group: "group_index",
    reward: "reward",
    prompt: "prompt",
    completion: "response",
    ..Format::NOTHING
};

/// Unpaired preferences, as TRL's KTO trainer reads them: `label` says whether the completion is wanted.
pub const KTO: Format = Format {
    name: "kto",
    about: "TRL's unpaired preferences: prompt, completion, label",
    signatures: &[&["prompt", "completion", "label"]],
    id: "id",
    group: "group|hash(prompt)",
    reward: "reward|label",
    prompt: "prompt",
    completion: "completion",
    tools: "tools",
    ..Format::NOTHING
};

/// Instructions as Stanford Alpaca has them: a text in `input` follows the instruction on a line of its own.
pub const ALPACA: Format = Format {
    name: "alpaca",
    about: "Alpaca's instructions: instruction, input, output",
    signatures: &[&["instruction", "input", "output"]],
    id: "id",
    group: "group",
    reward: "reward",
    domain: "domain",
    prompt: "instruction",
    completion: "output",
    ..Format::NOTHING
};

/// Samples of lm-eval (<https://github.com/EleutherAI/lm-evaluation-harness>), `samples_*.jsonl` of `--log_samples`.
///
/// The metrics are columns of their own, so the reward has to be named (`--reward exact_match`). The first response of
/// a document is read; likelihoods of given answers have no text of the model.
pub const LM_EVAL: Format = Format {
    name: "lm-eval",
    about: "lm-eval's samples: doc_id, arguments, resps",
    signatures: &[&["doc_id", "doc", "target", "arguments", "resps", "filtered_resps"]],
    group: "prompt_hash|doc_id",
    reward: "reward",
    prompt: "arguments.gen_args_0.arg_0|arguments.0.0",
    completion: "resps.0.0",
    ..Format::NOTHING
};

/// Samples of Inspect (<https://inspect.aisi.org.uk>), in the array `samples` of a log in JSON.
///
/// Scorers have names of their own, so the reward has to be named (`--reward 'grade(scores.match.value)'`).
pub const INSPECT: Format = Format {
    name: "inspect",
    about: "Inspect's samples: id, epoch, input, target, messages, scores",
    signatures: &[
        &["id", "epoch", "input", "target", "messages", "scores"],
        &["id", "epoch", "input", "target", "messages", "output"],
    ],
    id: "id,epoch",
    group: "id",
    reward: "reward",
    messages: "messages",
    failed: "error",
    model: "output.model",
    ..Format::NOTHING
};

/// Evaluations of `SkyRL` (<https://github.com/NovaSky-AI/SkyRL>): `dump_eval_results` writes one file per data set.
///
/// A score is a number, or the rewards of all tokens, whose sum is the reward. Prompt and response are decoded tokens,
/// with the marks of the chat template.
pub const SKYRL: Format = Format {
    name: "skyrl",
    about: "SkyRL's dump_eval_results: input_prompt, output_response, score",
    signatures: &[&["input_prompt", "output_response", "score", "env_class"]],
    group: "hash(input_prompt)",
    reward: "sum(score)",
    domain: "data_source",
    prompt: "input_prompt",
    completion: "output_response",
    ..Format::NOTHING
};

/// Output of `OpenRLHF`'s `batch_inference` with a reward model (<https://github.com/OpenRLHF/OpenRLHF>).
///
/// Its three keys are those of many logs: fields with plain names take precedence, as in [`GENERIC`].
pub const OPENRLHF: Format = Format {
    name: "openrlhf",
    about: "OpenRLHF's batch_inference: input, output, reward",
    signatures: &[&["input", "output", "reward"]],
    group: "group|hash(input)",
    prompt: "prompt|input",
    completion: "completion|output",
    ..GENERIC
};

/// Evaluations of tinker-cookbook (<https://github.com/thinking-machines-lab/tinker-cookbook>), `trajectories.jsonl`.
///
/// A turn is decoded tokens, with the marks of the chat template, and each turn before the model's repeats the whole
/// conversation: the last two turns are the prompt and its completion. A run that failed has an `error` and no score.
pub const TINKER: Format = Format {
    name: "tinker",
    about: "tinker-cookbook's evaluations: idx, benchmark, turns, reward",
    signatures: &[&["idx", "benchmark", "turns", "reward"]],
    group: "benchmark,example_id",
    reward: "reward",
    domain: "benchmark",
    prompt: "question(turns)",
    completion: "answer(turns)",
    failed: "error",
    ..Format::NOTHING
};

/// Runs of mini-swe-agent (<https://github.com/SWE-agent/mini-swe-agent>), `.traj.json`.
///
/// Its last message has the role `exit`. The reward is in no run, but in SWE-bench's report, which `convert` reads.
pub const MINI_SWE_AGENT: Format = Format {
    name: "mini-swe-agent",
    about: "mini-swe-agent's runs: info, messages, trajectory_format",
    signatures: &[&["info", "messages", "trajectory_format"]],
    group: "instance_id",
    reward: "reward",
    messages: "messages",
    model: "info.config.model.model_name",
    ..Format::NOTHING
};

/// Format that matches every record.
///
/// Records with plain field names, and any other record together with `--id`, `--group`, `--reward` and
/// `--messages`.
pub const GENERIC: Format = Format {
    name: "generic",
    about: "id, group, reward and messages under their own names",
    id: "id",
    group: "group",
    reward: "reward",
    domain: "domain",
    messages: "messages",
    tools: "tools",
    prompt: "prompt",
    completion: "completion",
    text: "text",
    policy_version: "policy_version",
    model: "model",
    ..Format::NOTHING
};

/// All formats, the generic one last.
pub const FORMATS: [&Format; 20] = [
    &TRAJECTORY,
    &TAU_BENCH,
    &PRIME_RL,
    &VERIFIERS,
    &VERL,
    &TRL,
    &KARL,
    &NEMO_GYM,
    &TAU2,
    &SWE_SMITH,
    &LM_EVAL,
    &INSPECT,
    &SLIME,
    &SKYRL,
    &TINKER,
    &MINI_SWE_AGENT,
    &KTO,
    &ALPACA,
    &OPENRLHF,
    &GENERIC,
];

/// Return the format of that name, ignoring case; `_` and `-` are equal.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Format> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    FORMATS.into_iter().find(|format| format.name == name)
}

/// Return the first format with a signature among these top-level keys.
#[must_use]
pub fn by_keys(keys: &[String]) -> &'static Format {
    claimed_by(&|wanted| keys.iter().any(|key| key == wanted)).unwrap_or(&GENERIC)
}

/// Return the first format with a signature among the keys for which `has` is true.
pub(crate) fn claimed_by(has: &dyn Fn(&str) -> bool) -> Option<&'static Format> {
    let claims = |signature: &&[&str]| signature.iter().all(|key| has(key));
    FORMATS.into_iter().find(|format| format.signatures.iter().any(claims))
}
