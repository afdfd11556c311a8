//! What is counted and timed: the names of the metrics, and labels that stay few.
//!
//! Values are recorded with the macros of the `metrics` crate, which are here again:
//!
//! ```
//! use cairn_rpc::metrics::{self, counter, histogram};
//! use std::time::Duration;
//!
//! let tool = metrics::label(metrics::Kind::Tool, "read_file");
//! counter!(metrics::CALLS, "tool" => tool.clone(), "outcome" => "ok").increment(1);
//! histogram!(metrics::CALL_SECONDS, "tool" => tool).record(Duration::from_millis(3));
//! ```
//!
//! Where nobody serves them, recording does nothing. What each means, its labels and its buckets are
//! in one table, in `cairn_boot::telemetry::metrics`.

pub use metrics::{SharedString, counter, gauge, histogram};

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Runs that ended, by `status`: `completed`, `failed`, `cancelled`.
pub const RUNS: &str = "cairn_runs_total";
/// Runs that this process is carrying out; a gauge.
pub const RUNS_ACTIVE: &str = "cairn_runs_active";
/// Steps that ended, by `status`: `completed`, `failed`, `skipped`.
pub const STEPS: &str = "cairn_steps_total";
/// Conversations that were compacted, by `kind`: `history`, `summary`.
pub const COMPACTIONS: &str = "cairn_compactions_total";
/// Tool turns, by `model`.
pub const TOOL_TURNS: &str = "cairn_tool_turns_total";
/// Calls of tools that ended, by `tool` and `outcome`.
pub const CALLS: &str = "cairn_calls_total";
/// Tokens, by `model` and `direction`: `input`, `output`.
pub const TOKENS: &str = "cairn_tokens_total";
/// What models cost in US dollars, by `model`. Record it with [`add_cost`].
pub const COST_USD: &str = "cairn_cost_usd_total";
/// Time that a model took to reply, by `model`; a histogram.
pub const MODEL_SECONDS: &str = "cairn_model_seconds";
/// Time that a call of a tool took, by `tool`; a histogram.
pub const CALL_SECONDS: &str = "cairn_call_seconds";
/// Commits, by `result`: `ok` or what went wrong.
pub const COMMITS: &str = "cairn_commits_total";
/// Time that a commit took; a histogram.
pub const COMMIT_SECONDS: &str = "cairn_commit_seconds";
/// Sessions that this process owns; a gauge.
pub const SESSIONS_OWNED: &str = "cairn_sessions_owned";
/// Bytes of state of the sessions that this process owns, as `session.state_bytes` counts them; a gauge.
pub const STATE_BYTES: &str = "cairn_state_bytes";
/// Attempts at steps that wait for a free slot of an executor; a gauge.
pub const STEPS_WAITING: &str = "cairn_steps_waiting";
/// Capabilities that attempts wait for, or lately waited for, and no resource has free; a gauge.
pub const CAPABILITIES_SHORT: &str = "cairn_capabilities_short";
/// Sessions that were claimed.
pub const CLAIMS: &str = "cairn_claims_total";
/// Leases that ended under their owner.
pub const LEASES_LOST: &str = "cairn_leases_lost_total";
/// Sessions that were found to have lost acknowledged writes, by `seen_by`: `store`, `owner`.
pub const LOST_WRITES: &str = "cairn_lost_writes_total";
/// Whether the store takes writes, as far as is known: 1 or 0; a gauge.
pub const STORE_WRITABLE: &str = "cairn_store_writable";
/// Sessions that were quarantined, by `why`: `claims` (five of them without progress), `writes_lost`.
pub const SESSIONS_QUARANTINED: &str = "cairn_sessions_quarantined_total";
/// Sessions with work that nobody has claimed; a gauge.
pub const QUEUE_SESSIONS: &str = "cairn_queue_sessions";
/// Sessions that were ended because their time was over, by `how`: `expired`, `archived`, and
/// `failed` for each try that did not succeed.
pub const SESSIONS_ENDED: &str = "cairn_sessions_ended_total";
/// Clients that watch a session; a gauge.
pub const WATCHERS: &str = "cairn_watchers";
/// Connections that this process refused or closed, by `why`: `address_limit` (too many of one
/// address), `idle` (no open call), `opening` (HTTP/2 did not begin in time), `unauthenticated` (no admitted call
/// in time, or while others of the address needed the place).
pub const CONNECTIONS_CLOSED: &str = "cairn_connections_closed_total";
/// Errors that callers were answered with and an operator can act on, by `kind`.
pub const ERRORS: &str = "cairn_errors_total";

