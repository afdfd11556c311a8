//! The tools that are about the session itself. The owner answers them: within the transition, or by I/O
//! after it. Each file has the specification, the arguments and the handler of some.

mod ask_person;
mod compact;
mod memory;
mod notes;
mod progress;
mod read_result;
mod read_skill;
mod report;
mod retrieve;
mod save_knowledge;
mod search;
mod step;

pub(super) use compact::compactions;
pub use read_skill::SkillRequest;
pub use retrieve::{Retrieve, Scope};
pub use save_knowledge::SaveKnowledge;
pub use search::SEARCH_TOOLS;
pub(super) use step::{Ending, STEP, ending};

use super::calls::ended;
use super::{Answer, Decision, Rejection, words};
use crate::event::{AttemptRef, CallFinished, CallRef};
use crate::message::ToolCall;
use crate::refusal::Refusal;
use crate::result::ResultRequest;
use crate::session::{Call, OF_STEPS, Session};
use crate::transitions::Applied;
use serde::Deserialize;

/// A state tool as models see it.
#[derive(Debug, Clone, Copy)]
pub struct StateTool {
    /// Its name.
    pub name: &'static str,
    /// What it does, for the model.
    pub description: &'static str,
    /// JSON Schema of its arguments.
    pub parameters: &'static str,
    answers: Answers,
}

/// How calls of a state tool are answered.
#[derive(Debug, Clone, Copy)]
enum Answers {
    /// In the transition that takes the reply.
    InTransition(Handler),
    /// By I/O of the owner, once that transition is durable. The function reads what is asked.
    ByOwner(Reader),
}

/// What the owner is to find or to do for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// A piece of a long result.
    ReadResult(ResultRequest),
    /// A file of a skill.
    ReadSkill(SkillRequest),
    /// The report of a run, as far as it is.
    Report {
        /// Number of the run.
        run: u32,
    },
    /// Pages, and messages that requests do not have any more.
    Retrieve(Retrieve),
    /// A page that is to be saved.
    SaveKnowledge(SaveKnowledge),
}

/// A refusal is the error that the model gets. Nothing is read for such a call.
type Reader = fn(&Session, CallRef, &ToolCall) -> Result<Question, CallRejection>;

/// Gives the result of the call; `None` if that has to wait for the other calls of the reply, or for a
/// person. A refusal is the error that the model gets.
type Handler = fn(&mut Decision<'_>, CallRef, &ToolCall) -> Result<Option<String>, CallRejection>;

/// Why a call of a state tool is not carried out.
type CallRejection = Rejection<CallRefusal>;

/// Why a call is refused. Calls of other tools fail for reasons of the same names.
#[derive(Debug, Clone, Copy)]
enum CallRefusal {
    Denied,
    InvalidArguments,
    NotFound,
    TooLarge,
    ToolsUnreachable,
}

impl CallRefusal {
    /// The reason in the result of the call.
    const fn name(self) -> &'static str {
        match self {
            Self::Denied => CallFinished::DENIED,
            Self::InvalidArguments => "InvalidArguments",
            Self::NotFound => "NotFound",
            Self::TooLarge => "TooLarge",
            // The tool may be there once its server can be reached.
            Self::ToolsUnreachable => Refusal::ToolsUnreachable.name(),
        }
    }
}

/// All state tools, sorted by name.
pub const STATE_TOOLS: [StateTool; 15] = [
    ask_person::TOOL,
    compact::TOOL,
    progress::TOOL,
    read_result::TOOL,
    read_skill::TOOL,
    report::TOOL,
    retrieve::TOOL,
    save_knowledge::TOOL,
    notes::TOOL,
    search::TOOL,
    memory::GET,
    memory::LIST,
    memory::REMOVE,
    memory::SET,
    step::TOOL,
];

/// Most tools that an error names.
const MOST_NAMED: usize = 30;

pub(crate) fn is_state_tool(name: &str) -> bool {
    STATE_TOOLS.iter().any(|tool| tool.name == name)
}

/// The owner answers calls of the tool by I/O.
pub(crate) fn is_answered_by_owner(name: &str) -> bool {
    let by_owner = |tool: &StateTool| matches!(tool.answers, Answers::ByOwner(_));
    STATE_TOOLS
        .iter()
        .any(|tool| tool.name == name && by_owner(tool))
}

