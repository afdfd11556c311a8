//! A call with its state, and the events about calls.

mod hooked;

pub use hooked::{CallHooks, HookDemand, HookedArguments, HookedResult};

use super::{Apply, EffectfulCall, Envelope, Mode, Session};
use crate::command::Settlement;
use crate::decide::{CODE_GENERATION, is_answered_by_owner};
use crate::event::{
    ApprovalRequested, CallFinished, CallHeld, CallInDoubt, CallIntended, CallPreview,
    CallPreviewed, CallRef, CallRejudged, CallSettled, Decided, Effect, InputRequested,
    QuestionAsked, RequestedCall, ResultHandle, ToolInput, ToolQuestion,
};
use crate::message::{Media, Message, ToolCall};
use crate::pending::{Subject, pending};
use crate::rules::Condition;
use crate::transitions::{Applied, CallPhase, IllegalTransition, call_may};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A call with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The model's call, with the arguments that the model wrote.
    pub call: ToolCall,
    /// What it may do.
    pub effect: Effect,
    /// How far it got.
    pub status: CallStatus,
    /// How often it was in doubt.
    pub doubts: u32,
    /// When it last began to wait for a person; 0 if it never did.
    pub asked_at: u64,
    /// How often its approval or its question was asked for.
    pub asks: u32,
    /// The digest of the tool that it is meant for; empty if the owner answers it.
    pub tool_digest: String,
    /// It is judged and sent only with a preview.
    pub previews: bool,
    /// What it would change, by which it is judged; none before that is known.
    pub preview: Option<Box<CallPreview>>,
    /// The mode of the session when it was requested, or judged by its last preview.
    pub mode: Mode,
    /// Where texts of its arguments lead by links, as the tools service found.
    pub resolved: Vec<Condition>,
    /// A person approved the call of which this is the digest.
    pub approval: Option<String>,
    /// The answer to what its tool asked last, with which it continues.
    pub input: Option<ToolInput>,
    /// How often it became a new request: judged anew, or continued with an answer.
    pub renewals: u32,
    /// The session that it was sent in, or may have been, if this one was copied from there since:
    /// it keeps the key that it had.
    pub origin: Option<String>,
    /// The pictures and files of its result that the model gets.
    pub media: Vec<Media>,
    /// The hooks that are asked about it.
    pub hooks: CallHooks,
    /// The arguments that hooks put in place of the model's; none if they left those as they are.
    pub sent: Option<HookedArguments>,
    /// The approval that a hook requires.
    pub demand: Option<HookDemand>,
    /// Its whole result, if hooks are asked about the beginning of it, or have left that as it was. The model can read
    /// on only from then on.
    pub whole: Option<Box<ResultHandle>>,
    /// How long its tool took, in milliseconds, if hooks were asked about its result; else 0.
    pub duration_ms: u64,
}

/// How far a call got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallStatus {
    /// Asked for. It may have been sent if it is not effectful.
    Requested,
    /// It waits for a person.
    Asking {
        /// What is asked.
        ask: Ask,
        /// The answer, between the decision and the result that follows from it.
        answer: Option<Settlement>,
    },
    /// It may be sent, and may have been.
    Intended {
        /// Not sent after this.
        not_after: u64,
        /// How long it may run.
        time_limit_ms: u64,
        /// It dies with the tools process.
        in_process: bool,
        /// How often it was intended.
        times: u32,
    },
    /// It may have been carried out; its outcome is not known.
    InDoubt {
        /// It can no longer be running then.
        settle_after: u64,
        /// The decision of a person, until it takes effect.
        answer: Option<Settlement>,
    },
    /// It has a result.
    Finished {
        /// The result that the model gets.
        output: String,
        /// It tells of a failure.
        is_error: bool,
        /// Stable name of the failure; empty without one.
        reason: String,
    },
}

/// What a call asks a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// May it be made?
    Approval {
        /// Of its tool and its arguments.
        digest: String,
    },
    /// What the model wants to know.
    Question {
        /// In its words.
        question: String,
        /// Answers that it proposes.
        choices: Vec<String>,
    },
    /// What its tool wants to know.
    Input {
        /// In the words of its server.
        question: ToolQuestion,
    },
}

impl Call {
    /// A call that has just been requested.
    pub(super) fn requested(asked: RequestedCall, mode: Mode) -> Self {
        Self {
            call: asked.call,
            effect: asked.effect,
            status: CallStatus::Requested,
            doubts: 0,
            asked_at: 0,
            asks: 0,
            tool_digest: asked.tool_digest,
            previews: asked.previews,
            preview: None,
            mode,
            resolved: Vec::new(),
            approval: None,
            input: None,
            renewals: 0,
            origin: None,
            media: Vec::new(),
            hooks: match asked.hooked {
                true => CallHooks::Before,
                false => CallHooks::None,
            },
            sent: None,
            demand: None,
            whole: None,
            duration_ms: 0,
        }
    }