/// Names of one kind that labels tell apart; all further ones are [`OTHER`].
pub const MAX_NAMES: usize = 100;
/// Longest name that a label has, in bytes; a longer one is [`OTHER`].
pub const MAX_NAME_BYTES: usize = 128;
/// What stands for all names that are too many or too long.
pub const OTHER: &str = "other";

/// Labels whose values come from settings, from models or from clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Names of tools. A model may ask for a tool that does not exist, under any name: that is
    /// [`OTHER`] and not for [`label`].
    Tool,
    /// Names of models, as they are sent to their providers: those of the settings may be of one process.
    Model,
    /// Names of what went wrong.
    Error,
}

static RECORDED: AtomicBool = AtomicBool::new(false);

/// Says that somebody keeps what is counted from now on; for whoever installs the recorder.
pub fn set_recorded() {
    RECORDED.store(true, Ordering::Relaxed);
}

/// Whether anybody keeps what is counted: where nobody does, labels need not be made.
pub fn is_recorded() -> bool {
    RECORDED.load(Ordering::Relaxed)
}

/// The name as a label, or [`OTHER`] if there are [`MAX_NAMES`] others of that kind already: each
/// makes a row of its own in whatever stores the metrics, for ever.
pub fn label(kind: Kind, name: &str) -> SharedString {
    static TOOLS: Names = Names::new();
    static MODELS: Names = Names::new();
    static ERRORS: Names = Names::new();
    let names = match kind {
        Kind::Tool => &TOOLS,
        Kind::Model => &MODELS,
        Kind::Error => &ERRORS,
    };
    names.admit(name)
}

/// Adds the tokens of a reply, and what it cost. `model` is the name that is sent to its provider.
pub fn spend(model: &str, input_tokens: u64, output_tokens: u64, nano_usd: u64) {
    for (direction, tokens) in [("input", input_tokens), ("output", output_tokens)] {
        if tokens > 0 {
            let model = label(Kind::Model, model);
            counter!(TOKENS, "model" => model, "direction" => direction).increment(tokens);
        }
    }
    add_cost(model, nano_usd);
}

/// Adds what a model cost.
pub fn add_cost(model: &str, nano_usd: u64) {
    if nano_usd > 0 {
        let model = label(Kind::Model, model);
        // The facade counts in whole numbers only, so this is a gauge that never goes down; whoever
        // scrapes it is told that it is a counter.
        gauge!(COST_USD, "model" => model).increment(nano_usd as f64 / 1e9);
    }
}

struct Names(RwLock<Option<HashSet<Arc<str>>>>);

impl Names {
    const fn new() -> Self {
        Self(RwLock::new(None))
    }

    fn admit(&self, name: &str) -> SharedString {
        if name.len() > MAX_NAME_BYTES {
            return OTHER.into();
        }
        {
            let names = self.0.read().unwrap_or_else(PoisonError::into_inner);
            let known = names.as_ref().and_then(|names| names.get(name));
            if let Some(known) = known {
                return Arc::clone(known).into();
            }
            if names.as_ref().is_some_and(|names| names.len() >= MAX_NAMES) {
                return OTHER.into();
            }
        }
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let names = names.get_or_insert_default();
        // Somebody else may have been here between the two locks.
        if names.len() >= MAX_NAMES && !names.contains(name) {
            return OTHER.into();
        }
        let name: Arc<str> = name.into();
        names.insert(Arc::clone(&name));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_a_hundred_are_others() {
        let names = Names::new();
        for number in 0..MAX_NAMES {
            let name = format!("tool_{number}");
            assert_eq!(&*names.admit(&name), name);
        }
        assert_eq!(&*names.admit("one_more"), OTHER);
        assert_eq!(&*names.admit("tool_99"), "tool_99");
        assert_eq!(&*Names::new().admit(&"n".repeat(MAX_NAME_BYTES + 1)), OTHER);
    }

    #[test]
    fn kinds_are_counted_apart() {
        for number in 0..=MAX_NAMES {
            label(Kind::Error, &format!("error {number}"));
        }
        assert_eq!(&*label(Kind::Error, "late"), OTHER);
        assert_eq!(&*label(Kind::Tool, "late"), "late");
        assert_eq!(&*label(Kind::Model, "late"), "late");
    }
}
