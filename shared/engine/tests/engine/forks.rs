//! Sessions that begin as copies of others.

use crate::doubt::takes_effect;
use crate::play::{Op, ops};
use crate::turns::{said, submit};
use crate::world::{LEASE, TIME_LIMIT, World, chain, fold, graph, kinds, look, model_step, send};
use crate::world::{tool_call, tool_step};
use cairn_engine::command::{self, Command, LimitOverrides, RevisePlan, Settlement};
use cairn_engine::decide::{Fork, Input};
use cairn_engine::event::Budget;
use cairn_engine::event::{self, CallRef, Effect, EventKind, WaitReason};
use cairn_engine::key::call_key;
use cairn_engine::outstanding::Work;
use cairn_engine::pending::pending;
use cairn_engine::session::{Call, CallStatus, PerBudget, RunStatus, Session};
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

fn fork(continues: bool) -> Input {
    Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        principal: None,
        title: String::new(),
        continues,
    })
}

impl World {
    /// A copy of the session as it is now, which has just become one of its own.
    fn forked(&self, continues: bool) -> Self {
        let mut child = self.clone();
        child.session = fold(&self.journal);
        assert_eq!(child.session, self.session);
        child.decide(fork(continues));
        child
    }

    /// What has happened since the copy was made.
    fn since(&self, parent: &World) -> Vec<String> {
        kinds(&self.journal[parent.journal.len()..])
    }
}

/// Every call of the attempts under way.
fn calls(session: &Session) -> BTreeMap<CallRef, Call> {
    let runs = session.active_run().into_iter();
    let attempts = runs.flat_map(|run| run.running_attempts());
    let calls = attempts.flat_map(|(name, _, attempt)| attempt.last_calls(name));
    calls.map(|(name, call)| (name, call.clone())).collect()
}

fn is_under_way(call: &Call) -> bool {
    call.effect == Effect::Effectful && matches!(call.status, CallStatus::Intended { .. })
}

fn may_be_made_again(call: &Call) -> bool {
    matches!(call.effect, Effect::Pure | Effect::Idempotent)
}

/// What the child's state is by the parent's at the cut, but for the calls that came into doubt.
fn check_child(parent: &Session, child: &Session, continues: bool) {
    assert!(child.commands.is_empty());
    assert_eq!(
        child.handled_through,
        parent.handled_through.max(parent.seq)
    );
    let origin = child.forked_from.as_ref().unwrap();
    assert_eq!(
        (origin.session.as_str(), origin.seq),
        ("parent", parent.seq)
    );
    assert_eq!(
        (&child.memory, &child.title),
        (&parent.memory, &parent.title)
    );
    assert_eq!(child.runs.len(), parent.runs.len());
    for (mine, was) in child.runs.whole().zip(parent.runs.whole()) {
        assert_eq!(
            (mine.spent.usage, mine.spent.tool_turns),
            (was.spent.usage, was.spent.tool_turns)
        );
        assert_eq!(mine.spent.allowed, was.spent.allowed);
        assert_eq!(mine.status.is_terminal(), was.status.is_terminal());
        let own_changes = |seq: &&u64| **seq == 0;
        let kept: Vec<_> = was.revisions.requests.keys().filter(own_changes).collect();
        let is_last = was.number as usize == parent.runs.len();
        assert!(!is_last || mine.revisions.requests.keys().eq(kept));
        let steps = |run: &cairn_engine::session::Run| {
            let plan = run.plan.iter().flat_map(|plan| plan.steps.clone());
            plan.map(|step| (step.key, step.status.phase(), step.attempts, step.notes))
                .collect::<Vec<_>>()
        };
        assert_eq!(steps(mine), steps(was));
    }
    if let (Some(mine), Some(was)) = (child.active_run(), parent.active_run()) {
        let paused = !continues || was.status == RunStatus::Paused;
        assert_eq!(mine.status == RunStatus::Paused, paused, "{:?}", was.status);
    }
    check_calls(parent, child);
}