    /// Its result as the model is sent it, once it has one that hooks are not asked about. A tool step has no model.
    pub fn result(&self) -> Option<Message> {
        match &self.status {
            CallStatus::Finished {
                output, is_error, ..
            } if self.is_finished() => {
                let result = Message::tool(&self.call.id, output, *is_error);
                Some(result.with_media(self.media.iter().cloned()))
            }
            _ => None,
        }
    }

    /// It has a result, and no hook is asked about that any more.
    pub fn is_finished(&self) -> bool {
        matches!(self.status, CallStatus::Finished { .. }) && self.hooks != CallHooks::After
    }

    /// The owner finds its result by I/O, and has not recorded one yet.
    pub fn waits_for_owner(&self) -> bool {
        self.effect == Effect::State
            && self.status == CallStatus::Requested
            && is_answered_by_owner(&self.call.name)
    }

    /// It asks a model, and has no answer yet.
    pub fn asks_model(&self) -> bool {
        self.effect == Effect::Pure
            && self.status == CallStatus::Requested
            && self.call.name == CODE_GENERATION
            && !self.is_unready()
    }

    /// What it would change is not known, and it is neither sent nor asked about before.
    pub fn needs_preview(&self) -> bool {
        self.previews && self.preview.is_none() && self.status == CallStatus::Requested
    }

    pub(super) fn enter(&mut self, to: CallStatus) -> Applied {
        let (from, into): (CallPhase, CallPhase) = (self.status.phase(), to.phase());
        if !call_may(from, into) {
            return Err(self.refuse(into));
        }
        self.status = to;
        Ok(())
    }

    pub(super) fn refuse(&self, to: impl fmt::Debug) -> IllegalTransition {
        let what = format_args!("call '{}'", self.call.id);
        IllegalTransition::not_allowed(what, self.status.phase(), to)
    }

    /// An approved call is as if just requested; any other answer is followed by the call's result.
    fn decide(&mut self, decided: &Decided) -> Applied {
        let settlement = &decided.settlement;
        match (&mut self.status, settlement) {
            (CallStatus::InDoubt { answer, .. }, _) if answer.is_none() => {
                *answer = Some(settlement.clone());
                Ok(())
            }
            (CallStatus::Asking { ask, answer }, _) if answer.is_none() => {
                match (ask, settlement) {
                    (
                        Ask::Approval { digest },
                        Settlement::Approve | Settlement::ApproveAlways { .. },
                    ) => {
                        self.approval = Some(std::mem::take(digest));
                        self.enter(CallStatus::Requested)
                    }
                    (
                        Ask::Input { question },
                        Settlement::Answer { .. } | Settlement::Deny { .. },
                    ) => {
                        let responses = decided.responses.clone();
                        let state = question.state.take();
                        self.input = Some(ToolInput { responses, state });
                        self.renewals += 1;
                        self.enter(CallStatus::Requested)
                    }
                    (Ask::Approval { .. }, Settlement::Deny { .. })
                    | (Ask::Question { .. }, Settlement::Answer { .. }) => {
                        *answer = Some(settlement.clone());
                        Ok(())
                    }
                    _ => Err(self.refuse(settlement.verb())),
                }
            }
            _ => Err(self.refuse("decided")),
        }
    }
}

impl Session {
    fn ask(&mut self, name: CallRef, ask: Ask, at: u64) -> Applied {
        let call = self.call_mut(name)?;
        // What was approved is not asked about again, unless it is another call by now.
        if let Ask::Approval { digest } = &ask
            && call.approval.as_ref() == Some(digest)
        {
            return Err(call.refuse(CallPhase::Asking));
        }
        call.asks += 1;
        call.enter(CallStatus::Asking { ask, answer: None })?;
        call.asked_at = at;
        Ok(())
    }

    /// Keeps with the step what its call with side effects came to, for when the step is dropped.
    fn note_effect(&mut self, name: CallRef, is_done: bool) -> Applied {
        let call = self.call_mut(name)?;
        if call.effect != Effect::Effectful {
            return Ok(());
        }
        let (tool, origin) = (call.call.name.clone(), call.origin.clone());
        let effects = &mut self.step_mut(name.attempt)?.effects;
        let mut of_turn = effects.iter_mut().rev().take_while(|known| {
            (known.call.attempt, known.call.tool_turn) == (name.attempt, name.tool_turn)
        });
        match of_turn.find(|known| known.call == name) {
            Some(known) => known.is_done = is_done,
            None => effects.push(EffectfulCall {
                call: name,
                tool,
                is_done,
                origin,
            }),
        }
        Ok(())
    }
}

impl Apply for CallIntended {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let call = session.call_mut(self.call)?;
        if call.is_unready() {
            return Err(call.refuse("intended before its hooks and its preview"));
        }
        let times = match call.status {
            CallStatus::Intended { times, .. } => times + 1,
            _ => 1,
        };
        call.enter(CallStatus::Intended {
            not_after: self.not_after,
            time_limit_ms: self.time_limit_ms,
            in_process: self.in_process,
            times,
        })
    }
}

