//! What hooks are asked at a point, as the state has it.

use super::{Gate, Mutation, Point};
use crate::conversation::{Conversation, Entry, Op};
use crate::event::{AttemptRef, CallRef, Effect};
use crate::failure::Failure;
use crate::message::{Message, Role, ToolCall, Usage};
use crate::plan::PlanDraft;
use crate::session::{
    Call, CallStatus, EndedHooks, Purpose, Run, RunStatus, Session, Step, StepStatus,
};
use std::sync::Arc;

/// A question, with the changes of the hooks that were asked before.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Names it. Each of the questions about the calls of one reply has the position of its call as the index.
    pub gate: Gate,
    /// Position of the call that it is about; 0 if it is about none.
    pub index: u32,
    /// The tool of that call; none if it is about none.
    pub tool: Option<String>,
    /// The context of a turn; empty for a run with a plan.
    pub context: String,
    /// Name of the agent of the run.
    pub agent: String,
    /// Model of the run; empty for the default.
    pub model: String,
    /// Turns and attempts that completed before: of the context for a turn of a conversation, else of the run. None
    /// for points of a run or a plan.
    pub turn_index: Option<u32>,
    /// Position of the step in its plan, from 0. None for a turn of a conversation, and for points of a run.
    pub step_index: Option<u32>,
    /// What it is about.
    pub payload: Payload,
}

/// What a question is about; see `cairn/hook/v1/hook.proto`.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // Described in the contract.
pub enum Payload {
    RunStart {
        goal: String,
        is_turn: bool,
    },
    RunEnd {
        status: EndStatus,
        failure: Option<Failure>,
        usage: Usage,
    },
    PlanProposed {
        plan: PlanDraft,
        /// Empty for the first plan of a run.
        feedback: String,
    },
    StepStart {
        title: String,
        description: String,
        /// Empty for a step of the model.
        tool: String,
    },
    TurnStart {
        message: Option<Message>,
    },
    Request(Box<NextRequest>),
    Retry {
        tool_turn: u32,
        attempt: u32,
        failure: Failure,
    },
    Reply {
        tool_turn: u32,
        text: String,
        calls: Vec<ToolCall>,
        usage: Usage,
    },
    Call(AskedCall),
    Result {
        call: AskedCall,
        output: String,
        is_error: bool,
        reason: String,
        duration_ms: u64,
    },
    Compaction {
        is_requested: bool,
        /// Empty for the built-in one.
        prompt: String,
    },
    Error(Failure),
    TurnEnd {
        response: String,
        summary: String,
        usage: Usage,
    },
    StepEnd {
        title: String,
        description: String,
        status: EndStatus,
        summary: String,
        failure: Option<Failure>,
    },
}

/// A call that hooks are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedCall {
    /// Its name.
    pub call: CallRef,
    /// The name of its tool.
    pub tool: String,
    /// The arguments that are sent, as JSON.
    pub arguments: String,
    /// The arguments as the model wrote them, if hooks changed them.
    pub asked: Option<String>,
    /// What its tool may do.
    pub effect: Effect,
}

/// How a run or a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndStatus {
    /// It completed.
    Completed,
    /// It failed.
    Failed,
    /// It was skipped; of a run: cancelled.
    Skipped,
}

/// The next request of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct NextRequest {
    /// Number of the tool turn, from 0.
    pub tool_turn: u32,
    /// The conversation as the request has it.
    pub conversation: Conversation,
    /// The number of the reply with which the new messages begin; none for the first request.
    since: Option<u32>,
    /// It is of a turn, which did not bring the first messages of its context.
    is_turn: bool,
}

impl NextRequest {
    /// The first request of an attempt at a step, with this conversation. For examples; a session makes those of runs.
    pub fn first(conversation: Conversation) -> Self {
        Self {
            tool_turn: 0,
            conversation,
            since: None,
            is_turn: false,
        }
    }

