//! The extension module `karl_fast._core`: exports, and nothing else.
//!
//! Every binding has the same four steps: borrow, refuse, enter, own. There is no arithmetic and no parsing here.
//! The files mirror those of `karl-core` and `karl-log`.
//!
//! Contract: an array that is passed in is borrowed for the length of the call, with the interpreter lock
//! released; another thread that writes to it meanwhile gets results that mean nothing.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]

mod advantage;
mod atomic_output;
mod boundary;
mod curriculum;
mod diversity;
mod export;
mod filter;
mod kl;
mod learnability;
mod log;
mod logsumexp;
mod objective;
mod protection;
mod replay;
mod resampling;
mod reward;
mod sample;
mod selection;
mod sketch;
mod stream;
mod target;
mod transcripts;

/// Everything that carries no gradient.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::advantage::{
        best_of_k, by_convention, centre, conventions, discounted_returns, ema_baseline, empg,
        fixed_baseline, gdpo, gigpo, leave_one_out, maxrl, partition_baseline, reinforce_plus_plus,
        reinforce_plus_plus_baseline, segment_weights, set_scores, shrunk, tree_roots, whiten, zscore,
    };
    #[pymodule_export]
    use super::atomic_output::OutputTarget;
    #[pymodule_export]
    use super::boundary::build_info::build_facts;
    #[pymodule_export]
    use super::curriculum::{BetaPosterior, mixed_group_probability, nearest_rate, outcome_variance};
    #[pymodule_export]
    use super::diversity::{
        best_at_k, coverage, distinct_n, effective_number, entropy, evenness, gini, mutual_information,
        ngram_gram, pass_at_k, self_bleu, vendi_ngrams,
    };
    #[pymodule_export]
    use super::export::data_set_rows;
    #[pymodule_export]
    use super::export::{Draft, Export, file_digest, redacted};
    #[pymodule_export]
    use super::filter::{
        constant_groups, low_ratio_negatives, mixed_groups, overlong, probability_difference, reasons,
        soft_overlong_penalty, stale, starved, variance_top,
    };
    #[pymodule_export]
    use super::kl::{kl_categorical, kl_categorical_gradient, kl_estimate, kl_gradient, kl_in_reward};
    #[pymodule_export]
    use super::learnability::learnability;
    #[pymodule_export]
    use super::log::Log;
    #[pymodule_export]
    use super::log::columns_needed;
    #[pymodule_export]
    use super::log::read::{formats, read};
    #[pymodule_export]
    use super::log::reward_function::{answered, place, rewarded, rewards_of};
    #[pymodule_export]
    use super::log::splits::LogSplits;
    #[pymodule_export]
    use super::logsumexp::{LogSumExp, ess, log_mean_exp, log_sum_exp, log_sum_exp_by};
    #[pymodule_export]
    use super::objective::{
        check_clip, objective_balance, objective_correction, objective_likelihood, objective_linear_term,
        objective_policy_gradient, objective_preference, objective_target_policy, policy_loss,
        sequence_log_ratio, token_log_ratio, token_weights,
    };
    #[pymodule_export]
    use super::protection::pseudonymous;
    #[pymodule_export]
    use super::replay::{
        accuracy_error, age_distribution, delight, delight_gate, exponential_decay, importance_log_weights,
        kondo_price, largest, power_decay, prioritised, surprisal, window_decay,
    };
    #[pymodule_export]
    use super::resampling::{bootstrap_mean, sign_flip, sign_flip_limit};
    #[pymodule_export]
    use super::reward::{
        composite, karl_backfill, karl_column_rewards, karl_efficiency, karl_longest_failure, karl_outcome,
        karl_process, karl_reward, karl_rewards, karl_rewards_in, karl_stored, karl_stored_rewards, shaped,
    };
    #[pymodule_export]
    use super::sample::uniforms;
    #[pymodule_export]
    use super::sample::{
        Alias, choose_tokens, draw, draw_priority, draw_var_opt, draw_with_inclusion, gumbel_keys, inclusion,
        reservoir, reservoir_of, threshold, top, weighted_reservoir, weighted_reservoir_of,
    };
    #[pymodule_export]
    use super::selection::Selection;
    #[pymodule_export]
    use super::sketch::{Moments, Top, VarOpt};
    #[pymodule_export]
    use super::stream::stream;
    #[pymodule_export]
    use super::target::{awr_weights, boltzmann, regression_intercept, rwr_weights, soft_value, tpo_target};
    #[pymodule_export]
    use super::transcripts::collect;
    #[pymodule_export]
    use super::transcripts::convert_commits;
    #[pymodule_export]
    use super::transcripts::pairs;
    #[pymodule_export]
    use super::transcripts::{convert, transcript_by_keys, transcripts};
    #[pymodule_export]
    use super::transcripts::{outcome_components, outcomes};

    /// The version of the crates and of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// True in a build with debug assertions, as that of tests: correct, and slower.
    #[pymodule_export]
    const DEBUG: bool = cfg!(debug_assertions);
}