fn check_calls(parent: &Session, child: &Session) {
    let mine = calls(child);
    for (name, was) in calls(parent) {
        let call = &mine[&name];
        match &was.status {
            CallStatus::Intended {
                not_after,
                time_limit_ms,
                ..
            } if is_under_way(&was) => {
                let settle_after = not_after + time_limit_ms;
                let answer = None;
                let doubtful = CallStatus::InDoubt {
                    settle_after,
                    answer,
                };
                assert_eq!((&call.status, call.doubts), (&doubtful, was.doubts + 1));
            }
            CallStatus::InDoubt { settle_after, .. } => {
                let (settle_after, answer) = (*settle_after, None);
                let doubtful = CallStatus::InDoubt {
                    settle_after,
                    answer,
                };
                assert_eq!((&call.status, call.doubts), (&doubtful, was.doubts));
            }
            // An approval is for one call, and this is another.
            CallStatus::Requested if was.approval.is_some() => {
                assert!(matches!(call.status, CallStatus::Asking { .. }), "{call:?}");
                assert_eq!(call.approval, None);
            }
            // The same call, wherever it is sent from.
            CallStatus::Requested | CallStatus::Intended { .. }
                if may_be_made_again(&was) || was.doubts > 0 || was.waits_for_owner() =>
            {
                assert_eq!(call.origin.as_deref(), Some("parent"));
                assert_eq!(call.status, was.status);
            }
            _ => assert_eq!(*call, was),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_child_is_what_its_parent_was(ops in ops(), continues in any::<bool>()) {
        let mut world = World::new();
        for op in &ops {
            world.play(op);
            let child = world.forked(continues);
            check_child(&world.session, &child.session, continues);
            prop_assert_eq!(&child.folded(), &child.session);
            let grandchild = child.forked(continues);
            prop_assert_eq!(&grandchild.folded(), &grandchild.session);
            prop_assert_eq!(pending(&grandchild.session), pending(&child.session));
        }
    }

    #[test]
    fn no_call_of_the_parent_is_made_again_without_a_word(
        before in ops(), after in ops(), continues in any::<bool>(),
    ) {
        let mut world = World::new();
        before.iter().for_each(|op| world.play(op));
        let mut child = world.forked(continues);
        // Forks of forks are no different.
        let mut open = calls(&world.session);
        open.retain(|_, call| call.effect == Effect::Effectful);
        for (op, count) in after.iter().zip(1..) {
            child.play(op);
            if count == 20 {
                child = child.forked(continues);
            }
        }
        let mut allowed: BTreeSet<CallRef> = BTreeSet::new();
        for event in &child.journal[world.journal.len()..] {
            match &event.kind {
                EventKind::CallSettled(event::CallSettled { call, settlement: Settlement::Retry, .. }) => {
                    allowed.insert(*call);
                }
                EventKind::CallIntended(event::CallIntended { call, .. }) => {
                    let was = open.get(call).map(|call| &call.status);
                    // One that a person had not allowed is made when one allows it here.
                    let is_new = matches!(
                        was,
                        None | Some(CallStatus::Requested | CallStatus::Asking { .. })
                    );
                    prop_assert!(is_new || allowed.contains(call), "{:?} was {:?}", call, was);
                }
                _ => {}
            }
        }
        prop_assert_eq!(&child.folded(), &child.session);
    }
}

#[test]
fn a_run_is_paused_unless_it_is_to_go_on() {
    let world = World::with_plan(chain(vec![model_step("one"), model_step("two")]));
    let child = world.forked(false);
    assert_eq!(child.since(&world), ["ForkedFrom", "RunPaused"]);
    assert!(child.outstanding().is_empty());
    let mut child = world.forked(true);
    assert_eq!(child.since(&world), ["ForkedFrom"]);
    assert_eq!(child.outstanding(), world.outstanding());
    child.complete(1, "done");
    child.complete(2, "done");
    assert_eq!(child.run().status, RunStatus::Completed);
    // One that has ended, or stands still, stays as it is.
    let ended = child.forked(false);
    assert_eq!(ended.since(&child), ["ForkedFrom"]);
    let mut paused = world;
    let reason = String::new();
    paused.command(Command::PauseRun(command::PauseRun { run: 1, reason }));
    assert_eq!(paused.forked(true).since(&paused), ["ForkedFrom"]);
}

#[test]
fn a_call_under_way_is_in_doubt_and_the_others_are_made_again() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let put = tool_call("put", &json!({}));
    world.reply(1, "", &[look(), put, send()]);
    let until = world.now + LEASE + TIME_LIMIT;
    let mut child = world.forked(true);
    assert_eq!(
        child.since(&world),
        ["ForkedFrom", "CallInDoubt", "RunWaiting"]
    );
    assert_eq!(child.run().status, RunStatus::Waiting(WaitReason::InDoubt));
    let open = pending(&child.session);
    assert_eq!(open[0].id().to_string(), "call-1.1.1.0.2");
    assert_eq!(takes_effect(&child), until);
    let output = "it was sent".to_owned();
    child.answer("call-1.1.1.0.2", Settlement::Done { output });
    assert_eq!(child.outstanding(), [Work::Wake { at: until }]);
    child.now = until;
    child.decide(Input::Tick);
    assert_eq!(child.run().status, RunStatus::Running);
    // With the key that it had: it is the same call, and may have been made.
    let name = child.call(1, 0);
    let key = call_key("n", "parent", name);
    assert_eq!(child.session.call_key("n", "child", name), key);
    let grandchild = child.forked(true);
    assert_eq!(grandchild.session.call_key("n", "grandchild", name), key);
    assert_eq!(child.outstanding(), [Work::RunStep(child.attempt(1))]);
    // The parent knows nothing of all that.
    world.result(1, 2, "sent");
    assert!(pending(&world.session).is_empty());
}

#[test]
fn an_answer_that_has_not_taken_effect_is_asked_for_again() {
    let mut world = World::with_plan(graph(vec![tool_step("one", "send"), model_step("two")]));
    let attempt = world.attempt(1);
    world.decide(Input::AttemptLost { attempt });
    world.answer("call-1.1.1.0.0", Settlement::Retry);
    assert!(pending(&world.session)[0].is_answered);
    let mut child = world.forked(true);
    assert!(!pending(&child.session)[0].is_answered);
    child.now += LEASE + TIME_LIMIT;
    assert!(child.decide(Input::Tick).is_empty());
    let events = child.answer("call-1.1.1.0.0", Settlement::Retry);
    assert!(kinds(&events).contains(&"CallIntended".to_owned()));
}

#[test]
fn what_nobody_has_answered_is_not_asked_of_the_child() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.command(Command::RevisePlan(RevisePlan {
        run: 1,
        feedback: "another way".to_owned(),
        ..RevisePlan::default()
    }));
    let reason = String::new();
    world.foreign(EventKind::CommandReceived(event::CommandReceived {
        request_id: "late".to_owned(),
        command: Command::CancelRun(command::CancelRun { run: 1, reason }),
    }));
    let child = world.forked(true);
    assert_eq!(child.since(&world), ["ForkedFrom", "RevisionFailed"]);
    assert_eq!(child.outstanding(), [Work::RunStep(child.attempt(1))]);
    assert_eq!(child.session.handled_through, world.session.seq);
}

