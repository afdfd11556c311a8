//! What the outside knows at the time of a decision.

use super::{Agents, Prompts};
use crate::command::{RunLimits, Settlement};
use crate::event::{AttemptRef, Effect};
use crate::hooks::PresentHooks;
use crate::pool::PoolFacts;
use crate::rules::{Answer, Matcher, Rules, ToolServer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tool that asks the attempt's model for files. Its calls are charged, and held back by budgets, as questions to
/// the model are.
pub const CODE_GENERATION: &str = "code_generation_tool";

/// What the catalogue says of a tool, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFacts {
    /// What a call may do.
    pub effect: Effect,
    /// How long a call may run.
    pub time_limit_ms: u64,
    /// It dies with the tools process.
    pub in_process: bool,
    /// Covers all that it is judged by.
    pub digest: String,
    /// The answer to a call that no rule matches.
    pub default: Answer,
    /// The arguments of a call that rules may name. Without any, they are read by their names.
    pub matchers: Vec<Matcher>,
    /// A model is offered it only after it was found: its description and the schema of its arguments,
    /// by which it is found.
    pub deferred: Option<(String, String)>,
    /// A call of a model is judged and sent only with a preview of what it would change.
    pub previews: bool,
    /// It is one of Cairn's own tools, and not a program of the settings or a server's.
    pub is_built_in: bool,
    /// The programs that it starts are confined to the workspace.
    pub is_confined: bool,
    /// What its commands can reach, for a person; empty for other tools.
    pub opens: String,
    /// The server that it is of; none for built-in tools and for programs.
    pub server: Option<ToolServer>,
}

/// A tool of which nothing is known.
impl Default for ToolFacts {
    fn default() -> Self {
        Self {
            effect: Effect::Effectful,
            time_limit_ms: 0,
            in_process: false,
            digest: String::new(),
            default: Answer::Ask,
            matchers: Vec::new(),
            deferred: None,
            previews: false,
            is_built_in: false,
            is_confined: false,
            opens: String::new(),
            server: None,
        }
    }
}

/// Tools by name.
pub type ToolList = BTreeMap<String, ToolFacts>;

/// A source whose tools are not known, as it cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// The names of its tools begin so.
    pub prefix: String,
    /// Why it cannot be reached, in words for a person or a model.
    pub why: String,
}

/// When and how far conversations are compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Thousandths of the window that a request may take before older messages give way.
    pub at_permille: u32,
    /// How many of the newest tool turns stay, if the rest gives enough.
    pub keep_turns: u32,
}

impl Default for Compaction {
    fn default() -> Self {
        Self {
            at_permille: 700,
            keep_turns: 3,
        }
    }
}

/// What the outside knows at the time of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The store's time, in milliseconds since 1970.
    pub now: u64,
    /// No call with side effects may be sent after this.
    pub not_after: u64,
    /// The tools that may be called now, by name. State tools are not among them.
    pub tools: &'a ToolList,
    /// Sources that have no tools in this list, as they cannot be reached.
    pub away: &'a [Away],
    /// The tools that the start of each attempt under way offered. An attempt that is not here starts
    /// with what there is now.
    pub offered: &'a BTreeMap<AttemptRef, Arc<ToolList>>,
    /// Who decides about calls.
    pub rules: &'a Rules,
    /// The agents that commands name; see [`agents_needed`](super::agents_needed).
    pub agents: &'a Agents,
    /// What models are told of their work, and how a summary is asked for.
    pub prompts: &'a Prompts,
    /// The environment layer of system prompts; empty for none.
    pub environment: &'a str,
    /// Limits of a run that names none.
    pub limits: RunLimits,
    /// Most bytes of a result that a model gets at once; see
    /// [`RESULT_BYTES`](crate::limits::RESULT_BYTES).
    pub result_bytes: usize,
    /// How full the journal was after the owner's last write, in thousandths of its limits; 0 if that is
    /// not known.
    pub journal_permille: u32,
    /// When and how far conversations are compacted.
    pub compaction: Compaction,
    /// What a tool gets that asked: from its requests, which only its protocol can read, and the decision.
    /// An error says for a person why the decision does not fit them. A pure function.
    pub responses: fn(&str, &Settlement) -> Result<String, String>,
    /// The pool, and what the operator granted to agents.
    pub pool: &'a PoolFacts,
    /// The hooks that there are, in the order in which they are asked.
    pub hooks: &'a PresentHooks,
    /// Steps and calls with side effects may begin. An owner that is about to let go leaves them to
    /// the next.
    pub starts: bool,
    /// A queued turn may begin, if steps may: [`Self::hooks`] has all hooks that it is to ask.
    pub starts_queued: bool,
}

impl<'a> Facts<'a> {
    /// Why a tool of this name cannot be reached, if a source that is away would have it.
    pub(crate) fn away(&self, name: &str) -> Option<&'a str> {
        let away = self.away.iter();
        let mut away = away.filter(|it| name.starts_with(&it.prefix));
        away.next().map(|it| it.why.as_str())
    }

    /// What the list of an attempt says of a tool: what was offered is what its calls are decided by.
    /// A tool that was revoked since is taken out at once.
    pub fn tool(&self, attempt: AttemptRef, name: &str) -> Option<&'a ToolFacts> {
        let now = self.tools.get(name)?;
        match self.offered.get(&attempt) {
            Some(offered) => offered.get(name),
            None => Some(now),
        }
    }

    /// Some tools of the list of an attempt are there to be found.
    pub(super) fn has_deferred(&self, attempt: AttemptRef) -> bool {
        let list = self.offered.get(&attempt).map_or(self.tools, Arc::as_ref);
        list.values().any(|tool| tool.deferred.is_some())
    }
}
