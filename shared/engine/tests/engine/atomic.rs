//! A decision that fails leaves no part of it.

use crate::play::ops;
use crate::world::{World, finished, report_reply, tool_call};
use cairn_engine::decide::Input;
use cairn_engine::event::{AttemptRef, CallFinished, CallRef};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::session::{Run, Session};
use proptest::prelude::*;
use serde_json::json;

/// A report that need not fit: about calls that are there or not, with reasons of all kinds.
#[derive(Debug, Clone)]
struct Seed {
    attempt: u8,
    results: Vec<(u32, u32, u8)>,
    tool_turn: Option<u32>,
    fails: bool,
}

fn seeds() -> impl Strategy<Value = Seed> {
    let result = (0..3_u32, 0..4_u32, 0..4_u8);
    let results = prop::collection::vec(result, 0..4);
    let tool_turn = prop::option::of(0..4_u32);
    (any::<u8>(), results, tool_turn, any::<bool>()).prop_map(
        |(attempt, results, tool_turn, fails)| Seed {
            attempt,
            results,
            tool_turn,
            fails,
        },
    )
}

fn report(world: &World, seed: &Seed) -> Option<Input> {
    let running = world.session.active_run().into_iter();
    let running: Vec<AttemptRef> = running
        .flat_map(Run::running_attempts)
        .map(|(name, ..)| name)
        .collect();
    let attempt = *running.get(usize::from(seed.attempt) % running.len().max(1))?;
    let results = seed.results.iter().map(|&(tool_turn, index, reason)| {
        let call = CallRef {
            attempt,
            tool_turn,
            index,
        };
        let reasons = ["", CallFinished::NOT_SENT, CallFinished::DENIED, "Failed"];
        finished(call, "output", reasons[usize::from(reason)])
    });
    let send = tool_call("send", &json!({}));
    let reply = seed.tool_turn.and_then(|tool_turn| {
        match report_reply(attempt, (tool_turn, 0), "hm", std::slice::from_ref(&send)) {
            Input::Report { reply, .. } => reply,
            _ => None,
        }
    });
    let failure = || Failure::new(FailureKind::Llm, "Refused", "no");
    Some(Input::Report {
        unfinished: Vec::new(),
        attempt,
        results: results.collect(),
        reply,
        failure: seed.fails.then(failure),
        full: None,
        summary: None,
        retry: None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_decision_that_fails_leaves_no_part_of_it(
        ops in ops(),
        seeds in prop::collection::vec(seeds(), 1..8),
    ) {
        let mut world = World::new();
        for op in &ops {
            world.play(op);
            for seed in &seeds {
                let Some(report) = report(&world, seed) else {
                    continue;
                };
                let mut asked = world.clone();
                if asked.try_decide(report).is_err() {
                    prop_assert_eq!(&asked.session, &Session::default());
                }
            }
        }
    }
}
