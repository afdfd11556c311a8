//! One try at a step, and the events about its replies, sub-goals and notes.

use super::{
    Apply, Call, CallStatus, Envelope, FullContext, Note, SeenFiles, Session, Short, SummaryTask,
};
use crate::conversation::{
    Conversation, Layer, LayerKind, MemoryMark, Op, Reminded, Reminder, Sent,
};
use crate::event::{
    AttemptRef, CallRef, Effect, ReplyReceived, ScratchpadWritten, SubGoalAdded, SubGoalCompleted,
    SubGoalDropped, SubGoalFocused, ToolsFound,
};
use crate::failure::Failure;
use crate::hooks::{Gate, Point};
use crate::message::{FinishReason, Message, Usage};
use crate::text::headline;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The longest beginning of a message that an error names, in characters.
const STEERING_HEADLINE: usize = 80;

/// One try at a step, as far as it is durable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// What the model of a step was sent and has said, through the last reply; without the results of its
    /// calls. A turn has an empty one: it works in its context, see [`Session::conversation`].
    pub conversation: Conversation,
    /// Changes of the conversation that no reply has seen. They follow the results of the last reply's
    /// calls.
    pub waiting_ops: VecDeque<Op>,
    /// The last change that the conversation holds, numbered from 1.
    pub ops_through: u64,
    /// What a person said to it while it ran.
    pub steering: Vec<Steering>,
    /// Replies so far. A tool step counts as one.
    pub tool_turns: u32,
    /// Replies so far that had calls.
    pub call_turns: u32,
    /// The calls of the last reply, or the one of a tool step. Those before have ended.
    pub calls: Vec<Call>,
    /// Replies in a row, up to the last, that were cut at the limit of their length.
    pub cut_replies: u32,
    /// The parts that the model split its step into.
    pub sub_goals: Vec<SubGoal>,
    /// Position of the sub-goal in focus.
    pub focus: Option<u32>,
    /// Tools that its model has found, in the order of their finding.
    pub found_tools: Vec<String>,
    /// Counts what replaces its conversation or its task. An executor that knows another number is started
    /// anew.
    pub rewrites: u32,
    /// The tool turn before whose request its conversation was compacted last.
    pub compacted_at: Option<u32>,
    /// A summary that its model is to write before anything else.
    pub summary: Option<SummaryTask>,
    /// The model asked for a compaction, and said what is to be kept; that may be empty.
    pub wants_compaction: Option<String>,
    /// The prompt of the next summary, which a person gave.
    pub summary_prompt: Option<String>,
    /// Its next request does not fit, and a person is asked.
    pub full: Option<FullContext>,
    /// How often a person was asked because it did not fit.
    pub times_full: u32,
    /// What the pool lacks for it.
    pub short: Option<Short>,
    /// How often no resource had what it needs.
    pub times_short: u32,
    /// Hooks are asked, and it continues when they have answered.
    pub gate: Option<Gate>,
    /// The tool turns whose requests hooks were asked about: those before this number.
    pub requests_passed: u32,
    /// The value of [`Attempt::times_full`] at which hooks were last asked about a compaction.
    pub compaction_asked: Option<u32>,
    /// The error after which its model is asked again, while hooks are asked about that.
    pub retry: Option<Failure>,
    /// The number of the last question to hooks about a retry of the next request; 0 without one. An executor that
    /// begins anew counts its tries from 1 again, and this does not.
    pub last_retry: u32,
    /// What its last reply used up, while hooks are asked about that.
    pub held_usage: Option<Usage>,
    /// The files that the model of a step has seen. Those of a turn are in [`Turn::files`](super::Turn::files).
    pub files: SeenFiles,
}

/// A message of a person to a running attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steering {
    /// The number of the change that has it.
    pub op: u64,
    /// Its beginning, on one line.
    pub headline: String,
}

/// A part of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubGoal {
    /// In the model's words.
    pub text: String,
    /// The model's evaluation, once completed.
    pub summary: Option<String>,
    /// The model gave it up.
    pub is_dropped: bool,
}

impl SubGoal {
    /// It is neither completed nor dropped.
    pub fn is_open(&self) -> bool {
        self.summary.is_none() && !self.is_dropped
    }
}

