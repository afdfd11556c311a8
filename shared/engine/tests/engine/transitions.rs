//! The tables of transitions, pair by pair.

use cairn_engine::event::WaitReason;
use cairn_engine::session::RunStatus;
use cairn_engine::transitions::{CallPhase, StepPhase, call_may, run_may, step_may};
use std::fmt::Debug;

/// Checks every pair of `all` against the pairs that are `allowed`.
fn check<T: Copy + Debug + PartialEq>(all: &[T], allowed: &[(T, T)], may: fn(T, T) -> bool) {
    for &from in all {
        for &to in all {
            let expected = allowed.contains(&(from, to));
            assert_eq!(may(from, to), expected, "{from:?} → {to:?}");
        }
    }
}

#[test]
fn steps_go_one_way() {
    use StepPhase::{Completed, Failed, Pending, Running, Skipped};
    check(
        &[Pending, Running, Completed, Failed, Skipped],
        &[
            (Pending, Running),
            (Pending, Skipped),
            (Running, Completed),
            (Running, Failed),
            (Running, Skipped),
        ],
        step_may,
    );
}

#[test]
fn a_call_leaves_doubt_only_by_a_result_or_by_being_asked_for_again() {
    use CallPhase::{Asking, Finished, InDoubt, Intended, Requested};
    check(
        &[Requested, Asking, Intended, InDoubt, Finished],
        &[
            (Requested, Intended),
            (Requested, Finished),
            (Requested, Asking),
            (Asking, Requested),
            (Asking, Finished),
            (Intended, Intended),
            (Intended, Requested),
            (Intended, InDoubt),
            (Intended, Finished),
            (Intended, Asking),
            (InDoubt, Requested),
            (InDoubt, Finished),
        ],
        call_may,
    );
}

#[test]
fn a_run_that_ended_continues_only_with_another_plan() {
    use RunStatus::{Cancelled, Completed, Failed, Paused, Planning, Running, Waiting};
    let doubt = Waiting(WaitReason::InDoubt);
    let budget = Waiting(WaitReason::Budget);
    let review = Waiting(WaitReason::PlanReview);
    let approval = Waiting(WaitReason::Approval);
    let question = Waiting(WaitReason::Question);
    let context = Waiting(WaitReason::Context);
    let hook = Waiting(WaitReason::Hook);
    let ends = [Completed, Failed, Cancelled];
    let mut allowed = vec![
        (Planning, Running),
        (Planning, Paused),
        (Planning, Failed),
        (Planning, Cancelled),
        (Running, Paused),
        (Running, Completed),
        (Running, Failed),
        (Running, Cancelled),
        (Paused, Planning),
        (Paused, Running),
        (Paused, Failed),
        (Paused, Cancelled),
    ];
    for waiting in [doubt, budget, review, approval, question, context, hook] {
        allowed.push((Running, waiting));
        allowed.extend([Running, Paused, Failed, Cancelled].map(|to| (waiting, to)));
    }
    // Before there is a plan, too.
    for waiting in [budget, review, hook] {
        allowed.extend([(Planning, waiting), (waiting, Planning)]);
    }
    allowed.extend(ends.map(|end| (end, Running)));
    let all = [
        Planning, Running, doubt, budget, review, approval, question, context, hook, Paused,
        Completed, Failed, Cancelled,
    ];
    check(&all, &allowed, run_may);
    for status in all {
        assert_eq!(status.is_terminal(), ends.contains(&status), "{status:?}");
    }
}
