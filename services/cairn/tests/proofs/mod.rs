//! Proofs: programs that drive real processes for as long as one likes, by `deploy/prove NAME`.
//!
//! A proof is a module with `prove`, which panics with its findings, and mostly `Options`, its command
//! line. A `#[test]` beside it is a short form that the suite runs, where that finds what no other test does.

#![allow(dead_code, reason = "the suite runs short forms only")]

pub(crate) mod checkpoints;
pub(crate) mod commands;
pub(crate) mod commits;
pub(crate) mod compaction;
pub(crate) mod contexts;
pub(crate) mod conversation;
pub(crate) mod cost;
pub(crate) mod crash;
pub(crate) mod dead_server;
pub(crate) mod dispatch;
pub(crate) mod documents;
pub(crate) mod drain;
pub(crate) mod executor_stream;
pub(crate) mod handover;
pub(crate) mod hooks;
mod killed;
pub(crate) mod knowledge;
pub(crate) mod lists;
pub(crate) mod load;
pub(crate) mod mcp;
pub(crate) mod pool;
pub(crate) mod replicas;
pub(crate) mod replies;
pub(crate) mod results;
pub(crate) mod rolling;
pub(crate) mod searches;
pub(crate) mod starts;
pub(crate) mod state;
pub(crate) mod steered;
pub(crate) mod turns;
pub(crate) mod work;

/// The proofs by name.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Proof {
    /// Lets a session grow to 8 MiB of state, and prints each checkpoint with the time of its commit. All of
    /// them together have at most twice the bytes of the journal, and a kill changes nothing that clients see
    Checkpoints(checkpoints::Options),
    /// Sends commands to idle sessions, and measures the answers with and without the folds that an
    /// orchestrator keeps
    Commands(commands::Options),
    /// Measures the owner's processor time for replies and other commits, in sessions with 10, 1,000 and 12,000
    /// ended turns, and contexts of 16 KiB and 16 MiB. No case may cost a fifth or 30 µs more than another
    Commits(commits::Options),
    /// Has a step and a turn of 200 tool turns in a window of 8,000 tokens, which the model's server counts. Every
    /// request fits and has what must stay, the journal tells each of them, and an early fact is known at the end
    Compaction(compaction::Options),
    /// Talks for 2,000 turns in one context, and prints the bytes and the times of windows of turns. A turn
    /// costs the journal the same, early and late, and nothing else grows faster than the model's request
    Conversation(conversation::Options),
    /// Prints what 100 turns cost, by the prices of a model of each vendor, with and without the provider's cache
    /// and with and without compaction. Both together cost less than neither
    Cost(cost::Options),
    /// Kills the orchestrator and all services, over a file and over Redis, while two clients change the
    /// contexts of a session and others watch them. No change is lost or made twice, and every notice and
    /// every read agrees with a model of contexts
    Contexts(contexts::Options),
    /// Kills and suspends the services and Redis at any moment, while clients start runs, watch
    /// them, change plans and approve calls. Nothing that was acknowledged may be lost, and nothing
    /// may happen twice without a decision
    Crash(crash::Options),
    /// Kills a server of a Redis Cluster that has no replica, under five memory processes that remember
    /// 20,000 sessions. No process grows by more than 10 % while it is dead
    DeadServer(dead_server::Options),
    /// Puts and deletes documents of one kind, 5,000 at first, over a file and over Redis, and kills memory and
    /// watchers. Watchers and a listing end with the last confirmed change of each document, and a watcher that was
    /// away for any kind of gap gets what it missed, or begins anew
    Documents(documents::Options),
    /// Sends replies of a model, streamed and whole, larger than any may be. The executor stays below
    /// 128 MiB, and a run whose reply is too large fails with the name of the limit
    Replies(replies::Options),
    /// Has 500 sessions at work in 50 executors that lose, get and change capabilities all the time, by kills,
    /// drains, grants and registrations. No slot is used twice or lost, nothing runs where a capability is
    /// missing, each shortage is reported once and ends once, and every session ends
    Pool(pool::Options),
    /// Has a program and a server of the Model Context Protocol give results of up to 60 MiB, of which the model
    /// reads the last lines. Each is kept whole, and executor and orchestrator grow by less than 48 MiB
    Results(results::Options),
    /// Submits the turns of one conversation to two servers over one Redis, in turn. Each request of the
    /// model has all turns before it, and both servers list the same messages
    Replicas(replicas::Options),
    /// Kills tools while it hands arguments to programs. No program starts with a part of them
    Handover(handover::Options),
    /// Tries every answer and every failure of a hook at every point, with every value of `on_error`: in this process,
    /// as a program and as a service. What follows is what a table says. After kills at every commit, in a file and
    /// over Redis, no question is asked again whose answer was committed, and every other one is, with its key
    Hooks(hooks::Options),
    /// Stores the pages of a set among 5,000 others, and searches them through two servers, over a file and over
    /// Redis. All of them find the same, and each change at once. A page that a model saves stands once after a kill
    /// at every commit, and messages that a request does not have any more are found by their words
    Knowledge(knowledge::Options),
    /// Lists, filters and searches 20,000 sessions, and 200, over a file and over Redis. Lists read
    /// headers alone, and how long they take is printed
    Lists(lists::Options),
    /// Tries servers of the Model Context Protocol that others wrote, and the client scenarios of the official
    /// conformance kit. Needs Python 3.11 with pip, node and npm
    Mcp,
    /// Runs searches as slow as they can be, and lets their callers go. Tools stays below 256 MiB, and
    /// the threads end soon
    Searches(searches::Options),
    /// Lets many steps wait for few slots, measures how soon the next one starts when a slot is free, and
    /// kills an executor. No slot is used twice, and the killed one's slots come back
    Dispatch(dispatch::Options),
    /// Suspends orchestrators with 120 sessions each past their leases, until the store has refused
    /// this many of their writes
    Stale(crash::redis_stale::Options),
    /// Replaces all processes by those of a newer release, service by service as Kubernetes does, while 200
    /// clients start runs and watch them. No session is quarantined or stalls, and no call is in doubt
    Upgrade(rolling::Options),
    /// Stops `cairn serve` (SIGTERM) at random moments of runs whose parallel model steps make effectful
    /// calls, and starts it again. No step may fail, and each call is made exactly once
    Drain(drain::Options),
    /// Starts runs in sessions with much state. One process owns as much state as it may, refuses further
    /// runs until there is room, leaves due sessions in the queue, and stays as small as that
    State(state::Options),
    /// Has 2,000 turns that are steered at random moments, and breaks their streams at random moments. No
    /// turn fails, and what a client assembles is what the model said
    Steered(steered::Options),
    /// Opens 400 watchers of a context of 13 MB and 200 other streams that nobody reads, and begins 14
    /// turns in contexts of 15 MB. What the services take is printed and bounded, and nothing fails without
    /// a reason
    Load(load::Options),
    /// Runs one step of 200 tool turns, and prints the bytes and the time of each. A late turn costs as
    /// much as an early one
    Turns(turns::Options),
    /// Starts attempts with 4 tools on offer and with 200, in turn, and prints the bytes and the time of
    /// each start. A start with 200 tools costs as much as one with 4
    Starts(starts::Options),
    /// Has a model mend a failing test, in a small crate or a repository of yours: it edits, runs the tests,
    /// sees them fail, and edits again. A kill at every commit repeats no edit, repeats no command without a
    /// person's leave, and changes no file of the end
    Work(work::Options),
}

