//! Changes of a plan and of a run's course, at random.

use super::{Op, PlanSeed, picked};
use crate::world::{World, model_step};
use cairn_engine::command::{self, Command, RevisePlan};
use cairn_engine::decide::Input;
use cairn_engine::event::Event;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Usage;
use cairn_engine::outstanding::Work;
use cairn_engine::plan::{Order, PlanDraft};
use cairn_engine::revise::draft_of;
use cairn_engine::session::StepNo;
use proptest::prelude::*;

/// Something that is done to the plan, or to the course of the run.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A person's plan.
    Edit { edit: Edit, apply: bool },
    /// A person's words for the planner.
    Feedback { apply: bool },
    /// The planner's answer to a wish; none if it fails.
    Answer { edit: Option<Edit> },
    /// A proposal is applied.
    Apply { proposal: u8 },
    /// A step is done again.
    Redo { step: u8 },
    /// A step is left out.
    Skip { step: u8 },
    /// The run is held up.
    Pause,
    /// The run continues.
    Resume,
}

/// Another plan.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    /// Made of the plan in force by these changes, each of a kind and at a step.
    Of(Vec<(u8, u8)>),
    /// A plan of its own, whose steps may have the words of others.
    Other(PlanSeed),
}

pub(crate) fn changes() -> impl Strategy<Value = Op> {
    let pick = any::<u8>;
    let change = prop_oneof![
        6 => (edits(), prop::bool::weighted(0.7))
            .prop_map(|(edit, apply)| Change::Edit { edit, apply }),
        2 => any::<bool>().prop_map(|apply| Change::Feedback { apply }),
        4 => prop::option::weighted(0.8, edits()).prop_map(|edit| Change::Answer { edit }),
        2 => pick().prop_map(|proposal| Change::Apply { proposal }),
        3 => pick().prop_map(|step| Change::Redo { step }),
        3 => pick().prop_map(|step| Change::Skip { step }),
        2 => Just(Change::Pause),
        6 => Just(Change::Resume),
    ];
    change.prop_map(Op::Change)
}

fn edits() -> impl Strategy<Value = Edit> {
    let steps = prop::collection::vec((any::<u8>(), any::<u8>()), 0..4);
    prop_oneof![
        4 => steps.prop_map(Edit::Of),
        1 => super::plan_seeds().prop_map(Edit::Other),
    ]
}

impl Change {
    /// It is asked for by a command.
    pub(crate) fn is_command(&self) -> bool {
        !matches!(self, Self::Answer { .. })
    }
}

impl World {
    pub(super) fn play_change(&mut self, change: &Change) {
        let run = self.session.runs.len() as u32;
        if run == 0 {
            return;
        }
        let command = match change {
            Change::Edit { edit, apply } => Command::RevisePlan(RevisePlan {
                run,
                plan: Some(self.edited(edit)),
                apply: *apply,
                ..RevisePlan::default()
            }),
            Change::Feedback { apply } => Command::RevisePlan(RevisePlan {
                run,
                feedback: "make it better".to_owned(),
                apply: *apply,
                ..RevisePlan::default()
            }),
            Change::Answer { edit } => return self.play_answer(edit.as_ref()),
            Change::Apply { proposal } => {
                let proposal = u32::from(*proposal) % (self.run().revisions.proposed + 2);
                Command::ApplyProposal(command::ApplyProposal { run, proposal })
            }
            Change::Redo { step } => Command::RedoStep(command::RedoStep {
                run,
                step: self.some_step(*step),
            }),
            Change::Skip { step } => Command::SkipStep(command::SkipStep {
                run,
                step: self.some_step(*step),
                reason: String::new(),
            }),
            Change::Pause => Command::PauseRun(command::PauseRun {
                run,
                reason: String::new(),
            }),
            Change::Resume => Command::ResumeRun(command::ResumeRun { run }),
        };
        self.command(command);
    }

    /// The planner answers the wish that is outstanding, or one that is not there.
    fn play_answer(&mut self, edit: Option<&Edit>) {
        let run = self.run();
        let change = run.revisions.requests.keys().next().copied();
        let outcome = match edit {
            Some(edit) => Ok(self.edited(edit)),
            None => Err(Failure::new(FailureKind::Llm, "Refused", "no")),
        };
        self.decide(Input::Planned {
            run: self.run().number,
            request: Some(change.unwrap_or(7)),
            outcome,
            usage: Usage {
                input_tokens: 20,
                ..Usage::default()
            },
            duration_ms: 300,
        });
    }

    fn some_step(&self, seed: u8) -> StepNo {
        let plan = self.run().plan.as_ref();
        let current = plan.into_iter().flat_map(|plan| plan.current());
        let numbers: Vec<StepNo> = current.map(|(number, _)| number).collect();
        picked(&numbers, seed).copied().unwrap_or(StepNo::new(9))
    }

    fn edited(&self, edit: &Edit) -> PlanDraft {
        let (changes, plan) = match (edit, &self.run().plan) {
            (Edit::Other(seed), _) => return seed.draft(),
            (Edit::Of(changes), Some(plan)) => (changes, plan),
            (Edit::Of(_), None) => return crate::world::chain(vec![model_step("step 1")]),
        };
        let mut draft = draft_of(plan);
        for (change, count) in changes.iter().zip(1..) {
            let id = format!("added-{}-{count}", self.journal.len());
            change_of(&mut draft, *change, id);
        }
        draft
    }
}

fn change_of(draft: &mut PlanDraft, (kind, seed): (u8, u8), id: String) {
    let at = usize::from(seed) % draft.steps.len();
    match kind % 9 {
        0 if draft.steps.len() > 1 => {
            let removed = draft.steps.remove(at).id;
            for step in &mut draft.steps {
                step.depends_on.retain(|id| *id != removed);
            }
        }
        1 => {
            let other = usize::from(seed / 16) % draft.steps.len();
            draft.steps.swap(at, other);
        }
        2 => draft.steps[at].description.push('.'),
        3 => draft.steps[at].redo += 1,
        4 => draft.steps[at].depends_on.clear(),
        // The same once more, or something new; both may be put anywhere.
        5 | 6 => {
            let mut added = match kind % 9 {
                5 => draft.steps[at].clone(),
                _ => model_step(&format!("step {}", seed % 9)),
            };
            added.id = id;
            draft.steps.insert(at, added);
        }
        7 => {
            draft.order = match draft.order {
                Order::Chain => Order::Graph,
                Order::Graph => Order::Chain,
            };
            draft
                .steps
                .iter_mut()
                .for_each(|step| step.depends_on.clear());
        }
        // Nothing.
        _ => {}
    }
}

impl World {
    /// The planner's answer to the wish that is outstanding.
    pub(crate) fn revised(&mut self, outcome: Result<PlanDraft, Failure>) -> Vec<Event> {
        let asked = self.outstanding().into_iter().find_map(|work| match work {
            Work::Plan { request, .. } => request,
            _ => None,
        });
        self.answered(asked.expect("nobody wished for another plan"), outcome)
    }

    /// The planner's answer to the request of that number.
    pub(crate) fn answered(
        &mut self,
        request_seq: u64,
        outcome: Result<PlanDraft, Failure>,
    ) -> Vec<Event> {
        self.decide(Input::Planned {
            run: 1,
            request: Some(request_seq),
            outcome,
            usage: Usage {
                input_tokens: 40,
                model_calls: 1,
                ..Usage::default()
            },
            duration_ms: 800,
        })
    }
}