/// What stands behind the mark of a context is the copy's own from then on.
#[test]
fn a_copy_in_the_middle_of_a_turn_continues_it() {
    let mut world = World::new();
    submit(&mut world, "hello");
    world.reply(1, "hi", &[]);
    submit(&mut world, "look");
    world.reply(1, "I look.", &[look()]);
    let before = ["user: hello", "assistant: hi"];
    let mut child = world.forked(true);
    assert_eq!(child.session.said(child.attempt(1)).len(), 2);
    child.result(1, 0, "seen");
    child.reply(1, "there", &[]);
    let turn = [
        "user: look",
        "assistant: I look.",
        "tool: seen",
        "assistant: there",
    ];
    assert_eq!(said(&child), [&before[..], &turn[..]].concat());
    assert_eq!(child.folded(), child.session);
    assert_eq!(said(&world), before);
    let mut other = world.forked(false);
    let reason = String::new();
    other.command(Command::CancelRun(command::CancelRun { run: 0, reason }));
    assert_eq!(said(&other), before);
    assert_eq!(other.folded(), other.session);
}

#[test]
fn a_title_of_its_own_is_kept() {
    let mut child = World::new();
    child.decide(Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        principal: None,
        title: "another course".to_owned(),
        continues: false,
    }));
    assert_eq!(child.session.title, "another course");
    child.play(&Op::Remember {
        key: 1,
        clear: false,
    });
    assert_eq!(child.folded(), child.session);
}

/// Somebody said that it may be sent again, and it was not, because the parent is paused: it may have
/// been made there all the same.
#[test]
fn a_call_that_was_in_doubt_keeps_its_key_when_it_is_made_again() {
    let mut world = World::with_plan(chain(vec![tool_step("one", "send")]));
    let attempt = world.attempt(1);
    world.decide(Input::AttemptLost { attempt });
    let reason = String::new();
    world.command(Command::PauseRun(command::PauseRun { run: 1, reason }));
    world.now += LEASE + TIME_LIMIT;
    world.answer("call-1.1.1.0.0", Settlement::Retry);
    let name = world.call(1, 0);
    assert_eq!(
        world.session.call(name).unwrap().status,
        CallStatus::Requested
    );
    let child = world.forked(false);
    let key = call_key("n", "parent", name);
    assert_eq!(child.session.call_key("n", "child", name), key);
}

/// What a person said of the parent's budget is not said of the child's.
#[test]
fn a_run_that_was_to_end_continues_in_a_fork() {
    let mut world = World::new();
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Tokens, 100)]),
        ..LimitOverrides::default()
    };
    world.start_with(
        graph(vec![model_step("one"), tool_step("two", "send")]),
        limits,
    );
    world.reply(1, "hm", &[]);
    let reason = "enough".to_owned();
    world.answer("budget-1", Settlement::Fail { reason });
    assert!(world.run().ending.is_some());
    assert_eq!(world.forked(false).run().ending, None);
}

/// A copy that was cut between the start of a step and its question.
#[test]
fn a_call_that_needs_approval_is_asked_about_wherever_a_copy_was_cut() {
    let world = World::with_plan(chain(vec![tool_step("one", "pay")]));
    let is_start = |event: &event::Event| matches!(event.kind, EventKind::StepStarted(_));
    let cut = world.journal.iter().position(is_start).unwrap() + 1;
    let mut early = world;
    early.journal.truncate(cut);
    early.session = fold(&early.journal);
    let mut child = early.forked(true);
    child.decide(Input::TakenOver { holder_dead: false });
    assert_eq!(
        pending(&child.session)[0].id().to_string(),
        "approval-1.1.1.0.0"
    );
    assert_eq!(child.run().status, RunStatus::Waiting(WaitReason::Approval));
}