impl Attempt {
    /// The calls of the last reply with their names.
    pub fn last_calls(&self, attempt: AttemptRef) -> impl Iterator<Item = (CallRef, &Call)> {
        let tool_turn = self.tool_turns.saturating_sub(1);
        self.calls.iter().zip(0..).map(move |(call, index)| {
            let name = CallRef {
                attempt,
                tool_turn,
                index,
            };
            (name, call)
        })
    }

    /// The call, if it is one of the last reply.
    pub(super) fn call_at(&self, name: CallRef) -> Option<usize> {
        let is_last = self.tool_turns.checked_sub(1) == Some(name.tool_turn);
        is_last.then_some(name.index as usize)
    }

    /// The number of the newest change of the conversation.
    pub fn newest_op(&self) -> u64 {
        self.ops_through + self.waiting_ops.len() as u64
    }

    /// Takes changes that the next request has. Of a steering event they are messages of a person.
    pub(super) fn say(&mut self, ops: impl IntoIterator<Item = Op>, is_steering: bool) {
        for op in ops {
            if let (true, Op::Append(message)) = (is_steering, &op) {
                self.steering.push(Steering {
                    op: self.newest_op() + 1,
                    headline: headline(&message.said(), STEERING_HEADLINE),
                });
            }
            self.waiting_ops.push_back(op);
        }
    }

    /// A person has said something that no reply has seen: the attempt does not end before.
    pub fn has_unread(&self) -> bool {
        let mut said = self.steering.iter();
        said.any(|said| said.op > self.ops_through)
    }

    /// What a person said that no reply has seen, oldest first.
    pub(super) fn unread(&self) -> impl Iterator<Item = &Message> {
        let numbered = self.waiting_ops.iter().zip(self.ops_through + 1..);
        numbered.filter_map(move |(op, number)| match op {
            Op::Append(message) if self.steering.iter().any(|said| said.op == number) => {
                Some(message)
            }
            _ => None,
        })
    }

    /// Drops what a person said and no request has contained.
    pub(super) fn forget_unread(&mut self) {
        let through = self.ops_through;
        let unread: Vec<u64> = self.steering.iter().map(|said| said.op).collect();
        let mut number = through;
        self.waiting_ops.retain(|_| {
            number += 1;
            !unread.contains(&number)
        });
        self.steering.retain(|said| said.op <= through);
    }

    /// What the model was last sent as a layer, or will be with its next request; none if nothing was.
    /// `said` is the conversation that the attempt works in.
    pub(crate) fn sent<'a>(&'a self, said: &'a Conversation, kind: LayerKind) -> Option<Sent<'a>> {
        let mut newest = self.waiting_ops.iter().rev();
        let waiting = newest.find_map(|op| match op {
            Op::SetLayer(layer) if layer.kind == kind => Some(layer.sent()),
            Op::Remind(Reminder {
                of: Reminded::Layer { kind: of, digest },
                ..
            }) if *of == kind => Some(Sent::Digest(digest)),
            _ => None,
        });
        waiting.or_else(|| said.sent(kind))
    }

