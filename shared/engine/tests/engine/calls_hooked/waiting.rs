//! A run waits for a person when its hook is missing or requires an approval.

use super::{answer, guard, outcome, world};
use crate::asking::{deny, open};
use crate::world::{World, kinds};
use cairn_engine::command::Settlement;
use cairn_engine::decide::Input;
use cairn_engine::event::WaitReason;
use cairn_engine::failure::FailureKind;
use cairn_engine::hooks::{Gate, Point, PresentHooks, VerdictKind};
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{PendingId, pending};
use cairn_engine::session::{RunStatus, StepStatus};

const HOOK: RunStatus = RunStatus::Waiting(WaitReason::Hook);

/// A run that waits because its hook is not there any more.
fn missing() -> World {
    let mut world = world(&[Point::PreToolCall]);
    world.decide(Input::HooksMissing {
        run: 1,
        missing: vec!["guard".to_owned()],
        changed: Vec::new(),
    });
    world
}

#[test]
fn a_run_whose_hook_is_missing_waits_for_a_person() {
    let fail = |reason: &str| Settlement::Fail {
        reason: reason.to_owned(),
    };
    let mut world = missing();
    assert_eq!(world.run().status, HOOK);
    assert_eq!(open(&world), ["hook-1"]);
    assert_eq!(pending(&world.session)[0].reason(), WaitReason::Hook);
    let events = world.answer("hook-1", deny("no"));
    assert_eq!(kinds(&events), ["CommandRefused"]);

    let events = world.answer("hook-1", Settlement::Retry);
    assert_eq!(kinds(&events), ["Decided", "RunResumed"]);
    world.decide(Input::HooksMissing {
        run: 1,
        missing: vec!["guard".to_owned()],
        changed: Vec::new(),
    });
    assert_eq!(open(&world), ["hook-1-2"], "another question");
    let events = world.answer("hook-1", Settlement::Retry);
    assert_eq!(kinds(&events), ["CommandRefused"]);
    world.answer("hook-1-2", fail("not without it"));
    assert_eq!(world.run().status, RunStatus::Failed);
    let failure = world.run().end.failure.as_ref().unwrap();
    assert_eq!(
        failure.message,
        "hook 'guard' is not configured any more; not without it"
    );
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_run_takes_the_present_hooks_in_place_of_its_own_and_no_others() {
    let mut world = missing();
    let mut present = guard(&[Point::PostToolCall], &[]);
    present.0[0].pin.digest = "second".to_owned();
    let mut other = present.0[0].clone();
    other.pin.name = "other".to_owned();
    present.0.insert(0, other);
    world.hooks = present.clone();
    let events = world.answer("hook-1", Settlement::Approve);
    assert_eq!(kinds(&events), ["Decided", "HooksPinned", "RunResumed"]);
    assert_eq!(world.run().hooks.pinned, [present.0[1].pin.clone()]);

    let mut world = missing();
    world.hooks = PresentHooks::default();
    world.answer("hook-1", Settlement::Approve);
    assert!(world.run().hooks.pinned.is_empty(), "it is not there");
    assert_eq!(world.run().status, RunStatus::Running);
}

#[test]
fn a_person_lets_a_run_begin_or_ends_it() {
    let waiting = || {
        let mut world = world(&[Point::OnRunStart]);
        let required = outcome(0, VerdictKind::RequireApproval, "it is Friday");
        let gate = Gate::of_run(Point::OnRunStart, 1);
        answer(&mut world, gate, vec![required]);
        assert_eq!(world.run().status, HOOK);
        assert_eq!(open(&world), ["hook-1"]);
        world
    };
    let mut world = waiting();
    let events = world.answer("hook-1", Settlement::Retry);
    assert_eq!(kinds(&events), ["CommandRefused"]);
    world.answer("hook-1", Settlement::Approve);
    assert!(matches!(world.status(1), StepStatus::Running(_)));

    let mut world = waiting();
    world.answer("hook-1", deny("not today"));
    assert_eq!(world.run().status, RunStatus::Failed);
    let failure = world.run().end.failure.as_ref().unwrap();
    let words = "a person did not approve the run, as hook 'guard' requires; not today";
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::HookBlocked, words)
    );
}

#[test]
fn a_person_lets_a_step_begin_or_fails_it() {
    for (settlement, is_begun) in [(Settlement::Approve, true), (deny("no"), false)] {
        let mut world = world(&[Point::OnStepStart]);
        let gate = world.outstanding().into_iter().find_map(|work| match work {
            Work::AskHooks(gate) => Some(gate),
            _ => None,
        });
        let required = outcome(0, VerdictKind::RequireApproval, "");
        answer(&mut world, gate.unwrap(), vec![required]);
        assert_eq!(world.run().status, HOOK);
        world.answer("hook-1", settlement);
        let has_begun = matches!(world.status(1), StepStatus::Running(_));
        assert_eq!(has_begun, is_begun, "{:?}", world.status(1));
        if !is_begun {
            let StepStatus::Failed { failure } = world.status(1) else {
                panic!("{:?}", world.status(1));
            };
            let words = "a person did not approve the step, as hook 'guard' requires; no";
            assert_eq!(failure.message, words);
        }
    }
}

#[test]
fn the_name_of_a_question_of_hooks_is_read_back() {
    for name in ["hook-7", "hook-7-3"] {
        let id = PendingId::parse(name).unwrap();
        assert_eq!((id.to_string().as_str(), id.run()), (name, 7));
        assert_eq!((id.call(), id.attempt()), (None, None));
    }
    for name in ["hook-", "hook-7-1", "hook-7.1", "hook-a"] {
        assert_eq!(PendingId::parse(name), None, "{name}");
    }
}
