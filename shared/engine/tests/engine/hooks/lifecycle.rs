//! The hooks that a run pins and its open questions, through waits, pauses, imports and copies.

use super::{HOOK, block, check, idle, outcome, world};
use crate::turns::{refusal, submit};
use crate::world::{chain, hooked, kinds, model_step, with_goal};
use cairn_engine::agent::AgentDefinition;
use cairn_engine::command::{
    CancelRun, Command, PauseRun, ResumeRun, RevisePlan, Settlement, StartRun,
};
use cairn_engine::decide::{Agents, Fork, Input};
use cairn_engine::hooks::{Gate, Point, PresentHooks, Verdict};
use cairn_engine::session::RunStatus;
use std::collections::BTreeMap;
use std::sync::Arc;

#[test]
fn a_run_waits_for_hooks_that_are_missing() {
    let mut world = world(&[Point::PreRequest]);
    let missing = Input::HooksMissing {
        run: 1,
        missing: vec!["guard".to_owned()],
        changed: Vec::new(),
    };
    let events = world.decide(missing.clone());
    assert_eq!(kinds(&events), ["HooksChanged", "RunWaiting"]);
    assert_eq!(world.run().status, HOOK);
    assert!(world.outstanding().is_empty() && !world.session.needs_owner());
    assert!(world.decide(missing).is_empty());
    check(&world);
    let mut again = world.clone();
    again.answer("hook-1", Settlement::Retry);
    assert_eq!(again.gate().point, Point::PreRequest);
    let mut fails = world.clone();
    let reason = "no".to_owned();
    fails.answer("hook-1", Settlement::Fail { reason });
    assert_eq!(fails.run().status, RunStatus::Failed);
    world.hooks = PresentHooks::default();
    world.answer("hook-1", Settlement::Approve);
    assert!(world.run().hooks.pinned.is_empty());
    assert_eq!(world.gate().point, Point::PreRequest, "it stays open");
}

#[test]
fn what_is_gone_takes_no_answer() {
    let mut world = world(&[Point::PreRequest]);
    let gate = world.gate();
    let reason = String::new();
    world.command(Command::CancelRun(CancelRun { run: 1, reason }));
    assert!(!world.session.is_open(gate) && world.session.open_gates().is_empty());
    let outcomes = vec![outcome(block())];
    assert!(world.decide(hooked(gate, outcomes)).is_empty());
}

#[test]
fn a_pause_asks_nothing() {
    for point in [Point::PreRequest, Point::OnStepStart, Point::OnTurnStart] {
        let mut world = world(&[point]);
        let gate = world.gate();
        world.command(Command::PauseRun(PauseRun::default()));
        assert!(world.session.open_gates().is_empty());
        assert!(world.session.is_open(gate));
        world.command(Command::ResumeRun(ResumeRun::default()));
        assert_eq!(world.gate(), gate);
        check(&world);
    }
}

#[test]
fn an_imported_run_asks_the_hooks_of_its_new_place() {
    let mut world = idle(&[Point::PreRequest, Point::OnRunEnd]);
    submit(&mut world, "hello");
    world.hook(Point::PreRequest, Verdict::Skip("hi".to_owned()));
    submit(&mut world, "once more");
    assert_eq!(world.session.open_gates().len(), 2);
    assert_eq!(kinds(&world.decide(Input::Imported)), ["HooksDropped"]);
    assert!(world.session.open_gates().is_empty());
    assert!(world.run().hooks.pinned.is_empty());
    assert!(world.decide(Input::Imported).is_empty());
    world.hooks.0[0].pin.digest = "other".to_owned();
    let events = world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(kinds(&events)[0], "HooksPinned");
    assert_eq!(world.run().hooks.pinned[0].digest, "other");
    assert_eq!(world.gate().point, Point::PreRequest);
    check(&world);
}

