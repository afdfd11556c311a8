//! Compactions in the views: what summaries cost, and what a step waits for whose request does not fit.

use crate::tree::tree;
use crate::world::{World, chain, look, model_step};
use cairn_engine::conversation::{CompactedMessages, CompactionKind};
use cairn_engine::event::{ContextCompacted, ContextFull, EventKind, StepFailed, SummaryAsked};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Usage;
use cairn_engine::session::{FullCause, StepNo};
use cairn_views::report::markdown;
use cairn_views::tree::Tree;

/// Estimated tokens of a question for a summary.
const ESTIMATE: u64 = 500;

/// A step that has looked twice.
fn looked_twice() -> World {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    for _ in 0..2 {
        world.reply(1, "I look.", &[look()]);
        world.result(1, 0, "seen");
    }
    world
}

/// The first reply and its result.
fn oldest(world: &World) -> CompactedMessages {
    let attempt = world.session.attempt(world.attempt(1)).unwrap();
    CompactedMessages {
        behind_mark: true,
        through: attempt.conversation.behind[1].number,
        ..CompactedMessages::default()
    }
}

fn paid() -> Usage {
    Usage {
        input_tokens: 40,
        output_tokens: 4,
        cost_nano_usd: 9,
        model_calls: 1,
        ..Usage::default()
    }
}

fn ask(world: &mut World, again: bool) {
    let asked = SummaryAsked {
        attempt: world.attempt(1),
        messages: oldest(world),
        prompt: "Sum it up.".to_owned(),
        estimate: ESTIMATE,
        max_output_tokens: 100,
        again,
    };
    world.foreign(EventKind::SummaryAsked(asked));
}

fn compact(world: &mut World) {
    let compacted = ContextCompacted {
        attempt: world.attempt(1),
        context: String::new(),
        messages: oldest(world),
        kind: CompactionKind::Summary,
        text: "Seen once.".to_owned(),
        usage: paid(),
        provider: "test".to_owned(),
        model: "test-model".to_owned(),
        duration_ms: 5,
        version: 0,
        replaced: 2,
        tokens_before: 100,
        tokens_after: 10,
    };
    world.foreign(EventKind::ContextCompacted(compacted));
}

fn fill(world: &mut World) {
    let full = ContextFull {
        attempt: world.attempt(1),
        cause: FullCause::NothingToCompact,
        tokens: 900,
        window: 800,
        failure: None,
        usage: Usage::default(),
        provider: String::new(),
        model: String::new(),
        duration_ms: 0,
    };
    world.foreign(EventKind::ContextFull(full));
}

#[test]
fn a_summary_counts_for_its_step_and_makes_no_node() {
    let mut world = looked_twice();
    let before = tree(&world);
    ask(&mut world, false);
    // The first answer is lost.
    ask(&mut world, true);
    compact(&mut world);
    let after = tree(&world);
    assert_eq!(after.nodes().len(), before.nodes().len());
    let root = after.run(1).unwrap();
    assert_eq!(root.usage, world.run().spent.usage);
    let tokens = |tree: &Tree| {
        let goal = tree.step(1, StepNo::new(1)).unwrap();
        tree.nodes()[goal].tokens.unwrap()
    };
    assert_eq!(tokens(&after), tokens(&before) + ESTIMATE + 44);
    let report = markdown(&world.journal, 1).unwrap();
    assert!(report.contains(", compacted 1 time(s)."), "{report}");
    let step = world.session.step(world.attempt(1)).unwrap();
    let (calls, sent) = (step.usage.model_calls, step.usage.input_tokens);
    let row = format!("| Step 1 | {calls} | {sent} |");
    assert!(report.contains(&row), "{row}: {report}");
}

#[test]
fn a_request_that_does_not_fit_waits_for_a_decision() {
    let mut world = looked_twice();
    let waits = "(waits for a decision on a request that does not fit)";
    let has = |world: &World| markdown(&world.journal, 1).unwrap().contains(waits);
    assert!(!has(&world));
    fill(&mut world);
    assert!(has(&world));
    let failed = StepFailed {
        attempt: world.attempt(1),
        failure: Failure::new(FailureKind::LimitExceeded, "CONTEXT_FULL", "too long"),
    };
    world.foreign(EventKind::StepFailed(failed));
    assert!(!has(&world));
}
