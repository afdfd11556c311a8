//! Rules, modes and approvals count for a call as hooks leave it.

use super::{
    CHANGED, answer_calls, arguments, calls, guard, idle, is_asked, outcome, start, world,
};
use crate::asking::{deny, open};
use crate::previews::{end, is_sendable, new_file, rules, write};
use crate::world::{kinds, send};
use cairn_engine::command::Settlement;
use cairn_engine::decide::Unfinished;
use cairn_engine::event::{CallFinished, WaitReason};
use cairn_engine::hooks::{Mutation, Outcome, Point, VerdictKind};
use cairn_engine::key::approval_digest;
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{Asked, pending};
use cairn_engine::rules::{Answer, Rules};
use cairn_engine::session::{Mode, RunStatus};

const APPROVAL: RunStatus = RunStatus::Waiting(WaitReason::Approval);

#[test]
fn a_refusal_comes_before_hooks_and_counts_again_after_them() {
    let denying = || rules(&[("write", Some("secret/**"), Answer::Deny)]);
    let mut world = world(&[Point::PreToolCall]);
    world.rules = denying();
    let events = world.reply(1, "", &[write("secret/a")]);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallFinished"]);
    assert!(
        !is_asked(&world, calls(&world)),
        "nothing loosens a refusal"
    );
    world.reply(1, "", &[write("src/a")]);
    let changed = write("secret/a").arguments;
    let events = answer_calls(&mut world, vec![arguments(0, &changed)]);
    assert_eq!(kinds(&events), ["HooksAnswered", "CallFinished"]);
    assert_eq!(end(&events).0, CallFinished::DENIED);
}

#[test]
fn a_refused_call_behind_a_write_is_not_asked_about() {
    let mut world = world(&[Point::PreToolCall]);
    world.rules = rules(&[("send", None, Answer::Deny), ("write", None, Answer::Allow)]);
    let events = world.reply(1, "", &[write("a"), send()]);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallFinished"]);
    assert!(world.made(0).waits_for_hooks() && world.made(1).is_finished());
}

#[test]
fn a_write_is_previewed_and_approved_as_hooks_leave_it() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[write("src/a")]);
    let preview = Work::Preview(world.call(1, 0));
    assert!(!world.outstanding().contains(&preview));
    let changed = write("src/b").arguments;
    let events = answer_calls(&mut world, vec![arguments(0, &changed)]);
    assert_eq!(kinds(&events), ["HooksAnswered"]);
    assert!(world.outstanding().contains(&preview) && !is_sendable(world.made(0)));
    let shown = new_file("src/b");
    let events = world.previewed(0, shown.clone());
    assert_eq!(
        kinds(&events),
        ["CallPreviewed", "ApprovalRequested", "RunWaiting"]
    );
    let Asked::Approval { call, .. } = pending(&world.session).remove(0).asked else {
        panic!("{:?}", pending(&world.session));
    };
    assert_eq!(call.arguments, changed, "what is approved is what is sent");
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    let digest = approval_digest("write", "first", &changed, Some(&shown));
    assert_eq!(world.made(0).approval, Some(digest));
    assert!(is_sendable(world.made(0)));
}

#[test]
fn no_rule_no_mode_and_no_approval_answers_for_the_person_that_a_hook_requires() {
    let mut world = world(&[Point::PreToolCall]);
    world.rules = rules(&[("*", None, Answer::Allow)]);
    world.set_mode(Mode::AcceptEdits);
    world.reply(1, "", &[write("a")]);
    let required = outcome(0, VerdictKind::RequireApproval, "it is Friday");
    answer_calls(&mut world, vec![required.clone()]);
    world.previewed(0, new_file("a"));
    assert_eq!(world.run().status, APPROVAL);
    let demand = world.made(0).demand.as_ref().unwrap();
    assert_eq!(
        (demand.hook.as_str(), demand.reason.as_str()),
        ("guard", "it is Friday")
    );
    let always = |scope: &str| Settlement::ApproveAlways {
        when: Vec::new(),
        scope: scope.to_owned(),
    };
    for scope in ["tool", "folder:.", ""] {
        let events = world.answer("approval-1.1.1.0.0", always(scope));
        assert_eq!(kinds(&events), ["CommandRefused"], "{scope}");
    }
    let events = world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert_eq!(kinds(&events), ["Decided", "RunResumed"]);
    assert!(is_sendable(world.made(0)), "it was approved");
    world.result(1, 0, "written");
    // An approval of further calls, given for one that no hook asked about, does not help either.
    world.rules = Rules::default();
    world.set_mode(Mode::Ask);
    world.reply(1, "", &[write("b")]);
    answer_calls(&mut world, vec![outcome(0, VerdictKind::Proceed, "")]);
    world.previewed(0, new_file("b"));
    world.answer("approval-1.1.1.1.0", always("tool"));
    assert!(is_sendable(world.made(0)));
    world.result(1, 0, "written");
    world.reply(1, "", &[write("c")]);
    answer_calls(&mut world, vec![required]);
    world.previewed(0, new_file("c"));
    assert_eq!(open(&world), ["approval-1.1.1.2.0"]);
}

#[test]
fn a_required_approval_does_not_make_a_write_possible_that_nobody_follows() {
    let mut world = idle(guard(&[Point::PreToolCall], &[]));
    start(&mut world, false);
    world.reply(1, "", &[write("a")]);
    answer_calls(
        &mut world,
        vec![outcome(0, VerdictKind::RequireApproval, "")],
    );
    let events = world.previewed(0, new_file("a"));
    assert_eq!(end(&events).0, CallFinished::DENIED);
}

#[test]
fn a_person_who_denies_what_a_hook_requires_ends_the_call() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[send()]);
    answer_calls(
        &mut world,
        vec![outcome(0, VerdictKind::RequireApproval, "")],
    );
    let events = world.answer("approval-1.1.1.0.0", deny("too dear"));
    assert_eq!(kinds(&events), ["Decided", "CallFinished", "RunResumed"]);
    assert_eq!(end(&events).0, CallFinished::DENIED);
}

#[test]
fn a_call_that_is_judged_anew_keeps_what_hooks_made_of_it() {
    let mut world = world(&[Point::PreToolCall]);
    world.reply(1, "", &[send()]);
    let changed = Outcome {
        mutation: Some(Mutation::Arguments(CHANGED.to_owned())),
        ..outcome(0, VerdictKind::RequireApproval, "")
    };
    answer_calls(&mut world, vec![changed]);
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    let again = Unfinished::Rejudge {
        call: world.call(1, 0),
        resolved: Vec::new(),
    };
    world.unfinished(1, again);
    assert_eq!(world.made(0).arguments(), CHANGED);
    assert!(!world.made(0).waits_for_hooks());
    assert_eq!(open(&world), ["approval-1.1.1.0.0-2"], "it asks anew");
}
