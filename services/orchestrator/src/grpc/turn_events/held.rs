//! Replies and results that hooks are asked about, until they have answered.

use cairn_engine::hooks::{Mutation, Outcome, VerdictKind};
use cairn_engine::session::HookedResult;
use cairn_proto::event::{CallFinished, HookGate, HookPoint, HooksAnswered, ReplyReceived, Usage};

/// What is held of a turn.
#[derive(Debug, Default)]
pub(super) struct Held {
    reply: Option<Box<ReplyReceived>>,
    results: Vec<CallFinished>,
}

/// What hooks let pass.
#[derive(Debug)]
pub(super) enum Released {
    /// A reply, as they left it.
    Reply(Box<ReplyReceived>),
    /// A result, as they left it.
    Result(Box<CallFinished>),
    /// Of a reply that they blocked, only the usage counts.
    Usage(Usage),
}

impl Held {
    /// Keeps a reply that is held, and returns any other.
    pub(super) fn reply(&mut self, reply: ReplyReceived) -> Option<ReplyReceived> {
        if !reply.held {
            return Some(reply);
        }
        self.reply = Some(Box::new(reply));
        None
    }

    /// Keeps a result that is held, and returns any other.
    pub(super) fn result(&mut self, finished: CallFinished) -> Option<CallFinished> {
        if !finished.held {
            return Some(finished);
        }
        self.results.push(finished);
        None
    }

    /// What the answers of hooks let pass.
    pub(super) fn answered(&mut self, answered: HooksAnswered) -> Option<Released> {
        let gate = answered.gate?;
        let outcome = answered.outcomes.into_iter().next()?;
        let outcome = Outcome::try_from(outcome).ok()?;
        match gate.point() {
            HookPoint::PostRequest => {
                let is_held = |reply: &mut Box<ReplyReceived>| {
                    reply.attempt == gate.attempt && reply.tool_turn == gate.turn
                };
                let reply = self.reply.take_if(is_held)?;
                released_reply(reply, outcome)
            }
            HookPoint::PostToolCall => {
                let mut results = self.results.iter();
                let position = results.position(|finished| is_of(&gate, finished))?;
                let finished = self.results.remove(position);
                let finished = released_result(finished, &outcome);
                Some(Released::Result(Box::new(finished)))
            }
            _ => None,
        }
    }

    /// All results that are held.
    pub(super) fn results(&mut self) -> Vec<CallFinished> {
        std::mem::take(&mut self.results)
    }
}

fn is_of(gate: &HookGate, finished: &CallFinished) -> bool {
    finished.call.is_some_and(|call| {
        (call.attempt, call.tool_turn, call.index) == (gate.attempt, gate.turn, gate.index)
    })
}

fn released_reply(mut reply: Box<ReplyReceived>, outcome: Outcome) -> Option<Released> {
    if outcome.verdict == VerdictKind::Block {
        return reply.usage.take().map(Released::Usage);
    }
    reply.held = false;
    if let Some(Mutation::Text(text)) = outcome.mutation {
        reply.text = text;
    }
    Some(Released::Reply(reply))
}

/// As the model gets it.
fn released_result(finished: CallFinished, outcome: &Outcome) -> CallFinished {
    let Some(left) = HookedResult::of(outcome) else {
        return finished;
    };
    CallFinished {
        whole: None,
        is_error: finished.is_error || left.is_blocked,
        output: left.output.into_owned(),
        ..finished
    }
}