impl Session {
    /// What the owner is to find for a call that waits for it; the error is the result of the call then.
    /// None if the call does not wait for the owner.
    pub fn question(&self, name: CallRef) -> Option<Result<Question, Answer>> {
        let call = self.call(name).filter(|call| call.waits_for_owner())?;
        let mut tools = STATE_TOOLS.iter();
        let tool = tools.find(|tool| tool.name == call.call.name)?;
        let Answers::ByOwner(read) = tool.answers else {
            return None;
        };
        Some(
            read(self, name, &call.call).map_err(|rejection| match rejection {
                Rejection::Refused { reason, message } => Answer::failed(reason.name(), message),
                Rejection::Illegal(error) => Answer::failed(Answer::FAILED, error.to_string()),
            }),
        )
    }
}

/// Refuses a call for its arguments.
fn invalid(message: impl Into<String>) -> CallRejection {
    Rejection::refused(CallRefusal::InvalidArguments, message)
}

fn arguments<'a, T: Deserialize<'a>>(call: &'a ToolCall) -> Result<T, CallRejection> {
    let text = if call.arguments.trim().is_empty() {
        "{}"
    } else {
        &call.arguments
    };
    serde_json::from_str(text)
        .map_err(|error| invalid(format!("wrong arguments for '{}': {error}", call.name)))
}

