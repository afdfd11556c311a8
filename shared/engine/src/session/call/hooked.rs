//! What hooks make of a call and of its result.

use super::{Call, CallStatus};
use crate::event::CallFinished;
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

/// A result as hooks leave it, in place of what the tool gave.
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

    /// The model can read the rest of a long result with this handle: the output still names it. What a hook withheld
    /// is withheld as a whole, whatever its reason names.
    pub fn offers(&self, handle: &str) -> bool {
        !self.is_blocked && self.output.contains(handle)
    }
}

impl Call {
    /// The arguments that are sent to its tool: as hooks left them. It is judged and approved with these.
    pub fn arguments(&self) -> &str {
        self.sent.as_deref().unwrap_or(&self.call.arguments)
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
        self.sent = outcome.sent().map(str::to_owned);
        if outcome.verdict == VerdictKind::RequireApproval {
            self.demand = Some(HookDemand {
                hook: outcome.hook.clone(),
                reason: outcome.text.clone(),
            });
        }
        Ok(())
    }

    /// Takes what hooks answered about its result. Returns the name of the whole result if the text that they left
    /// does not have it: the rest is then not for the model either.
    fn take_answer_to_result(
        &mut self,
        outcome: &Outcome,
    ) -> Result<Option<String>, IllegalTransition> {
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
            return Ok(None);
        };
        if left.is_blocked {
            *is_error = true;
            CallFinished::HOOK_BLOCKED.clone_into(reason);
            self.media.clear();
        }
        let hidden = self.whole.take_if(|whole| !left.offers(whole));
        *output = left.output.into_owned();
        Ok(hidden)
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
        if let Some(handle) = call.take_answer_to_result(outcome)? {
            self.handles.forget(&handle);
        }
        Ok(())
    }
}
