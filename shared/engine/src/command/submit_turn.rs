//! Continues a context by one turn: what a person says, and what a model makes of it.

use super::{AtLimit, Handle, RunLimits};
use crate::agent::AgentDefinition;
use crate::decide::{Decision, Ended, Rejection, check_tools_of_turn};
use crate::event::{Budget, RunStarted, StartedTurn};
use crate::failure::Failure;
use crate::limits::{MAX_CONTEXT, MAX_QUEUED_TURNS};
use crate::message::{Message, Role};
use crate::refusal::Refusal;
use crate::session::{Apply, Envelope, QueuedTurn, Session};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Continue a context by one turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitTurn {
    /// Name of the context; empty for the active one.
    pub context: String,
    /// What the person says; none to send the context as it stands.
    pub message: Option<Message>,
    /// The model; empty for the default.
    pub model: String,
    /// How it is asked.
    pub options: TurnOptions,
    /// What happens while another run is active.
    pub when_busy: WhenBusy,
    /// The trace that the turn belongs to; see `cairn/event/v1/event.proto`.
    pub trace_parent: String,
    /// A person who can answer questions follows the turn.
    pub answers_questions: bool,
}

/// Options of one turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnOptions {
    /// Sampling temperature in thousandths; none for the provider's default.
    pub temperature_milli: Option<u32>,
    /// Most tokens of one reply; none for the provider's default.
    pub max_output_tokens: Option<u32>,
    /// The form of the replies.
    pub format: ResponseFormat,
    /// Names of the tools that may be called; none for all.
    pub tools: Option<Vec<String>>,
    /// Replies with tool calls; none for as many as the run's limits say. With 0 the model is asked once,
    /// and the calls of its reply are not made.
    pub max_tool_turns: Option<u32>,
    /// What happens when a request becomes too long for the model; none for what its context says.
    pub when_full: Option<WhenFull>,
    /// What its context keeps if it does not complete; none for nothing.
    pub keep: Option<Keep>,
    /// What happens at `max_tool_turns`; none for what the run's limits say.
    pub at_limit: Option<AtLimit>,
    /// Replies of the turn, after which it waits and a person is asked; none or 0 for as many as the run's limits
    /// say.
    pub max_turns: Option<u32>,
}

/// What the context of a turn keeps if the turn does not complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Keep {
    /// Nothing. The next turn is reminded of calls with side effects.
    #[default]
    Nothing,
    /// The messages through the last reply, with the results of its calls, and what a person said to the turn. A
    /// turn without any reply keeps nothing.
    Complete,
}

impl TurnOptions {
    /// The limits of a run with what the options say.
    fn over(&self, mut limits: RunLimits) -> RunLimits {
        limits.max_tool_turns = self.max_tool_turns.unwrap_or(limits.max_tool_turns);
        limits.at_limit = self.at_limit.unwrap_or(limits.at_limit);
        if let Some(most @ 1..) = self.max_turns {
            limits.budgets[Budget::Turns] = most.into();
        }
        limits
    }
}

/// What happens when the next request of a turn becomes too long for its model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WhenFull {
    /// Older messages give way to a list or to a summary of them.
    #[default]
    Compact,
    /// The turn fails.
    Refuse,
}

/// The form of a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseFormat {
    /// Text.
    #[default]
    Text,
    /// Some JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema {
        /// What it is, for the provider.
        name: String,
        /// A JSON Schema as text.
        schema: String,
    },
}

/// What happens to a turn that is submitted while a run is active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WhenBusy {
    /// It is refused.
    #[default]
    Refuse,
    /// It begins when that run has ended.
    Queue,
    /// It takes the place of an active turn. A run with a plan is never cancelled for it.
    Interrupt,
}

/// A turn waits until the active run has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnQueued {
    /// Names the turn: the seq of its command.
    pub number: u64,
}

impl SubmitTurn {
    /// The turn in which a model writes down what is to stay of a context.
    pub(crate) fn conclusion() -> Self {
        let tools = ["session_memory_get", "session_memory_list", "session_memory_set"];
        Self {
            options: TurnOptions {
                tools: Some(tools.map(str::to_owned).to_vec()),
                ..TurnOptions::default()
            },
            ..Self::default()
        }
    }

    fn check(&self, decision: &Decision<'_>) -> Result<(), Rejection> {
        if self.message.as_ref().is_some_and(|it| it.role != Role::User) {
            let message = "the message of a turn is the user's";
            return Err(Rejection::refused(Refusal::BadMessage, message));
        }
        let context = decision.known_context(&self.context)?;
        let bytes = context.bytes + self.message.as_ref().map_or(0, Message::bytes);
        let agent = decision.agent_of_turn(&self.context)?;
        decision.pins(agent.as_deref())?;
        let of_agent = agent.as_ref().and_then(|agent| agent.compaction.when_full);
        let when_full = self.options.when_full.or(context.when_full).or(of_agent);
        // Else it begins with a compaction.
        if bytes > MAX_CONTEXT && when_full == Some(WhenFull::Refuse) {
            let name = decision.session.context_name(&self.context);
            return Err(Rejection::refused(Refusal::Limit, full(name, bytes)));
        }
        let tools = self.options.tools.iter().flatten();
        for tool in tools {
            decision.check_offered(tool)?;
        }
        let tools = self.options.tools.as_deref().unwrap_or_default();
        let grants = &decision.facts.pool.grants;
        check_tools_of_turn(agent.as_ref(), tools, grants)?;
        if self.message.is_none() && context.is_empty() {
            let message = "the context has no message, and the turn brings none";
            return Err(Rejection::refused(Refusal::EmptyContext, message));
        }
        Ok(())
    }
}