    /// The layer as it is written, or will be with the next request. `said` is the conversation that the
    /// attempt works in.
    pub(crate) fn written<'a>(
        &'a self,
        said: &'a Conversation,
        kind: LayerKind,
    ) -> Option<&'a Layer> {
        let mut newest = self.waiting_ops.iter().rev();
        let waiting = newest.find_map(|op| match op {
            Op::SetLayer(layer) if layer.kind == kind => Some(layer),
            _ => None,
        });
        waiting.or_else(|| said.layer(kind))
    }

    /// The changes of session memory that the model was sent, or will be with its next request. `said` is
    /// the conversation that the attempt works in.
    pub(crate) fn memory_mark(&self, said: &Conversation) -> MemoryMark {
        let waiting = self.waiting_ops.iter().rev().find_map(|op| match op {
            Op::SetLayer(layer) if layer.kind == LayerKind::Memory => Some(layer.through),
            _ => None,
        });
        let mark = said.memory_mark(waiting.unwrap_or_else(|| said.memory_written()));
        let waiting = self.waiting_memory();
        waiting.fold(mark, |mark, (since, through)| mark.after(since, through))
    }

    /// The reminders of session memory that no reply has seen.
    pub(super) fn waiting_memory(&self) -> impl Iterator<Item = (Option<MemoryMark>, MemoryMark)> {
        self.waiting_ops.iter().filter_map(|op| match op {
            Op::Remind(Reminder {
                of: Reminded::Memory { since, through },
                ..
            }) => Some((*since, *through)),
            _ => None,
        })
    }

    /// What the model was sent before its reply: the results of the last reply's calls, and then the changes
    /// up to this one.
    fn end_tool_turn(&mut self, ops_through: u64) -> Result<Vec<Op>, IllegalTransition> {
        let mut sent = Vec::new();
        for call in std::mem::take(&mut self.calls) {
            let open = || {
                let what = format_args!("tool turn {}", self.tool_turns);
                IllegalTransition::not_allowed(what, "a call before it is open", "next")
            };
            sent.push(Op::Append(call.result().ok_or_else(open)?));
        }
        while self.ops_through < ops_through {
            let Some(op) = self.waiting_ops.pop_front() else {
                let what = format_args!("change {ops_through} of a conversation");
                return Err(IllegalTransition::missing(what));
            };
            sent.push(op);
            self.ops_through += 1;
        }
        Ok(sent)
    }

    /// Its executor can do nothing that matters without asking the model again. Calls that may be made
    /// again at any time wait with it; a call with side effects, and the end of the step when it waits
    /// for other calls, do not. A call that the owner answers is no work of the executor.
    pub fn needs_tool_turn(&self) -> bool {
        let mut calls = self.calls.iter();
        let matters = |call: &Call| match call.effect {
            Effect::Effectful => true,
            Effect::State => !call.waits_for_owner(),
            Effect::Pure | Effect::Idempotent => false,
        };
        !calls.any(|call| matters(call) && !call.is_finished())
    }

    /// The owner has to answer calls, to find what they would change, or to ask hooks about them or their results,
    /// before anything else of it continues: an executor would only wait.
    pub fn waits_for_owner(&self) -> bool {
        let is_next = |call: &Call| call.is_unready() || call.holds_result();
        let of_owner = |call: &Call| call.waits_for_owner() || is_next(call);
        let of_executor =
            |call: &Call| call.effect != Effect::State && !call.is_finished() && !is_next(call);
        self.calls.iter().any(of_owner) && !self.calls.iter().any(of_executor)
    }

    /// The position of the first call of the last reply with a preview that has not ended. Each may change what the
    /// next one finds: so the calls with previews are previewed and made one after the other, and calls with side
    /// effects wait for those before them.
    fn open_write(&self) -> Option<usize> {
        let is_open = |call: &Call| call.previews && !call.is_finished();
        self.calls.iter().position(is_open)
    }

    /// The call whose preview the owner is to find, of what hooks left of it. It waits for calls with side effects
    /// before it in the reply: they may change the file. And while a person is asked about a write, no executor waits
    /// for such a call, so it would be sent once more.
    pub(crate) fn call_to_preview(&self, attempt: AttemptRef) -> Option<CallRef> {
        let write = self.open_write()?;
        let is_open = |call: &Call| call.effect == Effect::Effectful && !call.is_finished();
        if self.calls.iter().take(write).any(is_open) {
            return None;
        }
        let (name, call) = self.last_calls(attempt).nth(write)?;
        (call.needs_preview() && !call.waits_for_hooks()).then_some(name)
    }

    /// The call at this position waits for a write before it in the reply.
    pub(crate) fn is_behind_write(&self, index: u32) -> bool {
        let call = self.calls.get(index as usize);
        let has_effect = call.is_some_and(|call| call.effect == Effect::Effectful);
        has_effect
            && self
                .open_write()
                .is_some_and(|write| write < index as usize)
    }

    /// The calls that ask a model, and have no answer yet.
    pub(crate) fn questions_of_calls(&self) -> u32 {
        let asking = self.calls.iter().filter(|call| call.asks_model());
        asking.count() as u32
    }

    /// A call with side effects may be on its way.
    pub fn has_intended_call(&self) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| {
            call.effect == Effect::Effectful && matches!(call.status, CallStatus::Intended { .. })
        })
    }

    /// The outcome of a call is not known.
    pub(crate) fn has_call_in_doubt(&self) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| matches!(call.status, CallStatus::InDoubt { .. }))
    }

    /// A call waits for a person's decision, approval or answer, or the next request does not fit. The attempt
    /// does not continue before that, and no executor keeps a slot for it.
    pub fn waits_for_person(&self) -> bool {
        let mut calls = self.calls.iter();
        let asks = calls.any(|call| {
            matches!(
                call.status,
                CallStatus::InDoubt { .. } | CallStatus::Asking { .. }
            )
        });
        asks || self.full.is_some()
    }

    fn open_sub_goal(&mut self, index: u32) -> Result<&mut SubGoal, IllegalTransition> {
        self.sub_goals
            .get_mut(index as usize)
            .filter(|goal| goal.is_open())
            .ok_or_else(|| IllegalTransition::missing(format_args!("open sub-goal {index}")))
    }
}