impl Apply for CallHeld {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let held = session.call_mut(self.call)?;
        if held.status.phase() != CallPhase::Intended {
            return Err(held.refuse("held"));
        }
        held.enter(CallStatus::Requested)
    }
}

impl Apply for CallFinished {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let call = session.call_mut(self.call)?;
        // Such a call has been refused or answered before it was sent.
        let is_unsent = match &call.status {
            CallStatus::InDoubt { .. } | CallStatus::Asking { answer: None, .. } => {
                return Err(call.refuse(CallPhase::Finished));
            }
            CallStatus::Requested | CallStatus::Asking { .. } => true,
            _ => false,
        };
        call.enter(CallStatus::Finished {
            output: self.output.clone(),
            is_error: self.is_error,
            reason: self.reason.clone(),
        })?;
        let shown = self.media.iter().filter(|media| media.is_shown);
        call.media = shown.map(Media::from).collect();
        if self.held {
            call.hooks = CallHooks::After;
            call.whole.clone_from(&self.whole);
            call.duration_ms = self.duration_ms;
        }
        if let Some(whole) = &self.whole {
            match self.held {
                true => session.handles.count(),
                false => session.handles.keep(whole),
            }
        }
        if let Some(file) = &self.file {
            session.note_file(self.call.attempt, file)?;
        }
        if let Some(usage) = &self.usage {
            session.charge(self.call.attempt, usage)?;
        }
        let reason = self.reason.as_str();
        if is_unsent || matches!(reason, CallFinished::NOT_SENT | CallFinished::DENIED) {
            return Ok(());
        }
        session.note_effect(self.call, !self.is_error)
    }
}

impl Apply for ApprovalRequested {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let digest = self.digest.clone();
        session.ask(self.call, Ask::Approval { digest }, envelope.at)
    }
}

impl Apply for QuestionAsked {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let (question, choices) = (self.question.clone(), self.choices.clone());
        let ask = Ask::Question { question, choices };
        session.ask(self.call, ask, envelope.at)
    }
}

/// It is judged in the same transition, in the mode of this moment.
impl Apply for CallPreviewed {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let mode = session.mode;
        let call = session.call_mut(self.call)?;
        if !call.needs_preview() {
            return Err(call.refuse("previewed"));
        }
        call.preview = Some(Box::new(self.preview.clone()));
        call.mode = mode;
        Ok(())
    }
}

impl Apply for CallRejudged {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let mode = session.mode;
        let call = session.call_mut(self.call)?;
        match call.status.phase() {
            CallPhase::Requested => {}
            CallPhase::Intended => call.enter(CallStatus::Requested)?,
            _ => return Err(call.refuse("judged anew")),
        }
        call.tool_digest.clone_from(&self.tool_digest);
        call.effect = self.effect;
        call.resolved.clone_from(&self.resolved);
        call.previews = self.previews;
        call.preview = None;
        call.mode = mode;
        call.approval = None;
        call.renewals += 1;
        Ok(())
    }
}

impl Apply for InputRequested {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let question = self.question.clone();
        session.ask(self.call, Ask::Input { question }, envelope.at)
    }
}

impl Apply for CallInDoubt {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let call = session.call_mut(self.call)?;
        call.enter(CallStatus::InDoubt {
            settle_after: self.settle_after,
            answer: None,
        })?;
        call.doubts += 1;
        call.asked_at = envelope.at;
        session.note_effect(self.call, false)
    }
}

/// What follows from a decision about a budget, a plan, a shortage or hooks is in the events after it.
impl Apply for Decided {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        match self.pending.subject {
            Subject::Call(call) | Subject::Approval(call) | Subject::Question(call) => {
                session.call_mut(call)?.decide(self)
            }
            Subject::Context(attempt) => session.decide_full(attempt, self),
            Subject::Hook { run } => {
                self.check_asked(session)?;
                session.run_mut(run)?.hooks.asks = None;
                Ok(())
            }
            Subject::Budget { .. } | Subject::Plan { .. } | Subject::Shortage(_) => {
                self.check_asked(session)
            }
        }
    }
}

impl Decided {
    /// # Errors
    /// The question is not asked.
    fn check_asked(&self, session: &Session) -> Applied {
        let mut asked = pending(session).into_iter();
        match asked.any(|asked| asked.id() == self.pending) {
            true => Ok(()),
            false => Err(IllegalTransition::missing(self.pending)),
        }
    }
}

/// A call to be sent again is as if just requested.
impl Apply for CallSettled {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let call = session.call_mut(self.call)?;
        if call.status.phase() != CallPhase::InDoubt {
            return Err(call.refuse("settled"));
        }
        call.enter(match self.settlement.result(&self.output) {
            None => CallStatus::Requested,
            Some((output, is_error)) => CallStatus::Finished {
                output: output.to_owned(),
                is_error,
                reason: if is_error { "Decided" } else { "" }.to_owned(),
            },
        })?;
        match self.settlement {
            Settlement::Done { .. } => session.note_effect(self.call, true),
            _ => Ok(()),
        }
    }
}