/// Says that a context holds no more.
pub(crate) fn full(name: &str, bytes: u64) -> String {
    format!(
        "context '{name}' would have {bytes} bytes of messages; at most {MAX_CONTEXT} are allowed: \
         remove messages with `cairn context remove`, or export it and import a part into a new session \
         with `cairn context export` and `cairn context import`"
    )
}

impl Handle for SubmitTurn {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        self.check(decision)?;
        if let Some(active) = decision.session.active_run() {
            let (number, is_turn) = (active.number, active.turn.is_some());
            match self.when_busy {
                WhenBusy::Queue => {
                    let queued = decision.session.queued_turns.len();
                    if queued >= MAX_QUEUED_TURNS {
                        let message = format!(
                            "{queued} turns are queued, which is the most; wait for one or cancel it"
                        );
                        return Err(Rejection::refused(Refusal::Limit, message));
                    }
                    let number = decision.command_seq();
                    return decision.answer(TurnQueued { number });
                }
                WhenBusy::Interrupt if is_turn => {
                    let reason = decision.cancel_reason(number, "another turn interrupted it");
                    for attempt in decision.running(number) {
                        decision.stop_step(attempt, Ended::Cancelled)?;
                    }
                    let cancelled = decision.run_cancelled(number, reason);
                    decision.take_up(cancelled)?;
                }
                WhenBusy::Refuse | WhenBusy::Interrupt => {
                    let message =
                        format!("run {number} is active; wait for its end, cancel it, or queue the turn");
                    return Err(Rejection::refused(Refusal::RunActive, message));
                }
            }
        }
        let agent = decision.agent_of_turn(&self.context)?;
        decision.start_turn(self, agent, None)
    }
}

