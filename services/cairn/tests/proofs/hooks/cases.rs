//! The cases of the table, and what a hook answers in each.

use super::follows::{ROWS, row_of};
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

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::InProcess, Self::Program, Self::Host];
}

/// What a hook does with its first question, however often that comes. It lets all later ones pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// It answers so, in time.
    Answers(VerdictKind),
    /// It does not answer within its timeout.
    Late,
    /// Its answer cannot be read.
    Wrong,
    /// Its answer is none that the point takes.
    NotTaken,
    /// It cannot be reached for 30 s. A program is not there, and that fails at once.
    Unreachable,
    /// It cannot be reached at first, and answers so when it can.
    ComesBack(VerdictKind),
}

impl Behaviour {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Answers(kind) => kind.name(),
            Self::Late => "late",
            Self::Wrong => "wrong",
            Self::NotTaken => "not taken",
            Self::Unreachable => "unreachable",
            Self::ComesBack(_) => "comes back",
        }
    }

    /// A run with it waits for most of its time.
    pub(super) fn waits(self) -> bool {
        matches!(self, Self::Late | Self::Unreachable | Self::ComesBack(_))
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

impl Case {
    /// The hook is not there when it is asked for the first time.
    pub(super) fn is_away(&self) -> bool {
        matches!(
            self.behaviour,
            Behaviour::Unreachable | Behaviour::ComesBack(_)
        )
    }
}

/// Every point, with each answer that it takes and with each failure; each of these with each `on_error`.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for row in &ROWS {
        let strictest = row.takes.iter().max().expect("an answer");
        let taken = row.takes.iter().map(|kind| Behaviour::Answers(*kind));
        let failures = [
            Behaviour::Late,
            Behaviour::Wrong,
            Behaviour::NotTaken,
            Behaviour::Unreachable,
            Behaviour::ComesBack(*strictest),
        ];
        for behaviour in taken.chain(failures) {
            for kind in Kind::ALL {
                // Nothing waits for a program that is not there.
                if kind == Kind::Program && matches!(behaviour, Behaviour::ComesBack(_)) {
                    continue;
                }
                let on_errors = [None, Some(OnError::Block), Some(OnError::Proceed)];
                cases.extend(on_errors.map(|on_error| Case {
                    point: row.point,
                    kind,
                    behaviour,
                    on_error,
                }));
            }
        }
    }
    cases
}

/// The strictest kind of answer that a point does not take. None if it takes all kinds.
fn kind_not_taken(point: Point) -> Option<VerdictKind> {
    let taken = row_of(point).takes;
    let mut kinds = VerdictKind::ALL.into_iter().rev();
    kinds.find(|kind| !taken.contains(kind))
}

/// An answer that the point does not take: of a kind that it does not take, or with a change of something else.
pub(super) fn verdict_not_taken(point: Point) -> Verdict {
    match kind_not_taken(point) {
        None | Some(VerdictKind::Mutate) => Verdict::Mutate(Mutation::Output(CHANGED.to_owned())),
        Some(kind) => verdict(point, kind),
    }
}

/// The same of a program.
pub(super) fn printed_not_taken(point: Point) -> Value {
    match kind_not_taken(point) {
        None | Some(VerdictKind::Mutate) => json!({"answer": "mutate", "output": CHANGED}),
        Some(kind) => plain(kind),
    }
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