impl Decision<'_> {
    pub(super) fn answer_state_call(&mut self, name: CallRef, call: &ToolCall) -> Applied {
        let tool = STATE_TOOLS.iter().find(|tool| tool.name == call.name);
        let tool = tool.filter(|_| self.offers_state_tool(name, &call.name));
        let answer = match tool.map(|tool| tool.answers) {
            Some(Answers::InTransition(handle)) => handle(self, name, call),
            // The call has no result until the owner has found it.
            Some(Answers::ByOwner(read)) => read(self.session, name, call).map(|_| None),
            None => Err(self.unknown_tool(name, &call.name)),
        };
        match answer {
            Ok(Some(output)) => self.finish_call(name, output, ""),
            Ok(None) => Ok(()),
            Err(Rejection::Refused { reason, message }) => {
                self.finish_call(name, message, reason.name())
            }
            Err(Rejection::Illegal(error)) => Err(error),
        }
    }

    /// The owner has found the result of a call. A call that has ended since, or is gone with its attempt,
    /// takes none.
    pub(super) fn answered_by_owner(&mut self, name: CallRef, answer: Answer) -> Applied {
        if !self.session.call(name).is_some_and(Call::waits_for_owner) {
            return Ok(());
        }
        let mut result = ended(name, answer.output, answer.reason);
        result.whole = answer.whole;
        let result = self.with_handle(result);
        self.emit(result)?;
        self.finish_tool_turn(name.attempt)?;
        self.prepare_request(name.attempt)?;
        self.advance(name.attempt.run)
    }

    /// A turn may name the tool as one that it offers.
    pub(crate) fn check_offered(&self, name: &str) -> Result<(), Rejection> {
        let state = STATE_TOOLS.map(|tool| tool.name);
        let state = state.into_iter().filter(|tool| !OF_STEPS.contains(tool));
        if self.facts.tools.contains_key(name) || state.clone().any(|tool| tool == name) {
            return Ok(());
        }
        if let Some(why) = self.facts.away(name) {
            let message =
                format!("options.tools names '{name}', which cannot be called now: {why}");
            return Err(Rejection::refused(Refusal::ToolsUnreachable, message));
        }
        let mut known: Vec<_> = state.collect();
        known.extend(self.facts.tools.keys().map(String::as_str));
        known.sort_unstable();
        let more = known.len().saturating_sub(MOST_NAMED);
        known.truncate(MOST_NAMED);
        let mut message = format!(
            "options.tools names '{name}', which is no tool that a turn can call now; there are: {}",
            known.join(", ")
        );
        if more > 0 {
            message.push_str(&format!(" and {more} more, see `cairn tools`"));
        }
        Err(Rejection::refused(Refusal::NoTool, message))
    }

    /// A call of a tool that the attempt does not have is answered here, and never sent.
    pub(super) fn finish_unknown(&mut self, call: CallRef, name: &str) -> Applied {
        match self.unknown_tool(call, name) {
            Rejection::Refused { reason, message } => {
                self.finish_call(call, message, reason.name())
            }
            Rejection::Illegal(error) => Err(error),
        }
    }

    fn unknown_tool(&self, call: CallRef, name: &str) -> CallRejection {
        let is_offered = self.offers(call.attempt, name);
        if let Some(why) = self.facts.away(name).filter(|_| is_offered) {
            let message = format!("tool '{name}' cannot be called now: {why}");
            return Rejection::refused(CallRefusal::ToolsUnreachable, message);
        }
        let executor = self.executor_of(call.attempt);
        if let Some(executor) = self.executor_that_lacks(call.attempt, name) {
            let known = self.callable(call, Some(executor));
            let message = words::not_in_executor(executor, name, &known);
            return Rejection::refused(CallRefusal::Denied, message);
        }
        let known = self.callable(call, executor);
        let agent = self.session.agent_name(call.attempt.run);
        let refusal = match self.facts.pool.grants.revokes(agent, name) {
            true => CallRefusal::Denied,
            false => CallRefusal::NotFound,
        };
        let message = match self.agent_that_lacks(call, name) {
            Some(agent) => words::not_for_agent(agent, name, &known),
            None => words::no_tool(name, &known),
        };
        Rejection::refused(refusal, message)
    }

    /// A call of a tool that the executor may not use is answered here, and never sent.
    pub(super) fn finish_unusable(&mut self, call: CallRef, executor: &str, name: &str) -> Applied {
        let known = self.callable(call, Some(executor));
        let message = words::not_in_executor(executor, name, &known);
        self.finish_call(call, message, CallRefusal::Denied.name())
    }

    /// The tools that the model of a call can call instead, sorted: those that it was offered, and its executor may
    /// use.
    fn callable(&self, call: CallRef, executor: Option<&str>) -> Vec<&str> {
        let known = self.facts.tools.keys().map(String::as_str);
        let known = known.filter(|known| self.is_seen(call, known));
        let is_usable =
            |name: &&str| executor.is_none_or(|it| !self.may_not_use(it, call.attempt, name));
        let known = known.filter(is_usable);
        let state = STATE_TOOLS.map(|tool| tool.name).into_iter();
        let state = state.filter(|known| self.offers_state_tool(call, known));
        let mut known: Vec<_> = known.chain(state).collect();
        known.sort_unstable();
        known
    }

    /// The executor of the attempt, while it has a slot.
    fn executor_of(&self, attempt: AttemptRef) -> Option<&str> {
        let allotted = self.facts.pool.allotted.get(&attempt)?;
        allotted.first().map(String::as_str)
    }

    /// The executor of the attempt, if it may not use the tool.
    pub(super) fn executor_that_lacks(&self, attempt: AttemptRef, name: &str) -> Option<&str> {
        let executor = self.executor_of(attempt);
        executor.filter(|executor| self.may_not_use(executor, attempt, name))
    }

    /// There is the tool, the attempt may call it, and the executor may not use it. Of an executor that has left the
    /// pool nothing is known.
    pub(super) fn may_not_use(&self, executor: &str, attempt: AttemptRef, name: &str) -> bool {
        let mut resources = self.facts.pool.view.resources.iter();
        let lacks = resources
            .find(|resource| *resource.id == *executor)
            .is_some_and(|resource| !resource.tools.allows(name));
        lacks && self.facts.tools.contains_key(name) && self.offers(attempt, name)
    }

    /// The attempt was offered the state tool.
    fn offers_state_tool(&self, call: CallRef, name: &str) -> bool {
        let is_there = name != SEARCH_TOOLS || self.facts.has_deferred(call.attempt);
        is_there && self.offers(call.attempt, name)
    }

    /// The model was offered the tool, or has found it since.
    fn is_seen(&self, call: CallRef, name: &str) -> bool {
        let Some(facts) = self.facts.tool(call.attempt, name) else {
            return false;
        };
        let attempt = self.session.attempt(call.attempt);
        let is_found =
            || attempt.is_some_and(|it| it.found_tools.iter().any(|found| found == name));
        self.offers(call.attempt, name) && (facts.deferred.is_none() || is_found())
    }

    /// The name of the attempt's agent, if there is such a tool and the agent may not call it.
    fn agent_that_lacks(&self, call: CallRef, name: &str) -> Option<&str> {
        let is_there = is_state_tool(name) || self.facts.tools.contains_key(name);
        let is_kept = || {
            let grants = &self.facts.pool.grants;
            self.session.is_kept_from(call.attempt, name, grants)
        };
        (is_there && is_kept()).then(|| self.session.agent_name(call.attempt.run))
    }

    /// The attempt may call the tool, if there is one of that name.
    pub(super) fn offers(&self, attempt: AttemptRef, name: &str) -> bool {
        self.session.offers(attempt, name, &self.facts.pool.grants)
    }
}
