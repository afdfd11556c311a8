//! A skipped step hands its dependencies on.

use crate::world::notation::plan;
use crate::world::{World, complete, step_context, tool_call};
use cairn_engine::command::{self, Command, LimitOverrides, OnFailure, RevisePlan};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::session::{RunStatus, StepStatus};
use serde_json::json;

impl World {
    fn skip(&mut self, step: u32) {
        self.command(Command::SkipStep(command::SkipStep {
            run: 1,
            step: step.into(),
            reason: String::new(),
        }));
    }

    fn apply(&mut self, text: &str) {
        self.command(Command::RevisePlan(RevisePlan {
            run: 1,
            plan: Some(plan(text)),
            apply: true,
            ..RevisePlan::default()
        }));
    }

    fn context(&self, step: u32) -> String {
        step_context(&self.session, self.attempt(step)).unwrap()
    }
}

fn refused() -> Failure {
    Failure::new(FailureKind::Llm, "Refused", "no")
}

/// Three steps in a row, as either order writes them.
const ROWS: [&str; 2] = ["a b c", "g: a b<a c<b"];

#[test]
fn what_comes_after_a_skipped_step_waits_for_what_came_before_it() {
    for row in ROWS {
        let mut world = World::with_plan(plan(row));
        world.skip(2);
        assert_eq!(
            world.running(),
            [1],
            "{row}: c does not begin before a ends"
        );
        world.complete(1, "a found 12 files");
        assert_eq!(world.running(), [3], "{row}");
        let text = world.context(3);
        assert!(text.contains("2. b skipped\n3. c >> current"), "{text}");
        assert!(text.ends_with("- Step 1: a found 12 files"), "{text}");
        world.complete(3, "c is done");
        assert_eq!(world.run().status, RunStatus::Completed, "{row}");
    }
}

#[test]
fn what_comes_after_a_skipped_step_does_not_begin_if_what_came_before_it_fails() {
    for on_failure in [OnFailure::Stop, OnFailure::GoOn] {
        for row in ROWS {
            let limits = LimitOverrides {
                on_failure: Some(on_failure),
                ..LimitOverrides::default()
            };
            let mut world = World::new();
            world.start_with(plan(row), limits);
            world.skip(2);
            world.fail(1, refused());
            assert_eq!(world.status(3), &StepStatus::Pending, "{row}");
            assert_eq!(world.run().status, RunStatus::Failed, "{row}");
        }
    }
}

#[test]
fn several_skipped_steps_in_a_row_pass_everything_on() {
    // In every order of skipping, also while the first one has ended already.
    for order in [[2, 3, 4], [4, 3, 2], [3, 2, 4], [2, 4, 3]] {
        for skips_before in 0..=3 {
            let mut world = World::with_plan(plan("a b c d e"));
            order[..skips_before]
                .iter()
                .for_each(|&step| world.skip(step));
            assert_eq!(world.running(), [1]);
            world.complete(1, "a is done");
            order[skips_before..]
                .iter()
                .for_each(|&step| world.skip(step));
            assert_eq!(world.running(), [5], "{order:?}, {skips_before}");
            assert!(world.context(5).ends_with("- Step 1: a is done"));
        }
    }
}

#[test]
fn a_skipped_step_joins_what_it_waited_for() {
    let mut world = World::with_plan(plan("g: a b c d<a,b e<d,c f<d"));
    world.skip(4);
    world.complete(1, "of a");
    world.complete(3, "of c");
    assert_eq!(world.running(), [2], "e and f wait for b, too");
    world.complete(2, "of b");
    assert_eq!(world.running(), [5, 6]);
    let of_all = "- Step 1: of a\n- Step 2: of b\n- Step 3: of c";
    assert!(world.context(5).ends_with(of_all));
    assert!(world.context(6).ends_with("- Step 1: of a\n- Step 2: of b"));
}

