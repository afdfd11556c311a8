//! The order of the plan holds whatever is skipped, fails, is revised or is resumed: no step begins
//! before all that it depends on, directly or not, is completed or was skipped; it sees what the
//! completed ones left behind, and nothing else; and a result counts only where a step would see the
//! same again.
//!
//! [`Oracle`] knows nothing of the engine but the events.

mod oracle;

use crate::play::{Change, Op, PlanSeed, changes};
use crate::world::{World, complete, finished, tool_call};
use cairn_engine::command::{Command, LimitOverrides, OnFailure, RevisePlan};
use cairn_engine::decide::Input;
use cairn_engine::plan::{Plan, StepDraft};
use cairn_engine::revise::draft_of;
use cairn_engine::session::Session;
use oracle::Oracle;
use proptest::prelude::*;
use serde_json::json;

#[derive(Debug, Clone)]
enum Move {
    /// A running step ends well, with or without a note of its own.
    Complete {
        attempt: u8,
        notes: bool,
    },
    /// A running step writes a note.
    Note {
        attempt: u8,
        replaces: bool,
    },
    Fail {
        attempt: u8,
    },
    Skip {
        step: u8,
    },
    /// A step of a graph is to come after another one instead.
    Rewire {
        step: u8,
        after: u8,
    },
    /// The owner dies, and the next one begins from a checkpoint.
    Resume,
    Other(Op),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let pick = any::<u8>;
    let one = prop_oneof![
        12 => (pick(), any::<bool>()).prop_map(|(attempt, notes)| Move::Complete { attempt, notes }),
        4 => (pick(), prop::bool::weighted(0.2))
            .prop_map(|(attempt, replaces)| Move::Note { attempt, replaces }),
        1 => pick().prop_map(|attempt| Move::Fail { attempt }),
        6 => pick().prop_map(|step| Move::Skip { step }),
        2 => (pick(), pick()).prop_map(|(step, after)| Move::Rewire { step, after }),
        1 => Just(Move::Resume),
        1 => any::<bool>().prop_map(|holder_dead| Move::Other(Op::TakeOver { holder_dead })),
        5 => changes().prop_map(Move::Other),
    ];
    prop::collection::vec(one, 1..80)
}

/// Plans of model steps and calls that need nobody's approval.
fn plans() -> impl Strategy<Value = PlanSeed> {
    let kind = prop_oneof![Just(0_u8), Just(16), Just(16)];
    let steps = prop::collection::vec((kind, any::<u8>()), 2..8);
    (any::<bool>(), steps).prop_map(|(is_chain, steps)| PlanSeed {
        is_chain,
        steps,
        max_turns: 0,
        by_planner: false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_the_plan_holds_through_skipped_steps(
        seed in plans(),
        has_equals in any::<bool>(),
        max_parallel_steps in 0..4_u32,
        on_failure in prop_oneof![Just(OnFailure::Stop), Just(OnFailure::GoOn)],
        moves in moves(),
    ) {
        let mut world = World::new();
        let limits = LimitOverrides {
            max_parallel_steps,
            on_failure: Some(on_failure),
            ..LimitOverrides::default()
        };
        let mut plan = seed.draft();
        if has_equals {
            let titles = ["step 1", "step 2"].into_iter().cycle();
            plan.steps.iter_mut().zip(titles).for_each(|(step, title)| say(step, title));
        }
        world.start_with(plan, limits);
        let mut oracle = Oracle::default();
        oracle.watch(&world);
        for one in &moves {
            world.make(one);
            oracle.watch(&world);
        }
    }
}

/// Gives a step the words of all that have this title.
fn say(step: &mut StepDraft, title: &str) {
    title.clone_into(&mut step.title);
    if step.tool.is_none() {
        step.description = format!("Do {title}.");
    }
}

impl World {
    fn rewire(&mut self, step: u8, after: u8) {
        let mut draft = draft_of(self.run().plan.as_ref().unwrap());
        let [step, after] = [step, after].map(|seed| usize::from(seed) % draft.steps.len());
        draft.steps[step].depends_on = vec![draft.steps[after].id.clone()];
        if Plan::new(&draft).is_ok() {
            self.command(Command::RevisePlan(RevisePlan {
                run: 1,
                plan: Some(draft),
                apply: true,
                ..RevisePlan::default()
            }));
        }
    }

    fn make(&mut self, one: &Move) {
        let unique = format!("text {}", self.journal.len());
        match one {
            Move::Complete { attempt, notes } => {
                let Some(name) = self.pick_attempt(*attempt) else {
                    return;
                };
                if self.session.step(name).unwrap().plan.tool.is_some() {
                    let call = self.call(name.step, 0);
                    self.report(name.step, vec![finished(call, &unique, "")]);
                    return;
                }
                let note = tool_call("scratchpad", &json!({"text": format!("noted {unique}")}));
                let end = complete(&unique);
                let calls = if *notes { vec![note, end] } else { vec![end] };
                self.reply(name.step, "", &calls);
            }
            Move::Note { attempt, replaces } => {
                let name = self.pick_attempt(*attempt);
                let is_model = |name: &_| self.session.step(*name).unwrap().plan.tool.is_none();
                if let Some(name) = name.filter(is_model) {
                    let mode = if *replaces { "replace" } else { "append" };
                    let note = json!({"text": format!("noted {unique}"), "mode": mode});
                    self.reply(name.step, "", &[tool_call("scratchpad", &note)]);
                }
            }
            Move::Fail { attempt } => self.play(&Op::Fail { attempt: *attempt }),
            Move::Skip { step } => self.play(&Op::Change(Change::Skip { step: *step })),
            Move::Rewire { step, after } => self.rewire(*step, *after),
            Move::Resume => {
                let checkpoint = self.session.to_checkpoint().unwrap();
                self.session = Session::from_checkpoint(&checkpoint).unwrap();
                self.decide(Input::TakenOver { holder_dead: true });
            }
            Move::Other(op) => self.play(op),
        }
    }
}
