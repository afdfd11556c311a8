//! Any history with hooks folds to the decided state, and hooks that let all pass change no end.

use super::{block, check, idle, person};
use crate::play::{Op, People, ops, plan_seeds, play_to_the_end};
use crate::world::{World, chain, hooked, kinds, model_step};
use cairn_engine::conversation::Op as Change;
use cairn_engine::hooks::{Changes, Mutation, Outcome, Point, Verdict};
use cairn_engine::message::Message;
use cairn_engine::session::RunStatus;
use proptest::prelude::*;

/// An answer that a point takes.
fn some_verdict(point: Point, seed: u8) -> Verdict {
    let mutation = match point.changes() {
        Changes::None => None,
        Changes::Arguments => Some(Mutation::Arguments(r#"{"path":"other.md"}"#.to_owned())),
        Changes::Output => Some(Mutation::Output("changed".to_owned())),
        Changes::Text => Some(Mutation::Text("changed".to_owned())),
        Changes::Ops => {
            let more = Change::Append(Message::user("more"));
            Some(Mutation::Ops(vec![more]))
        }
        Changes::Plan => Some(Mutation::Plan(chain(vec![model_step("another")]))),
        Changes::Prompt => Some(Mutation::Prompt("sum up".to_owned())),
    };
    let verdict = match seed % 16 {
        0 => block(),
        1 => Verdict::Skip("skipped".to_owned()),
        2 => person(),
        3..6 => mutation.map_or(Verdict::Proceed, Verdict::Mutate),
        _ => Verdict::Proceed,
    };
    match point.takes(verdict.kind()) {
        true => verdict,
        false => Verdict::Proceed,
    }
}

/// Answers one of the open questions.
fn answer_one(world: &mut World, seed: u8) {
    let gates = world.session.open_gates();
    let Some(&gate) = gates.get(usize::from(seed) % gates.len().max(1)) else {
        return;
    };
    let questions = world.session.hook_questions(gate);
    assert!(!questions.is_empty(), "{gate:?}");
    let outcomes = questions.iter().map(|question| {
        let mut outcome = Outcome::new(question.index);
        outcome.take("guard", some_verdict(gate.point, seed / 4), None, 5);
        outcome
    });
    let outcomes = outcomes.collect();
    let events = world.decide(hooked(gate, outcomes));
    assert_eq!(kinds(&events)[0], "HooksAnswered", "{gate:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_with_hooks_folds_to_the_decided_state(
        ops in ops(),
        seeds in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut world = idle(Point::ALL);
        let mut seeds = seeds.iter().copied().cycle();
        for (op, count) in ops.iter().zip(1..) {
            world.play(op);
            for _ in 0..seeds.next().unwrap_or_default() % 4 {
                answer_one(&mut world, seeds.next().unwrap_or_default());
            }
            if count % 8 == 0 {
                check(&world);
            }
        }
        check(&world);
    }

    #[test]
    fn hooks_that_let_all_pass_change_no_end(
        seed in plan_seeds(),
        seeds in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut seed = seed;
        // A tool that is not in the catalogue would fail its step.
        seed.steps.iter_mut().filter(|(kind, _)| kind % 32 == 12).for_each(|(kind, _)| *kind = 0);
        let mut world = idle(Point::ALL);
        world.play(&Op::Start(seed.clone()));
        play_to_the_end(&mut world, &seed, &seeds, People::Agree);
        prop_assert_eq!(world.run().status, RunStatus::Completed);
        check(&world);
    }
}
