//! The table of all metrics: what each means, its labels, its buckets.

use cairn_rpc::metrics::{
    CALL_SECONDS, CALLS, CAPABILITIES_SHORT, CLAIMS, COMMIT_SECONDS, COMMITS, COMPACTIONS,
    CONNECTIONS_CLOSED, COST_USD, ERRORS, LEASES_LOST, LOST_WRITES, MODEL_SECONDS, QUEUE_SESSIONS,
    RUNS, RUNS_ACTIVE, SESSIONS_ENDED, SESSIONS_OWNED, SESSIONS_QUARANTINED, STATE_BYTES, STEPS,
    STEPS_WAITING, STORE_WRITABLE, TOKENS, TOOL_TURNS, WATCHERS,
};

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// As it is scraped.
    pub name: &'static str,
    /// How its values behave.
    pub kind: MetricKind,
    /// What its values are told apart by.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

/// How the values of a metric behave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKind {
    /// Goes up, in whole numbers.
    Counter,
    /// Goes up, by amounts that are no whole numbers.
    Amount,
    /// Goes up and down.
    Gauge,
    /// Times in seconds, counted in buckets with these upper ends.
    Seconds(&'static [f64]),
}

/// For what a disk does: 10 µs to 5 s.
const DISK: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// For what anything from a file to a build does: 10 µs to 5 min.
const WORK: &[f64] = &[
    0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0, 120.0, 300.0,
];

/// For what a model does: 1 ms (the offline model) to 5 min.
const THOUGHT: &[f64] = &[
    0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
    120.0, 300.0,
];

/// All metrics.
pub const METRICS: &[Metric] = &[
    counter(RUNS, &["status"], "Runs that ended, by how they ended."),
    gauge(RUNS_ACTIVE, "Runs that this process is carrying out."),
    counter(STEPS, &["status"], "Steps that ended, by how they ended."),
    gauge(
        STEPS_WAITING,
        "Steps that wait for a free slot of an executor.",
    ),
    gauge(
        CAPABILITIES_SHORT,
        "Capabilities that steps wait for and no resource of the pool has free.",
    ),
    counter(
        COMPACTIONS,
        &["kind"],
        "Conversations whose older messages gave way to one, by what that is.",
    ),
    counter(
        TOOL_TURNS,
        &["model"],
        "Replies of models with the calls that they asked for.",
    ),
    counter(
        CALLS,
        &["tool", "outcome"],
        "Calls of tools that ended, by how they ended.",
    ),
    counter(
        TOKENS,
        &["model", "direction"],
        "Tokens that went to models and came from them.",
    ),
    Metric {
        name: COST_USD,
        kind: MetricKind::Amount,
        labels: &["model"],
        help: "What models cost, in US dollars, by the prices that are known for them.",
    },
    seconds(
        MODEL_SECONDS,
        &["model"],
        THOUGHT,
        "Time that models took to reply, in seconds.",
    ),
    seconds(
        CALL_SECONDS,
        &["tool"],
        WORK,
        "Time that calls of tools took, in seconds.",
    ),
    counter(
        COMMITS,
        &["result"],
        "Commits to the store, by what became of them.",
    ),
    seconds(
        COMMIT_SECONDS,
        &[],
        DISK,
        "Time that commits to the store took, in seconds.",
    ),
    gauge(SESSIONS_OWNED, "Sessions that this process owns."),
    gauge(
        STATE_BYTES,
        "Bytes of state of the sessions that this process owns.",
    ),
    counter(CLAIMS, &[], "Sessions that this process claimed."),
    counter(
        LEASES_LOST,
        &[],
        "Leases that ended while this process held them.",
    ),
    counter(
        LOST_WRITES,
        &["seen_by"],
        "Sessions that were found to have lost acknowledged writes, by who noticed.",
    ),
    gauge(
        STORE_WRITABLE,
        "Whether the store takes writes and its sessions can be claimed, as far as is known: 1 or 0.",
    ),
    counter(
        SESSIONS_QUARANTINED,
        &["why"],
        "Sessions that were quarantined, so that nobody works on them before they are released.",
    ),
    gauge(
        QUEUE_SESSIONS,
        "Sessions with work that nobody has claimed.",
    ),
    counter(
        SESSIONS_ENDED,
        &["how"],
        "Sessions that were ended because their time was over, and tries that failed.",
    ),
    gauge(WATCHERS, "Clients that watch a session."),
    counter(
        CONNECTIONS_CLOSED,
        &["why"],
        "Connections that this process refused or closed, by why.",
    ),
    counter(
        ERRORS,
        &["kind"],
        "Errors that callers were answered with and an operator can act on, by their kind.",
    ),
];

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    let kind = MetricKind::Counter;
    Metric {
        name,
        kind,
        labels,
        help,
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    let kind = MetricKind::Gauge;
    let labels = &[];
    Metric {
        name,
        kind,
        labels,
        help,
    }
}

const fn seconds(
    name: &'static str,
    labels: &'static [&'static str],
    buckets: &'static [f64],
    help: &'static str,
) -> Metric {
    let kind = MetricKind::Seconds(buckets);
    Metric {
        name,
        kind,
        labels,
        help,
    }
}

#[cfg(test)]
mod tests;