impl Apply for ReplyReceived {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let mode = session.mode;
        let attempt = session.attempt_mut(self.attempt)?;
        if attempt.tool_turns != self.tool_turn {
            let what = format_args!("tool turn {}", self.tool_turn);
            return Err(IllegalTransition::not_allowed(
                what,
                attempt.tool_turns,
                "next",
            ));
        }
        let sent = attempt.end_tool_turn(self.ops_through)?;
        let calls = self.calls.iter().cloned();
        attempt.calls = calls.map(|asked| Call::requested(asked, mode)).collect();
        attempt.tool_turns += 1;
        attempt.call_turns += u32::from(!self.calls.is_empty());
        attempt.cut_replies = match self.finish {
            FinishReason::Length => attempt.cut_replies + 1,
            _ => 0,
        };
        attempt.compaction_asked = None;
        attempt.last_retry = 0;
        let gate = Gate::of_attempt(Point::PostRequest, self.attempt, self.tool_turn);
        attempt.gate = self.held.then_some(gate);
        attempt.held_usage = self.held.then_some(self.usage);
        let model = session.run_mut(self.attempt.run)?.model.clone();
        let conversation = session.conversation_mut(self.attempt)?;
        for op in sent {
            conversation.apply(op)?;
        }
        conversation.measure(&model, &self.usage, self.estimated_tokens);
        conversation.append(self.message());
        session.estimates.learn(
            &model,
            &self.usage,
            self.estimated_tokens,
            self.window_tokens,
        );
        let step = session.step_mut(self.attempt)?;
        step.usage.add(&self.usage);
        step.tool_turns += 1;
        session.spend(self.attempt.run, &self.usage)?;
        let run = session.run_mut(self.attempt.run)?;
        let has_calls = run.turn.is_some() && !self.calls.is_empty();
        let spent = &mut run.spent;
        spent.tool_turns += 1;
        spent.call_turns += u32::from(has_calls);
        let of_tools = self.calls.iter();
        let of_tools = of_tools.filter(|asked| asked.effect != Effect::State);
        spent.calls = spent.calls.saturating_add(of_tools.count() as u32);
        Ok(())
    }
}

impl Apply for SubGoalAdded {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        if attempt.sub_goals.len() != self.index as usize {
            let what = format_args!("sub-goal {}", self.index);
            return Err(IllegalTransition::missing(what));
        }
        attempt.sub_goals.push(SubGoal {
            text: self.text.clone(),
            summary: None,
            is_dropped: false,
        });
        Ok(())
    }
}

impl Apply for SubGoalFocused {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        attempt.open_sub_goal(self.index)?;
        attempt.focus = Some(self.index);
        Ok(())
    }
}

impl Apply for SubGoalCompleted {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        attempt.open_sub_goal(self.index)?.summary = Some(self.summary.clone());
        attempt.focus = attempt.focus.filter(|focus| *focus != self.index);
        Ok(())
    }
}

impl Apply for SubGoalDropped {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        attempt.open_sub_goal(self.index)?.is_dropped = true;
        attempt.focus = attempt.focus.filter(|focus| *focus != self.index);
        Ok(())
    }
}

impl Apply for ScratchpadWritten {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.attempt_mut(self.attempt)?;
        let run = session.run_mut(self.attempt.run)?;
        if let (Some(turn), Some(frame)) = (&mut run.turn, &self.frame) {
            turn.notes_frame = Some(frame.clone());
        }
        run.ticks += 1;
        let tick = run.ticks;
        let notes = &mut session.step_mut(self.attempt)?.notes;
        if self.replaces {
            notes.clear();
        }
        if !(self.text.is_empty() && notes.is_empty()) {
            let text = self.text.clone();
            notes.push(Note { tick, text });
        }
        Ok(())
    }
}

impl Apply for ToolsFound {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let found = &mut session.attempt_mut(self.attempt)?.found_tools;
        for tool in &self.tools {
            if !found.contains(tool) {
                found.push(tool.clone());
            }
        }
        Ok(())
    }
}
