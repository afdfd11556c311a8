//! What holds of the views whatever happens.

use crate::play::ops;
use crate::world::World;
use cairn_engine::event::WaitReason;
use cairn_engine::pending::pending;
use cairn_engine::prompt::progress;
use cairn_engine::session::{PlanState, Run};
use cairn_views::tree::{NodeKind, Tree};
use cairn_views::{agent_state, dump, history, report};
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_sequence_of_inputs_the_views_agree_with_the_state(ops in ops()) {
        let mut world = World::new();
        let mut tree = Tree::default();
        let mut seen = 0;
        for (op, count) in ops.iter().zip(1..) {
            world.play(op);
            if count % 16 == 0 || count == ops.len() {
                for (event, seq) in world.journal.iter().zip(1..).skip(seen) {
                    tree.apply(seq, event);
                }
                seen = world.journal.len();
                check_views(&tree, &world);
            }
        }
    }
}

fn check_views(tree: &Tree, world: &World) {
    for run in world.session.runs.whole() {
        let root = tree.run(run.number).unwrap();
        assert_eq!((root.status, root.usage), (run.status, run.spent.usage));
        check_marks(tree, run);
        assert!(dump::text(tree, run.number, world.now).is_some());
        assert!(dump::json(tree, run.number, world.now).is_some());
        let report = report::markdown(&world.journal, run.number).unwrap();
        assert!(report.contains("## Usage"));
        check_waits(&report, world, run);
        let steps = run.plan.as_ref().map_or(0, |plan| plan.steps.len());
        let goals = history::of_run(tree, run.number);
        assert!(goals.lines().filter(|line| line.starts_with('[')).count() == steps);
    }
    let ids: BTreeSet<_> = tree.nodes().iter().map(|node| &node.id).collect();
    assert_eq!(ids.len(), tree.nodes().len(), "node ids are unique");
    let roots = world.session.runs.summaries().flat_map(|run| {
        let root = tree.run(run.number).unwrap();
        root.roots.iter().flat_map(|&root| tree.walk(root))
    });
    assert_eq!(roots.count(), ids.len(), "each node has one place");
    for node in tree.nodes() {
        assert_eq!(node.summary.is_some(), node.kind == NodeKind::Evaluation);
    }
    let value = agent_state::of_session(&world.session);
    assert_eq!(
        value["run"].as_u64().unwrap_or(0),
        world.session.runs.len() as u64
    );
}

/// The report says of every step what its questions say.
fn check_waits(report: &str, world: &World, run: &Run) {
    let Some((_, plan)) = report.split_once("\n## Plan\n\n") else {
        return;
    };
    let open = pending(&world.session);
    let steps = run.plan.iter().flat_map(PlanState::current);
    for ((number, _), line) in steps.zip(plan.lines()) {
        let of_step = open.iter().filter(|open| {
            let attempt = open.id().attempt();
            attempt.is_some_and(|attempt| (attempt.run, attempt.step) == (run.number, number))
        });
        let reasons: Vec<WaitReason> = of_step.map(|open| open.reason()).collect();
        let words = [
            (
                WaitReason::InDoubt,
                "(waits for a decision on a call in doubt)",
            ),
            (WaitReason::Approval, "(waits for an approval)"),
            (WaitReason::Question, "(waits for an answer)"),
            (
                WaitReason::Context,
                "(waits for a decision on a request that does not fit)",
            ),
            (
                WaitReason::Capability,
                "(waits for a capability that no resource has)",
            ),
        ];
        let waits = words.iter().find(|(reason, _)| reasons.contains(reason));
        match waits {
            Some((_, words)) => assert!(line.ends_with(words), "{line}, not {words}"),
            None => assert!(!line.contains("(waits for"), "{line}, but nothing is asked"),
        }
    }
}

/// The tree says of every goal what the to-do list says.
fn check_marks(tree: &Tree, run: &Run) {
    let mut lines = Vec::new();
    for (number, _) in run.plan.iter().flat_map(PlanState::current) {
        let top = tree.step(run.number, number).unwrap();
        for (depth, node) in tree.walk(top) {
            if node.kind == NodeKind::Goal {
                let (indent, mark) = ("  ".repeat(depth), node.status.mark());
                lines.push(format!("{indent}[{mark}] {}", node.description));
            }
        }
    }
    assert_eq!(progress::of_run(run), lines.join("\n"));
}