impl Decision<'_> {
    /// Begins a turn of this agent: one of the command that is being handled, or a queued one.
    pub(crate) fn start_turn(
        &mut self,
        turn: SubmitTurn,
        agent: Option<Arc<AgentDefinition>>,
        queued: Option<&QueuedTurn>,
    ) -> Result<(), Rejection> {
        let of_agent = agent.as_ref().map(|agent| agent.limits).unwrap_or_default();
        let limits = turn.options.over(self.facts.limits.of_agent(&of_agent));
        let number = queued.map_or(0, |it| it.number);
        let started = self.start_in_context(&turn.context, agent, limits, number)?;
        let model = match turn.model.as_str() {
            "" => started.model,
            _ => turn.model,
        };
        let started = RunStarted {
            model,
            trace_parent: turn.trace_parent,
            ..started
        };
        let run = started.run;
        match queued {
            None => self.answer(started)?,
            Some(queued) => self.emit_with(started.into(), 0, queued.principal.clone())?,
        }
        Ok(self.advance(run)?)
    }

    /// The start of a run without a plan in a context, by an agent whose definition is the last event before
    /// it. What was asked of the run before it is dropped. `queued` is the number of a queued turn; 0 for none.
    pub(crate) fn start_in_context(
        &mut self,
        context: &str,
        agent: Option<Arc<AgentDefinition>>,
        mut limits: RunLimits,
        queued: u64,
    ) -> Result<RunStarted, Rejection> {
        let hooks = self.pins(agent.as_deref())?;
        let run = self.session.runs.len() as u32 + 1;
        self.drop_requests(run - 1, "another run has begun since")?;
        limits.on_failure = super::OnFailure::Stop;
        limits.review_plan = false;
        let turn_index = self.known_context(context)?.turns;
        let model = agent.as_ref().map(|agent| agent.model.clone()).unwrap_or_default();
        let agent = self.define(agent)?;
        Ok(RunStarted {
            run,
            goal: String::new(),
            limits,
            model,
            agent,
            hooks,
            trace_parent: String::new(),
            turn: Some(StartedTurn {
                context: self.session.context_name(context).to_owned(),
                queued,
                turn_index,
            }),
        })
    }

    /// The turn that waited longest begins once no run is active.
    pub(crate) fn start_queued(&mut self) -> Applied {
        let may_start = self.facts.starts && self.facts.starts_queued;
        while self.session.active_run().is_none() && may_start {
            let Some(next) = self.session.queued_turns.first().cloned() else {
                return Ok(());
            };
            let agent = next.turn.check(self);
            let agent = agent.and_then(|()| self.agent_of_turn(&next.turn.context));
            let started = match agent {
                Ok(agent) => self.start_turn(next.turn.clone(), agent, Some(&next)),
                Err(refused) => Err(refused),
            };
            match started {
                Ok(()) => {}
                Err(Rejection::Refused { reason, message }) => {
                    let failure = Failure::refused(reason, message);
                    self.emit(super::QueuedTurnDropped::because(next.number, failure))?;
                }
                Err(Rejection::Illegal(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Apply for TurnQueued {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let missing = || IllegalTransition::missing("the command of a queued turn");
        let received = session.commands.get(&envelope.answers).ok_or_else(missing)?;
        let super::Command::SubmitTurn(turn) = &received.command else {
            return Err(missing());
        };
        let principal = received.principal.clone();
        // The context is the one that is active now.
        let context = session.context_name(&turn.context).to_owned();
        let turn = SubmitTurn {
            context,
            ..turn.clone()
        };
        session.queued_turns.push(QueuedTurn {
            number: self.number,
            principal,
            turn,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{ChangeContext, ContextOp};
    use crate::command::testing::Sent;
    use crate::limits::MAX_EXTENSION;
    use crate::session::RunStatus;

    fn say(text: &str, when_busy: WhenBusy) -> SubmitTurn {
        SubmitTurn {
            message: Some(Message::user(text)),
            when_busy,
            ..SubmitTurn::default()
        }
    }

    fn change(ops: Vec<ContextOp>) -> ChangeContext {
        ChangeContext {
            ops,
            ..ChangeContext::default()
        }
    }

    #[test]
    fn a_turn_begins_at_once() {
        let mut sent = Sent::new();
        sent.send(say("hello", WhenBusy::Refuse));
        let run = sent.run();
        assert_eq!(run.status, RunStatus::Running);
        assert_eq!(run.goal, "hello");
        assert_eq!(run.running_attempts().count(), 1);
    }

    #[test]
    fn a_turn_without_a_message_needs_a_context_that_has_one() {
        let silent = SubmitTurn::default;
        let mut sent = Sent::new();
        assert_eq!(sent.refused(silent()), Refusal::EmptyContext);
        sent.send(change(vec![ContextOp::Append(Message::user("hello"))]));
        sent.send(silent());
        assert_eq!(sent.run().status, RunStatus::Running);
    }

    #[test]
    fn the_message_is_the_users_and_the_context_is_there() {
        let mut sent = Sent::new();
        let message = Some(Message {
            role: Role::Assistant,
            ..Message::user("x")
        });
        let of_the_model = SubmitTurn {
            message,
            ..SubmitTurn::default()
        };
        assert_eq!(sent.refused(of_the_model), Refusal::BadMessage);
        let elsewhere = SubmitTurn {
            context: "side".to_owned(),
            ..say("x", WhenBusy::Refuse)
        };
        assert_eq!(sent.refused(elsewhere), Refusal::ContextNotFound);
    }

    #[test]
    fn a_turn_begins_with_a_compaction_of_too_large_a_context_or_is_refused() {
        let mut sent = Sent::new();
        // With what a message and its part count beside their bytes.
        let most = Message::user("x".repeat(MAX_EXTENSION as usize - 32));
        for _ in 0..MAX_CONTEXT / MAX_EXTENSION {
            sent.send(change(vec![ContextOp::Append(most.clone())]));
        }
        let refusing = SubmitTurn {
            options: TurnOptions {
                when_full: Some(WhenFull::Refuse),
                ..TurnOptions::default()
            },
            ..say("x", WhenBusy::Refuse)
        };
        assert_eq!(sent.refused(refusing), Refusal::Limit);
        sent.send(say("x", WhenBusy::Refuse));
        assert_eq!(sent.run().status, RunStatus::Running);
        let context = sent.session.context("").expect("main");
        assert!(context.bytes <= MAX_CONTEXT / 2, "{} bytes", context.bytes);
        assert_eq!(context.conversation.compressed.len(), 1);
    }

    #[test]
    fn a_turn_waits_for_the_active_run_or_is_refused() {
        let mut sent = Sent::running(&["one"]);
        for when_busy in [WhenBusy::Refuse, WhenBusy::Interrupt] {
            assert_eq!(sent.refused(say("x", when_busy)), Refusal::RunActive);
        }
        for _ in 0..MAX_QUEUED_TURNS {
            sent.send(say("x", WhenBusy::Queue));
        }
        assert_eq!(sent.session.queued_turns.len(), MAX_QUEUED_TURNS);
        assert_eq!(sent.refused(say("x", WhenBusy::Queue)), Refusal::Limit);
    }

    #[test]
    fn an_interruption_takes_the_place_of_a_turn() {
        let mut sent = Sent::new();
        sent.send(say("first", WhenBusy::Refuse));
        sent.send(say("second", WhenBusy::Interrupt));
        let states = sent.session.runs.summaries().map(|run| run.status);
        let expected = [RunStatus::Cancelled, RunStatus::Running];
        assert_eq!(states.collect::<Vec<_>>(), expected);
    }
}
