//! Why an answer is wrong at a point.

use super::{Changes, MAX_ANSWER, MAX_REASON, Mutation, Point, Verdict, VerdictKind};
use crate::conversation::{Conversation, Op};
use crate::limits::MAX_COMPACTION_TEXT;
use crate::message::Role;
use crate::plan::Plan;
use crate::transitions::Applied;
use serde_json::{Map, Value};

/// Why an answer is wrong at a point, in words for the operator; none if it is right. Checks the kind, the kind of the
/// change, the sizes, that arguments are a JSON object, that a plan can be accepted, and that ops are among Append
/// (user), Update, Insert, Remove and Notice and fit the conversation. `next` is the conversation as the next request
/// has it, with the changes of the hooks before; only ops need it.
pub fn fault_of(point: Point, verdict: &Verdict, next: Option<&Conversation>) -> Option<String> {
    let (kind, name) = (verdict.kind(), point.name());
    if !point.takes(kind) {
        let taken = VerdictKind::ALL.into_iter().filter(|it| point.takes(*it));
        let taken: Vec<_> = taken.map(VerdictKind::name).collect();
        let (kind, taken) = (kind.name(), taken.join(", "));
        return Some(format!(
            "{name} does not take the answer {kind}; it takes: {taken}"
        ));
    }
    let (what, bytes, most) = match verdict {
        Verdict::Proceed => return None,
        Verdict::Mutate(mutation) => return fault_of_change(point, mutation, next),
        Verdict::Skip(result) => ("result", result.len(), MAX_ANSWER),
        Verdict::RequireApproval(reason) | Verdict::Block(reason) => {
            ("reason", reason.len(), MAX_REASON)
        }
    };
    too_long(what, bytes, most)
}

fn fault_of_change(
    point: Point,
    mutation: &Mutation,
    next: Option<&Conversation>,
) -> Option<String> {
    let (changes, taken) = (mutation.changes(), point.changes());
    if changes != taken {
        let word = |changes: Changes| format!("{changes:?}").to_lowercase();
        let (name, changes, taken) = (point.name(), word(changes), word(taken));
        return Some(format!(
            "{name} does not change the {changes}; it changes the {taken}"
        ));
    }
    let fault = too_long("change", mutation.bytes(), MAX_ANSWER);
    fault.or_else(|| match mutation {
        Mutation::Arguments(json) => {
            let read = serde_json::from_str::<Map<String, Value>>(json);
            let error = read.err()?;
            Some(format!("the arguments are no JSON object: {error}"))
        }
        Mutation::Plan(plan) => Some(Plan::accept(plan).err()?.located().problem),
        Mutation::Ops(ops) => fault_of_ops(ops, next),
        Mutation::Prompt(prompt) if prompt.trim().is_empty() => {
            Some("the prompt is empty".to_owned())
        }
        Mutation::Prompt(prompt) => too_long("prompt", prompt.len(), MAX_COMPACTION_TEXT),
        Mutation::Output(_) | Mutation::Text(_) => None,
    })
}

fn too_long(what: &str, bytes: usize, most: usize) -> Option<String> {
    (bytes > most).then(|| format!("the {what} has {bytes} bytes; at most {most} are allowed"))
}

fn fault_of_ops(ops: &[Op], next: Option<&Conversation>) -> Option<String> {
    if ops.is_empty() {
        return Some("the list of changes is empty".to_owned());
    }
    let mut next = next.cloned().unwrap_or_default();
    ops.iter().find_map(|op| {
        let is_allowed = match op {
            Op::Append(message) | Op::Insert { message, .. } => message.role == Role::User,
            // That there is such a message is checked below.
            Op::Update { number, message } => {
                let mut behind = next.behind.iter();
                let before = behind.find(|entry| entry.number == *number);
                before.is_none_or(|entry| entry.message.role == message.role)
            }
            Op::Remove { .. } | Op::Notice(_) => true,
            _ => false,
        };
        if !is_allowed {
            let allowed = "a hook appends and inserts messages of the user, replaces messages by such of the same \
                           role, removes messages and adds notices";
            return Some(allowed.to_owned());
        }
        let fault = next.apply(op.clone()).err()?;
        Some(format!("{fault}; a hook changes messages of the turn or the attempt only"))
    })
}

/// Whether ops of a hook fit a conversation as the next request has it.
pub(crate) fn fit(next: &Conversation, ops: &[Op]) -> Applied {
    let mut next = next.clone();
    ops.iter().cloned().try_for_each(|op| next.apply(op))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::plan::{PlanDraft, StepDraft};

    fn arguments(json: &str) -> Verdict {
        Verdict::Mutate(Mutation::Arguments(json.to_owned()))
    }

    fn ops(ops: Vec<Op>) -> Verdict {
        Verdict::Mutate(Mutation::Ops(ops))
    }

    fn a_step() -> StepDraft {
        StepDraft {
            description: "do it".to_owned(),
            ..StepDraft::default()
        }
    }

    fn plan(steps: Vec<StepDraft>) -> Verdict {
        let plan = PlanDraft {
            steps,
            ..PlanDraft::default()
        };
        Verdict::Mutate(Mutation::Plan(plan))
    }

    #[test]
    fn a_wrong_answer_is_named() {
        let mut next = Conversation::default();
        next.append(Message::user("hello"));
        next.append(Message::assistant("hi", Vec::new()));
        let update = |number, message| Op::Update { number, message };
        let user = || Message::user("more");
        let right = [
            (Point::PreToolCall, arguments(r#"{"path":"a"}"#)),
            (Point::OnPlanProposed, plan(vec![a_step()])),
            (
                Point::PreRequest,
                ops(vec![Op::Append(user()), update(1, user())]),
            ),
            (Point::PreRequest, ops(vec![Op::Remove { number: 2 }])),
            (Point::OnRunEnd, Verdict::Proceed),
        ];
        for (point, verdict) in right {
            assert_eq!(fault_of(point, &verdict, Some(&next)), None, "{verdict:?}");
        }
        let long = "x".repeat(MAX_REASON + 1);
        let wrong = [
            (Point::OnError, Verdict::Block(String::new())),
            (Point::OnTurnEnd, Verdict::Skip(String::new())),
            (Point::OnTurnStart, Verdict::Block(long)),
            (Point::PreToolCall, arguments("[1]")),
            (Point::PostToolCall, arguments("{}")),
            (Point::OnPlanProposed, plan(Vec::new())),
            (Point::PreRequest, ops(Vec::new())),
            (Point::PreRequest, ops(vec![Op::Clear])),
            (Point::PreRequest, ops(vec![Op::Remove { number: 9 }])),
            (Point::PreRequest, ops(vec![update(2, user())])),
            (
                Point::PreRequest,
                ops(vec![Op::Remove { number: 1 }, Op::Remove { number: 1 }]),
            ),
            (
                Point::PreRequest,
                ops(vec![Op::Append(Message::assistant("hi", Vec::new()))]),
            ),
            (
                Point::PostToolCall,
                Verdict::Mutate(Mutation::Output("x".repeat(MAX_ANSWER + 1))),
            ),
            (
                Point::OnCompaction,
                Verdict::Mutate(Mutation::Prompt(" ".to_owned())),
            ),
        ];
        for (point, verdict) in wrong {
            let fault = fault_of(point, &verdict, Some(&next));
            assert!(fault.is_some(), "{point:?} takes {verdict:?}");
        }
    }
}
