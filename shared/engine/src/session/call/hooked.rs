//! What hooks make of a call and of its result.

use super::{Call, CallStatus};
use crate::event::{CallFinished, ResultHandle};
use crate::failure::Failure;
use crate::hooks::{Gate, Mutation, Outcome, Point, VerdictKind};
use crate::message::ToolCall;
use crate::session::Session;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The hooks that are asked about a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallHooks {
    /// None are, or they have answered.
    #[default]
    None,
    /// They are asked before it is made.
    Before,
    /// They are asked about its result, which the model does not get before they have answered.
    After,
}

/// The approval that a hook requires of a call. Nothing else answers for the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookDemand {
    /// The name of the hook.
    pub hook: String,
    /// Its words, for the person.
    pub reason: String,
}

/// The arguments that hooks put in place of the model's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookedArguments {
    /// As JSON.
    pub arguments: String,
    /// The name of the hook that changed them last.
    pub hook: String,
}

/// A result as hooks leave it, in place of what the tool gave. Its model can read on in none: the whole may have what a
/// hook took out of the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookedResult<'a> {
    /// The output that the model gets.
    pub output: Cow<'a, str>,
    /// A hook withheld the result: the output is an error that says so.
    pub is_blocked: bool,
}

impl<'a> HookedResult<'a> {
    /// After the answers at [`Point::PostToolCall`]. None if the result stays as the tool gave it.
    pub fn of(outcome: &'a Outcome) -> Option<Self> {
        match (outcome.verdict, &outcome.mutation) {
            (VerdictKind::Block, _) => Some(Self {
                output: Failure::blocked(Point::PostToolCall, outcome)
                    .message
                    .into(),
                is_blocked: true,
            }),
            (_, Some(Mutation::Output(output))) => Some(Self {
                output: output.into(),
                is_blocked: false,
            }),
            _ => None,
        }
    }
}

impl Call {
    /// The arguments that are sent to its tool: as hooks left them. It is judged and approved with these.
    pub fn arguments(&self) -> &str {
        match &self.sent {
            Some(sent) => &sent.arguments,
            None => &self.call.arguments,
        }
    }

    /// The hook that a result with this reason is due to: it put arguments in place of the model's, and the tool does
    /// not take them.
    pub fn blamed_hook(&self, reason: &str) -> Option<&str> {
        let is_refused = reason == CallFinished::INVALID_ARGUMENTS;
        let sent = self.sent.as_ref().filter(|_| is_refused);
        sent.map(|sent| sent.hook.as_str())
    }

    /// The call as it is sent to its tool.
    pub fn as_sent(&self) -> ToolCall {
        ToolCall {
            arguments: self.arguments().to_owned(),
            ..self.call.clone()
        }
    }

    /// It has a result, and hooks are asked about that.
    pub fn holds_result(&self) -> bool {
        self.hooks == CallHooks::After
    }

    /// Hooks are asked about it before anything else becomes of it.
    pub fn waits_for_hooks(&self) -> bool {
        self.hooks == CallHooks::Before && self.status == CallStatus::Requested
    }

    /// It waits for hooks, or for its preview. It is neither sent nor asked about before.
    pub fn is_unready(&self) -> bool {
        self.waits_for_hooks() || self.needs_preview()
    }

    /// Takes what hooks answered before it is made. What they answered about a call that has ended since changes
    /// nothing.
    fn take_answer(&mut self, outcome: &Outcome) -> Applied {
        if self.hooks != CallHooks::Before {
            return Err(self.refuse("answered by hooks"));
        }
        if self.status != CallStatus::Requested {
            return Ok(());
        }
        self.hooks = CallHooks::None;
        self.sent = outcome.sent().map(|arguments| HookedArguments {
            arguments: arguments.to_owned(),
            hook: outcome.changed_by().to_owned(),
        });
        if outcome.verdict == VerdictKind::RequireApproval {
            self.demand = Some(HookDemand {
                hook: outcome.hook.clone(),
                reason: outcome.text.clone(),
            });
        }
        Ok(())
    }

    /// Takes what hooks answered about its result. Returns the whole result if they left the beginning as it was: its
    /// model can read on.
    fn take_answer_to_result(
        &mut self,
        outcome: &Outcome,
    ) -> Result<Option<Box<ResultHandle>>, IllegalTransition> {
        if self.hooks != CallHooks::After {
            return Err(self.refuse("answered by hooks"));
        }
        self.hooks = CallHooks::None;
        let CallStatus::Finished {
            output,
            is_error,
            reason,
        } = &mut self.status
        else {
            return Ok(None);
        };
        let Some(left) = HookedResult::of(outcome) else {
            return Ok(self.whole.clone());
        };
        if left.is_blocked {
            *is_error = true;
            CallFinished::HOOK_BLOCKED.clone_into(reason);
            self.media.clear();
        }
        self.whole = None;
        *output = left.output.into_owned();
        Ok(None)
    }
}

impl Session {
    /// Takes what hooks answered about calls before they are made; see [`Point::PreToolCall`].
    pub(in crate::session) fn take_answers_to_calls(
        &mut self,
        gate: Gate,
        outcomes: &[Outcome],
    ) -> Applied {
        for outcome in outcomes {
            self.call_mut(gate.call_at(outcome.index))?
                .take_answer(outcome)?;
        }
        Ok(())
    }

    /// Takes what hooks answered about the result of a call; see [`Point::PostToolCall`].
    pub(in crate::session) fn take_answer_to_result(
        &mut self,
        gate: Gate,
        outcome: &Outcome,
    ) -> Applied {
        let call = self.call_mut(gate.call_at(gate.index))?;
        if let Some(whole) = call.take_answer_to_result(outcome)? {
            self.handles.offer(&whole);
        }
        Ok(())
    }
}