#[test]
fn a_step_that_was_skipped_while_it_ran_leaves_nothing_behind() {
    let note = |text: &str| tool_call("scratchpad", &json!({ "text": text }));
    let mut world = World::with_plan(plan("a b c"));
    world.reply(1, "", &[note("noted by a"), complete("a is done")]);
    world.reply(2, "", &[note("half of it")]);
    world.skip(2);
    let end = "## Summaries of finished steps\n- Step 1: a is done\n\n## Scratchpad\nnoted by a";
    assert!(world.context(3).ends_with(end), "{}", world.context(3));
}

#[test]
fn a_skipped_step_may_be_left_out_and_put_back_and_nothing_is_repeated() {
    for [with, without] in [
        ["a b c d", "a c d"],
        ["g: a b<a c<b d<c", "g: a c<a d<c"],
        ["g: a b<a c<b d<c", "g: d<c c<a a"],
    ] {
        let mut world = World::with_plan(plan(with));
        world.skip(2);
        world.complete(1, "a is done");
        world.complete(3, "c is done");
        world.apply(without);
        assert_eq!(world.running(), [4], "{without}: d continues");
        world.apply(with);
        assert_eq!(world.fates(4), "1d 2w 3d 4r", "{without}");
        world.complete(4, "d is done");
        assert_eq!(world.run().status, RunStatus::Completed);
    }
}

/// The step after it has not seen its result: done, it counts.
#[test]
fn a_skipped_step_that_is_done_after_all_changes_what_comes_after_it() {
    let mut world = World::with_plan(plan("a b c"));
    world.skip(2);
    world.complete(1, "a is done");
    world.complete(3, "c is done");
    world.command(Command::RedoStep(command::RedoStep {
        run: 1,
        step: 2.into(),
    }));
    assert_eq!(world.fates(3), "1d 4n 5n | 2w 3d");
    world.complete(4, "b is done");
    let end = "- Step 1: a is done\n- Step 2: b is done";
    assert!(world.context(5).ends_with(end));
}

/// A person left it out; only a person takes it in again.
#[test]
fn a_skipped_step_does_not_come_back_when_one_before_it_is_redone() {
    for row in ["a b c d", "g: a b<a c<b d<c"] {
        let mut world = World::with_plan(plan(row));
        world.skip(2);
        world.complete(1, "a is done");
        world.complete(3, "c is done");
        world.command(Command::RedoStep(command::RedoStep {
            run: 1,
            step: 1.into(),
        }));
        assert_eq!(world.fates(4), "5n 6n 7n | 1d 2w 3d 4s", "{row}");
        assert_eq!(world.running(), [5], "{row}");
        world.complete(5, "a is done again");
        assert_eq!(world.running(), [6], "{row}");
        assert!(world.context(6).ends_with("- Step 1: a is done again"));
    }
}

/// The first of them is skipped and the second is completed; they have the same key.
#[test]
fn equal_steps_keep_their_parts() {
    let start = || {
        let mut world = World::with_plan(plan("a x:a c d"));
        world.skip(1);
        world.complete(2, "it is done");
        world.complete(3, "c is done");
        world
    };
    let mut world = start();
    world.apply("a x:a c d~");
    assert_eq!(world.fates(4), "1w 2d 3d 5n | 4s");
    let mut world = start();
    world.apply("a c d");
    assert_eq!(
        world.fates(4),
        "2d 3d 4r | 1w",
        "the result is kept, not the skip"
    );
}

/// The first a is done and c after it; then c is to come after the second, which has the same key and
/// runs. Its result counts, and what comes after it waits for the second as well.
#[test]
fn a_result_behind_an_equal_step_that_runs_lets_nothing_begin() {
    let mut world = World::with_plan(plan("g: a c<a x:a d<c"));
    world.complete(1, "of the first");
    world.complete(2, "of c");
    world.apply("g: a c<x x:a d~<c");
    assert_eq!(world.fates(4), "1d 2d 3r 5n | 4s");
    assert_eq!(world.running(), [3]);
    world.complete(3, "of the second");
    assert_eq!(world.running(), [5]);
    let end = "- Step 2: of c\n- Step 3: of the second";
    assert!(world.context(5).ends_with(end));
}
