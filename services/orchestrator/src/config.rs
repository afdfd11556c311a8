//! What can be set.

use cairn_engine::command::RunLimits;
use cairn_engine::decide::Compaction;
use cairn_engine::level::LEVEL;
use cairn_engine::limits::RESULT_BYTES;
use cairn_hooks::{Definition, HookExecutor};
use cairn_knowledge::Scorer;
use cairn_model::prompt::Prompts;
use std::sync::Arc;
use std::time::Duration;

/// The orchestrator's settings, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// This process among all orchestrators, and unlike any before it.
    pub owner: String,
    /// How long a session stays this process's own without a sign of life.
    pub lease: Duration,
    /// Most sessions owned at a time: then new runs are refused here, and queued sessions are left to
    /// others, or wait.
    pub max_sessions: usize,
    /// Most bytes of state of the sessions owned at a time. Contexts and ended turns are counted; the rest is
    /// estimated by the sizes of checkpoints and of the events since. At the bound, new runs are refused here,
    /// and queued sessions are left to others, or wait. A session that is at work may grow beyond it.
    pub state_bytes: usize,
    /// Most bytes of state of the sessions that were read or owned lately, kept for those who read them
    /// next; 0 for none. They share `state_bytes` with the owned sessions, and make room for those.
    pub cache_bytes: usize,
    /// Most bytes that streams hold for clients which have not read them: events, states of sessions that
    /// watchers of contexts fold, and messages. States take at most three quarters. A stream beside
    /// small ones may hold more.
    pub stream_bytes: usize,
    /// Most sessions of the store that may wait for an owner: then new runs are refused.
    pub max_queued: u64,
    /// Which of the sessions that need an owner are taken up.
    pub mode: Mode,
    /// The start waits for servers of tools that are being started, for each at most its `start_ms`.
    pub waits_for_tools: bool,
    /// Shows a person a line about that wait, and about servers that were given up. The log has the lines if
    /// there is none.
    pub notice: Option<fn(&str)>,
    /// Limits of a run that names none.
    pub limits: RunLimits,
    /// When conversations are compacted, and how much of them stays.
    pub compaction: Compaction,
    /// Names of the models that there are. Of the models that an agent names, the first of these is used.
    pub models: Arc<[String]>,
    /// Most bytes of a result that a model gets at once. The whole of a longer one is kept in blobs, which the
    /// model reads in pieces.
    pub result_bytes: usize,
    /// How long an attempt waits for a capability that is taken before that is reported.
    pub stop_after: Duration,
    /// How long no resource has a capability before the attempt that needs it leaves the queue.
    pub none_after: Duration,
    /// How long the resources of an attempt lack a capability that it needs before it ends there, and waits for
    /// others.
    pub lost_after: Duration,
    /// The hooks of the settings, for runs of all namespaces, in the order in which they are asked.
    pub hooks: Vec<Definition>,
    /// Patterns of the addresses at which clients may store hooks, such as `https://*.example.org:*`. Without any,
    /// clients may store none.
    pub hook_addresses: Vec<String>,
    /// Asks hooks. A process without it has neither hooks nor addresses.
    pub hook_executor: Option<Arc<dyn HookExecutor>>,
    /// How pages of knowledge are found.
    pub knowledge: KnowledgeConfig,
    /// What prompts tell models of their work, and how summaries are asked for. Clients list and render them.
    pub prompts: Arc<Prompts>,
    /// Layers of every system prompt after the executor's own: where the work happens.
    pub environment: String,
    /// The level of this process, in place of its release's. What it writes is marked with a level above
    /// that, whatever it uses: for tests of what older and newer processes make of the same sessions.
    #[cfg(debug_assertions)]
    pub level: u32,
    /// Owners do not look at the end of their leases: for tests of what else holds them off.
    #[cfg(debug_assertions)]
    pub trusts_leases: bool,
}

/// How pages of knowledge are found.
#[derive(Debug, Clone, PartialEq)]
pub struct KnowledgeConfig {
    /// How hits are scored.
    pub scorer: Scorer,
    /// The least score of a hit, from 0 to 1, where a search names none. The scores of good hits depend on the number
    /// of pages and on the length of the query, so no value fits both three pages and a thousand. By default, every
    /// page that shares a word with the query can be a hit, and only the number of hits is bounded.
    pub min_score: f64,
    /// Most bytes of memory that the indexes of all namespaces take. Those that were used longest ago make room.
    pub index_bytes: usize,
}

/// When shortages of the pool are noticed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// See [`Config::stop_after`].
    pub(crate) stop_after: Duration,
    /// See [`Config::none_after`].
    pub(crate) none_after: Duration,
    /// See [`Config::lost_after`].
    pub(crate) lost_after: Duration,
}

/// Which sessions a process takes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Whichever need an owner.
    ClaimAny,
    /// Those that were started, resumed or sent a command through it, again and again until no run of them
    /// is active. The others are left as they are.
    ClaimRequested,
    /// Those that it has stored a command for, and to answer that: whoever comes to change something
    /// carries out no step of any session.
    AnswerOnly,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            owner: format!("o-{}", uuid::Uuid::now_v7().simple()),
            lease: Duration::from_secs(15),
            max_sessions: 4096,
            state_bytes: 512 * 1024 * 1024,
            cache_bytes: 64 * 1024 * 1024,
            stream_bytes: 128 * 1024 * 1024,
            max_queued: 10_000,
            mode: Mode::ClaimAny,
            waits_for_tools: true,
            notice: None,
            limits: RunLimits::default(),
            compaction: Compaction::default(),
            models: Arc::default(),
            result_bytes: RESULT_BYTES,
            stop_after: Duration::from_secs(1),
            none_after: Duration::from_secs(5),
            lost_after: Duration::from_secs(10),
            hooks: Vec::new(),
            hook_addresses: Vec::new(),
            hook_executor: None,
            knowledge: KnowledgeConfig::default(),
            prompts: Arc::default(),
            environment: String::new(),
            #[cfg(debug_assertions)]
            level: LEVEL,
            #[cfg(debug_assertions)]
            trusts_leases: false,
        }
    }
}

impl Default for KnowledgeConfig {
    fn default() -> Self {
        Self {
            scorer: Scorer::default(),
            min_score: 0.0,
            index_bytes: 256 * 1024 * 1024,
        }
    }
}

impl Config {
    /// How much this process can read; see [`LEVEL`].
    pub(crate) fn level(&self) -> u32 {
        #[cfg(debug_assertions)]
        return self.level;
        #[cfg(not(debug_assertions))]
        LEVEL
    }

    /// The lowest level that anything written here is marked with.
    pub(crate) fn least_needs(&self) -> u32 {
        match self.level() {
            level if level > LEVEL => level,
            _ => 1,
        }
    }

    /// Whether owners go on when their lease seems to have ended.
    pub(crate) fn trusts_leases(&self) -> bool {
        #[cfg(debug_assertions)]
        return self.trusts_leases;
        #[cfg(not(debug_assertions))]
        false
    }

    /// Whether owners carry out steps, and do not only answer commands.
    pub(crate) fn runs_steps(&self) -> bool {
        self.mode != Mode::AnswerOnly
    }

    /// When shortages of the pool are noticed.
    pub(crate) fn patience(&self) -> Patience {
        Patience {
            stop_after: self.stop_after,
            none_after: self.none_after,
            lost_after: self.lost_after,
        }
    }

    pub(crate) fn lease_ms(&self) -> u32 {
        u32::try_from(self.lease.as_millis()).unwrap_or(u32::MAX)
    }
}
