//! The cases of the table, and what a hook answers in each.

use cairn_engine::conversation::Op;
use cairn_engine::hooks::{Changes, Mutation, Point, Verdict, VerdictKind};
use cairn_engine::message::Message;
use cairn_engine::plan::{PlanDraft, StepDraft};
use cairn_hooks::OnError;
use serde_json::{Value, json};

/// What a hook puts in the place of what it is asked about.
pub(super) const CHANGED: &str = "changed by a hook";
/// The title and the description of the only step.
pub(super) const STEP: &str = "Do it";

/// A kind of hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    InProcess,
    Program,
    Host,
}

/// What a hook does with its first question. It lets all later ones pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// It answers so.
    Answers(VerdictKind),
    /// It does not answer within its timeout.
    Late,
    /// Its answer cannot be read.
    Wrong,
    /// It cannot be reached for 30 s.
    Unreachable,
}

impl Behaviour {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Answers(kind) => kind.name(),
            Self::Late => "late",
            Self::Wrong => "wrong",
            Self::Unreachable => "unreachable",
        }
    }
}

/// A run with one hook at one point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) point: Point,
    pub(super) kind: Kind,
    pub(super) behaviour: Behaviour,
    pub(super) on_error: Option<OnError>,
}

/// Every point, with each answer that it takes and with each failure.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for point in Point::ALL.iter().copied() {
        for kind in [Kind::InProcess, Kind::Program, Kind::Host] {
            let case = |behaviour, on_error| Case {
                point,
                kind,
                behaviour,
                on_error,
            };
            let taken = VerdictKind::ALL
                .into_iter()
                .filter(|kind| point.takes(*kind));
            cases.extend(taken.map(|answer| case(Behaviour::Answers(answer), None)));
            for failure in [Behaviour::Late, Behaviour::Wrong, Behaviour::Unreachable] {
                let on_errors = [None, Some(OnError::Block), Some(OnError::Proceed)];
                cases.extend(on_errors.map(|on_error| case(failure, on_error)));
            }
        }
    }
    cases
}

/// The answer of a hook in this process.
pub(super) fn verdict(point: Point, kind: VerdictKind) -> Verdict {
    let text = CHANGED.to_owned();
    match kind {
        VerdictKind::Proceed => Verdict::Proceed,
        VerdictKind::Mutate => Verdict::Mutate(match point.changes() {
            Changes::None => panic!("{point:?} takes no change"),
            Changes::Arguments => Mutation::Arguments(r#"{"changed": true}"#.to_owned()),
            Changes::Output => Mutation::Output(text),
            Changes::Text => Mutation::Text(text),
            Changes::Ops => Mutation::Ops(vec![Op::Append(Message::user(text))]),
            Changes::Plan => Mutation::Plan(plan()),
            Changes::Prompt => Mutation::Prompt(text),
        }),
        VerdictKind::Skip => Verdict::Skip(text),
        VerdictKind::RequireApproval => Verdict::RequireApproval(text),
        VerdictKind::Block => Verdict::Block(text),
    }
}

/// The same plan as before, with another title of its step.
fn plan() -> PlanDraft {
    let step = StepDraft {
        title: CHANGED.to_owned(),
        description: STEP.to_owned(),
        ..StepDraft::default()
    };
    PlanDraft {
        steps: vec![step],
        ..PlanDraft::default()
    }
}

/// The answer of a program, on its standard output.
pub(super) fn printed(point: Point, kind: VerdictKind) -> Value {
    let change = match point.changes() {
        Changes::None => Value::Null,
        Changes::Arguments => json!({"arguments": {"changed": true}}),
        Changes::Output => json!({"output": CHANGED}),
        Changes::Text => json!({"text": CHANGED}),
        // As programs for other agents write it.
        Changes::Ops => {
            let more = json!({"hookEventName": "PreRequest", "additionalContext": CHANGED});
            return match kind {
                VerdictKind::Mutate => json!({"hookSpecificOutput": more}),
                _ => plain(kind),
            };
        }
        Changes::Plan => {
            let step = json!({"title": CHANGED, "description": STEP});
            json!({"plan": {"steps": [step]}})
        }
        Changes::Prompt => json!({"prompt": CHANGED}),
    };
    match (kind, change) {
        (VerdictKind::Mutate, Value::Object(mut answer)) => {
            answer.insert("answer".to_owned(), "mutate".into());
            Value::Object(answer)
        }
        _ => plain(kind),
    }
}

fn plain(kind: VerdictKind) -> Value {
    match kind {
        VerdictKind::Proceed | VerdictKind::Mutate => json!({"answer": "proceed"}),
        VerdictKind::Skip => json!({"answer": "skip", "result": CHANGED}),
        VerdictKind::RequireApproval => json!({"answer": "require_approval", "reason": CHANGED}),
        VerdictKind::Block => json!({"answer": "block", "reason": CHANGED}),
    }
}
