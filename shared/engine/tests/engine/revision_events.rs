//! Plans in a journal: which of them a run takes.

use crate::illegal::refusal;
use crate::world::{World, chain, graph, model_step, tool_step};
use cairn_engine::event::{self, EventKind};
use cairn_engine::session::{RunStatus, StepNo};

/// Only the next revision opens an ended run again, and only if it says of each step whether it is
/// one that there is.
#[test]
fn a_revision_is_the_next_and_keeps_what_can_be_kept() {
    let mut world = World::with_plan(chain(vec![model_step("one"), tool_step("two", "look")]));
    world.complete(1, "done");
    world.error(2, 0, "ExecutionFailed");
    let revision = |revision, numbers: &[u32], titles: &[&str]| {
        EventKind::PlanApplied(event::PlanApplied {
            run: 1,
            revision,
            plan: chain(titles.iter().map(|title| model_step(title)).collect()),
            numbers: numbers.iter().copied().map(StepNo::new).collect(),
            request: 0,
            usage: Default::default(),
            duration_ms: 0,
            stops: 0,
        })
    };
    let neither = |step: u32| {
        format!("illegal event: step {step} is neither kept as it is nor the next new one")
    };
    let other = "illegal event: the plan has another number of steps".to_owned();
    let cases = [
        (
            revision(1, &[1, 3], &["one", "more"]),
            "illegal transition of revision 1 of run 1: 1 → \"next\"".to_owned(),
        ),
        (
            revision(3, &[1, 3], &["one", "more"]),
            "illegal transition of revision 3 of run 1: 1 → \"next\"".to_owned(),
        ),
        (revision(2, &[], &["more"]), neither(1)),
        (revision(2, &[1], &["more"]), neither(1)),
        (revision(2, &[1, 2], &["one", "more"]), neither(2)),
        (revision(2, &[1, 1], &["one", "more"]), neither(1)),
        (revision(2, &[1, 4], &["one", "more"]), neither(4)),
        (revision(2, &[4, 3], &["one", "more"]), neither(4)),
        (revision(2, &[1], &["one", "more"]), other.clone()),
        (revision(2, &[1, 3, 4], &["one", "more"]), other),
        (
            revision(2, &[0, 3], &["one", "more"]),
            "illegal event: a step has the number 0".to_owned(),
        ),
    ];
    for (kind, expected) in cases {
        assert_eq!(refusal(&world.session, kind), expected);
    }
    world.foreign(revision(2, &[1, 3], &["one", "more"]));
    assert_eq!(world.run().status, RunStatus::Running);
}

#[test]
fn a_revision_does_not_drop_what_is_running() {
    let mut world = World::with_plan(graph(vec![model_step("one"), model_step("two")]));
    world.complete(1, "done");
    let plan = EventKind::PlanApplied(event::PlanApplied {
        run: 1,
        revision: 2,
        plan: graph(vec![model_step("one")]),
        numbers: vec![StepNo::new(1)],
        request: 0,
        usage: Default::default(),
        duration_ms: 0,
        stops: 0,
    });
    assert_eq!(
        refusal(&world.session, plan),
        "illegal event: a step that is running is not in the plan"
    );
}