    /// What the request has that the request before it did not have: the reply to that, and what follows. Of the
    /// first request all messages of the turn or the attempt.
    pub fn new_messages(&self) -> impl Iterator<Item = &Entry> {
        let Conversation {
            immutable, behind, ..
        } = &self.conversation;
        let since = self
            .since
            .and_then(|number| behind.iter().position(|entry| entry.number == number));
        let before: &[Entry] = match self.since {
            None if !self.is_turn => immutable,
            _ => &[],
        };
        // A reply that a hook took out leaves all of them.
        before.iter().chain(&behind[since.unwrap_or_default()..])
    }

    /// How many messages the whole request has, without the system prompt.
    pub fn messages(&self) -> u32 {
        u32::try_from(self.all().count()).unwrap_or(u32::MAX)
    }

    /// Bytes of these messages.
    pub fn bytes(&self) -> u64 {
        self.all().map(|message| message.bytes()).sum()
    }

    fn all(&self) -> impl Iterator<Item = Arc<Message>> {
        let messages = self.conversation.messages().into_iter();
        messages.filter(|message| message.role != Role::System)
    }
}

impl Question {
    /// The conversation as the next request has it, which changes have to fit. None if the question is about no request.
    pub fn conversation(&self) -> Option<&Conversation> {
        match &self.payload {
            Payload::Request(request) => Some(&request.conversation),
            _ => None,
        }
    }

    /// The same with what a hook changed, as the next hook is asked. A change of something else than the payload is
    /// left out: [`fault_of`](super::fault_of) refuses it.
    pub fn with(&mut self, mutation: &Mutation) {
        match (&mut self.payload, mutation) {
            (Payload::Call(call), Mutation::Arguments(changed)) => {
                let before = std::mem::replace(&mut call.arguments, changed.clone());
                call.asked.get_or_insert(before);
            }
            (Payload::Result { output: text, .. }, Mutation::Output(changed))
            | (Payload::Reply { text, .. }, Mutation::Text(changed))
            | (Payload::Compaction { prompt: text, .. }, Mutation::Prompt(changed)) => {
                text.clone_from(changed);
            }
            (Payload::Request(request), Mutation::Ops(ops)) => {
                for op in ops.iter().cloned() {
                    // That they fit was checked.
                    let _ = request.conversation.apply(op);
                }
            }
            (Payload::PlanProposed { plan, .. }, Mutation::Plan(changed)) => {
                plan.clone_from(changed);
            }
            _ => {}
        }
    }
}

impl Session {
    /// What hooks are asked at an open gate: one question, or one for each call. Empty if the gate is not open.
    pub fn hook_questions(&self, gate: Gate) -> Vec<Question> {
        if !self.is_open(gate) {
            return Vec::new();
        }
        match gate.point {
            Point::OnRunEnd => {
                let mut ended = self.ended_hooks.iter();
                let ended = ended.find(|ended| ended.gate() == gate);
                ended.map(EndedHooks::question).into_iter().collect()
            }
            Point::PreToolCall => self.questions_of_calls(gate),
            _ => {
                let known = self.payload_of(gate).zip(self.run(gate.attempt.run));
                let question = known.map(|(payload, run)| self.hook_question(gate, run, payload));
                question.into_iter().collect()
            }
        }
    }

    /// The conversation of an attempt as its next request has it; see [`fault_of`](super::fault_of).
    pub fn next_conversation(&self, attempt: AttemptRef) -> Option<Conversation> {
        let running = self.attempt(attempt)?;
        let mut conversation = self.conversation(attempt)?;
        let results = running.calls.iter().filter_map(Call::result);
        let results = results.map(Op::Append);
        for op in results.chain(running.waiting_ops.iter().cloned()) {
            // One that does not fit is refused when it takes effect.
            let _ = conversation.apply(op);
        }
        Some(conversation)
    }