/// The hooks of another place count only if those of this place are the same, or if a person says so.
#[test]
fn an_imported_run_that_opens_again_keeps_its_hooks_or_asks_a_person() {
    let mut world = world(&[Point::PreRequest, Point::OnRunEnd]);
    world.hook(Point::PreRequest, Verdict::Proceed);
    world.complete(1, "done");
    let pinned = world.run().hooks.pinned.clone();
    assert_eq!(kinds(&world.decide(Input::Imported)), ["HooksDropped"]);
    assert!(world.outstanding().is_empty() && !world.session.needs_owner());
    world.decide(Input::TakenOver { holder_dead: true });
    let plan = chain(vec![model_step("a"), model_step("b")]);
    world.command(Command::RevisePlan(RevisePlan {
        plan: Some(plan),
        apply: true,
        ..RevisePlan::default()
    }));
    assert_eq!(world.run().hooks.pinned, pinned);
    let gate = Gate::of_attempt(Point::PreRequest, world.attempt(2), 0);
    assert_eq!(world.gate(), gate);
    world.decide(Input::HooksMissing {
        run: 1,
        missing: Vec::new(),
        changed: vec!["guard".to_owned()],
    });
    assert_eq!(world.run().status, HOOK);
    assert!(world.outstanding().is_empty());
    world.hooks.0[0].pin.digest = "other".to_owned();
    world.answer("hook-1", Settlement::Approve);
    assert_eq!(world.run().hooks.pinned[0].digest, "other");
    assert_eq!(world.gate(), gate);
    check(&world);
}

#[test]
fn an_imported_run_whose_hooks_were_missing_gets_an_owner() {
    let mut world = idle(&[Point::OnRunStart]);
    world.command(with_goal("count"));
    world.decide(Input::HooksMissing {
        run: 1,
        missing: vec!["guard".to_owned()],
        changed: Vec::new(),
    });
    assert_eq!(world.run().status, HOOK);
    assert!(!world.session.needs_owner());
    world.decide(Input::Imported);
    assert!(world.session.needs_owner());
    world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(world.run().status, RunStatus::Planning);
    assert_eq!(world.gate().point, Point::OnRunStart);
    check(&world);
}

#[test]
fn a_copy_has_its_own_questions() {
    let mut world = idle(&[Point::PreRequest, Point::OnRunEnd]);
    submit(&mut world, "hello");
    world.hook(Point::PreRequest, Verdict::Skip("hi".to_owned()));
    submit(&mut world, "once more");
    world.decide(Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        principal: None,
        title: String::new(),
        continues: true,
    }));
    assert_eq!(world.gate().point, Point::PreRequest);
    check(&world);
}

#[test]
fn hooks_are_pinned_by_the_agent() {
    let mut world = idle(&[Point::PreRequest]);
    world.hooks.0[0].agents = Some(vec!["review*".to_owned()]);
    let naming = |hook: &str| AgentDefinition {
        hooks: vec![hook.to_owned()],
        ..AgentDefinition::named("writer")
    };
    let agents = [
        ("", Ok(None)),
        (
            "reviewer",
            Ok(Some(Arc::new(AgentDefinition::named("reviewer")))),
        ),
        ("writer", Ok(Some(Arc::new(naming("guard"))))),
        ("lost", Ok(Some(Arc::new(naming("gone"))))),
    ];
    let agents = agents.map(|(name, agent)| (name.to_owned(), agent));
    world.agents = Agents(BTreeMap::from(agents));
    let start = |agent: &str| {
        Command::StartRun(StartRun {
            plan: Some(chain(vec![model_step("a")])),
            agent: agent.to_owned(),
            ..StartRun::default()
        })
    };
    for (agent, pinned) in [("", 0), ("reviewer", 1), ("writer", 1)] {
        let mut world = world.clone();
        world.command(start(agent));
        assert_eq!(world.run().hooks.pinned.len(), pinned, "{agent}");
    }
    assert_eq!(refusal(&world.command(start("lost"))), "HOOK_NOT_FOUND");
    world.hooks.0.extend(vec![world.hooks.0[0].clone(); 32]);
    assert_eq!(refusal(&world.command(start("reviewer"))), "LIMIT");
}