/// A value of a process's `/proc/PID/status` in KiB, such as `VmHWM`, its peak in memory.
pub(crate) fn kib(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse().ok()).expect("KiB")
}

impl Proof {
    /// Runs the proof.
    pub(crate) fn run(&self) {
        match self {
            Self::Checkpoints(options) => checkpoints::prove(options),
            Self::Commands(options) => commands::prove(options),
            Self::Commits(options) => commits::prove(options),
            Self::Compaction(options) => compaction::prove(options),
            Self::Conversation(options) => conversation::prove(options),
            Self::Cost(options) => cost::prove(options),
            Self::Contexts(options) => contexts::prove(options),
            Self::Crash(options) => crash::prove(options),
            Self::DeadServer(options) => dead_server::prove(options),
            Self::Dispatch(options) => dispatch::prove(options),
            Self::Documents(options) => documents::prove(options),
            Self::Pool(options) => pool::prove(options),
            Self::Replies(options) => replies::prove(options),
            Self::Results(options) => results::prove(options),
            Self::Replicas(options) => replicas::prove(options),
            Self::Handover(options) => handover::prove(options),
            Self::Hooks(options) => hooks::prove(options),
            Self::Knowledge(options) => knowledge::prove(options),
            Self::Lists(options) => lists::prove(options),
            Self::Mcp => mcp::prove(),
            Self::Searches(options) => searches::prove(options),
            Self::Stale(options) => crash::redis_stale::prove(options),
            Self::Upgrade(options) => rolling::prove(options),
            Self::Drain(options) => drain::prove(options),
            Self::State(options) => state::prove(options),
            Self::Steered(options) => steered::prove(options),
            Self::Load(options) => load::prove(options),
            Self::Turns(options) => turns::prove(options),
            Self::Starts(options) => starts::prove(options),
            Self::Work(options) => work::prove(options),
        }
    }
}