    fn hook_question(&self, gate: Gate, run: &Run, payload: Payload) -> Question {
        let turn = run.turn.as_ref();
        let step = self.step(gate.attempt).filter(|_| turn.is_none());
        let is_of_run = gate.attempt.attempt == 0 && gate.point != Point::OnPlanStepComplete;
        let turn_index = match gate.point {
            Point::OnTurnStart | Point::OnTurnEnd => gate.turn,
            _ => self.turn_index(run.number),
        };
        let (index, tool) = match &payload {
            Payload::Call(call) | Payload::Result { call, .. } => {
                (call.call.index, Some(call.tool.clone()))
            }
            _ => (0, None),
        };
        let position = |step: &Step| u32::try_from(step.place?.index()).ok();
        Question {
            gate,
            index,
            tool,
            context: turn.map(|turn| turn.context.clone()).unwrap_or_default(),
            agent: self.agent_name(run.number).to_owned(),
            model: run.model.clone(),
            turn_index: (!is_of_run).then_some(turn_index),
            step_index: step.and_then(position),
            payload,
        }
    }

    fn questions_of_calls(&self, gate: Gate) -> Vec<Question> {
        let known = self.attempt(gate.attempt).zip(self.run(gate.attempt.run));
        let Some((attempt, run)) = known else {
            return Vec::new();
        };
        let calls = attempt.last_calls(gate.attempt);
        let asked = calls.filter(|(_, call)| call.waits_for_hooks());
        let questions = asked.map(|(name, call)| {
            let gate = Gate {
                index: name.index,
                ..gate
            };
            self.hook_question(gate, run, Payload::Call(AskedCall::of(name, call)))
        });
        questions.collect()
    }

    fn payload_of(&self, gate: Gate) -> Option<Payload> {
        let (name, run) = (gate.attempt, self.run(gate.attempt.run)?);
        Some(match gate.point {
            Point::OnRunStart => Payload::RunStart {
                goal: run.goal.clone(),
                is_turn: run.turn.is_some(),
            },
            Point::OnPlanProposed => proposed(run)?,
            Point::OnStepStart => {
                let plan = &self.step(name)?.plan;
                let tool = plan.tool.as_ref().map(|tool| tool.name.clone());
                Payload::StepStart {
                    title: plan.title.clone(),
                    description: plan.description.clone(),
                    tool: tool.unwrap_or_default(),
                }
            }
            Point::OnTurnStart => Payload::TurnStart {
                message: self.message_of_turn(name),
            },
            Point::PreRequest => Payload::Request(Box::new(self.next_request(name)?)),
            Point::OnRetry => Payload::Retry {
                tool_turn: gate.turn,
                attempt: gate.index,
                failure: self.attempt(name)?.retry.clone()?,
            },
            Point::PostRequest => self.reply(gate)?,
            Point::PostToolCall => self.result(gate)?,
            Point::OnCompaction => self.compaction_of(name)?,
            Point::OnError => Payload::Error(match name.attempt {
                0 => run.ending.clone()?,
                _ => match &self.step(name)?.status {
                    StepStatus::Failed { failure } => failure.clone(),
                    _ => return None,
                },
            }),
            Point::OnTurnEnd => self.turn_end(name)?,
            Point::OnPlanStepComplete => step_end(self.step(name)?)?,
            Point::OnRunEnd | Point::PreToolCall => return None,
        })
    }

    /// What the person says that a turn has just begun with.
    fn message_of_turn(&self, name: AttemptRef) -> Option<Message> {
        self.turn(name)?;
        let said = self.conversation_of(name)?.behind.first()?;
        Some((*said.message).clone())
    }

    fn next_request(&self, name: AttemptRef) -> Option<NextRequest> {
        let running = self.attempt(name)?;
        let said = &self.conversation_of(name)?.behind;
        let is_reply =
            |entry: &&Entry| entry.message.role == Role::Assistant && entry.compaction.is_none();
        let last = said.iter().rfind(is_reply);
        Some(NextRequest {
            tool_turn: running.tool_turns,
            conversation: self.next_conversation(name)?,
            since: last.map(|entry| entry.number),
            is_turn: self.turn(name).is_some(),
        })
    }

    fn reply(&self, gate: Gate) -> Option<Payload> {
        let reply = &self.conversation_of(gate.attempt)?.behind.last()?.message;
        Some(Payload::Reply {
            tool_turn: gate.turn,
            text: reply.said(),
            calls: reply.calls().cloned().collect(),
            usage: self.attempt(gate.attempt)?.held_usage.unwrap_or_default(),
        })
    }

    fn result(&self, gate: Gate) -> Option<Payload> {
        let name = gate.call_at(gate.index);
        let call = self.call(name)?;
        let CallStatus::Finished {
            output,
            is_error,
            reason,
        } = &call.status
        else {
            return None;
        };
        Some(Payload::Result {
            call: AskedCall::of(name, call),
            output: output.clone(),
            is_error: *is_error,
            reason: reason.clone(),
            duration_ms: call.duration_ms,
        })
    }

    fn compaction_of(&self, name: AttemptRef) -> Option<Payload> {
        let running = self.attempt(name)?;
        let compact = match self.turn(name).map(|turn| &turn.purpose) {
            Some(Purpose::Compact(compact)) => Some(compact),
            _ => None,
        };
        let of_run = compact.and_then(|compact| compact.prompt.clone());
        Some(Payload::Compaction {
            is_requested: compact.is_some() || running.wants_compaction.is_some(),
            prompt: running
                .summary_prompt
                .clone()
                .or(of_run)
                .unwrap_or_default(),
        })
    }

    fn turn_end(&self, name: AttemptRef) -> Option<Payload> {
        let step = self.step(name)?;
        let StepStatus::Completed { response, summary } = &step.status else {
            return None;
        };
        // The response of a turn is its last reply.
        let said = self.context_of_turn(name).map(|it| &it.behind);
        let mut said = said.into_iter().flatten();
        let last = said.rfind(|entry| entry.message.role == Role::Assistant);
        Some(Payload::TurnEnd {
            response: last.map_or_else(|| response.clone(), |entry| entry.message.said()),
            summary: summary.clone(),
            usage: step.usage,
        })
    }

    fn context_of_turn(&self, name: AttemptRef) -> Option<&Conversation> {
        let context = self.contexts.get(&self.turn(name)?.context)?;
        Some(&context.conversation)
    }
}

impl EndedHooks {
    fn question(&self) -> Question {
        Question {
            gate: self.gate(),
            index: 0,
            tool: None,
            context: self.context.clone(),
            agent: self.agent.clone(),
            model: self.model.clone(),
            turn_index: None,
            step_index: None,
            payload: Payload::RunEnd {
                status: match self.status {
                    RunStatus::Completed => EndStatus::Completed,
                    RunStatus::Cancelled => EndStatus::Skipped,
                    _ => EndStatus::Failed,
                },
                failure: self.failure.clone(),
                usage: self.usage,
            },
        }
    }
}

impl AskedCall {
    fn of(name: CallRef, call: &Call) -> Self {
        let asked = call.sent.as_ref().map(|_| call.call.arguments.clone());
        Self {
            call: name,
            tool: call.call.name.clone(),
            arguments: call.arguments().to_owned(),
            asked,
            effect: call.effect,
        }
    }
}

/// The plan that waits.
fn proposed(run: &Run) -> Option<Payload> {
    let held = run.hooks.plan.as_ref()?;
    let request = held.request.and_then(|it| run.revisions.requests.get(&it));
    Some(Payload::PlanProposed {
        plan: held.plan.clone(),
        feedback: request.map(|it| it.feedback.clone()).unwrap_or_default(),
    })
}

fn step_end(step: &Step) -> Option<Payload> {
    let (status, summary, failure) = match &step.status {
        StepStatus::Completed { summary, .. } => (EndStatus::Completed, summary.clone(), None),
        StepStatus::Failed { failure } => (EndStatus::Failed, String::new(), Some(failure.clone())),
        StepStatus::Skipped { reason, .. } => (EndStatus::Skipped, reason.clone(), None),
        StepStatus::Pending | StepStatus::Running(_) => return None,
    };
    Some(Payload::StepEnd {
        title: step.plan.title.clone(),
        description: step.plan.description.clone(),
        status,
        summary,
        failure,
    })
}
