//! What must hold of every state.

use crate::world::{World, step_context};
use cairn_engine::command::RunLimits;
use cairn_engine::decide::{Compaction, Facts, Input};
use cairn_engine::event::{self, AttemptRef, Effect, Event, EventKind, WaitReason};
use cairn_engine::key::{StepKey, step_keys};
use cairn_engine::outstanding::Work;
use cairn_engine::pending::pending;
use cairn_engine::plan::{Plan, PlanDraft, numbers_of};
use cairn_engine::session::{
    Ask, Call, CallStatus, PlanState, Run, RunStatus, Session, Step, StepNo, StepStatus,
};
use cairn_engine::transitions::StepPhase;
use std::collections::{BTreeMap, HashMap};

pub(crate) fn check_session(session: &Session) {
    let runs = session.runs.summaries();
    let active = runs.filter(|run| !run.status.is_terminal());
    assert!(active.count() <= 1, "at most one run is active");
    for run in session.runs.whole() {
        if let Some(plan) = &run.plan {
            check_plan(run, plan);
        }
    }
    let again = session.outstanding();
    assert_eq!(again, session.outstanding());
    check_moves(session, &again);
    let Some(run) = session.active_run() else {
        let is_about_plan = |work: &Work| {
            matches!(
                work,
                Work::HandleCommand
                    | Work::Plan {
                        request: Some(_),
                        ..
                    }
            )
        };
        assert!(again.iter().all(is_about_plan), "{again:?}");
        return;
    };
    for (name, _, attempt) in run.running_attempts() {
        // What the owner has to answer waits for calls of others only.
        let open: Vec<_> = attempt
            .last_calls(name)
            .filter(|(_, call)| !call.is_finished())
            .collect();
        let is_asked = |call: &Call| matches!(call.status, CallStatus::Asking { .. });
        let is_stuck = open.iter().all(|(_, call)| {
            call.effect == Effect::State && !is_asked(call) && !call.waits_for_owner()
        });
        assert!(open.is_empty() || !is_stuck, "nobody answers {open:?}");
    }
    match run.status {
        RunStatus::Waiting(_) => check_waiting(run, &again),
        RunStatus::Planning => assert!(again.contains(&Work::Plan {
            run: run.number,
            request: None
        })),
        RunStatus::Paused => check_paused(session, &again),
        _ => assert!(!again.is_empty(), "nothing to do in {run:#?}"),
    }
}

/// Work, a person who is asked, or time moves whatever is to move: an active run that is not paused,
/// and everybody's wish for another plan.
fn check_moves(session: &Session, work: &[Work]) {
    let asked = pending(session).iter().any(|open| !open.is_answered);
    let moves = asked || !work.is_empty();
    let is_paused = |run: &Run| run.status == RunStatus::Paused;
    let active = session.active_run();
    let stands_still = active.is_some_and(|run| !is_paused(run)) && !moves;
    assert!(!stands_still, "nothing moves {active:#?}");
    if !session.needs_owner() {
        check_sleeps(session);
    }
    let changes = session.runs.last().into_iter();
    let mut changes =
        changes.flat_map(|run| run.revisions.requests.keys().map(move |seq| (run, *seq)));
    // The run's own wait for it to go on; those for a plan that is being made, for that plan.
    let is_answered = |(run, request_seq): (&Run, u64)| {
        let by_planner = |work: &Work| matches!(work, Work::Plan { .. });
        work.iter().any(by_planner) || asked || (request_seq == 0 && is_paused(run))
    };
    assert!(changes.all(is_answered), "nobody answers a wish: {work:?}");
}

/// Whoever takes it over finds nothing to begin.
fn check_sleeps(session: &Session) {
    let tools = World::new().tools;
    let facts = Facts {
        rules: cairn_engine::rules::Rules::none(),
        agents: cairn_engine::decide::Agents::none(),
        prompts: cairn_engine::decide::Prompts::built_in(),
        environment: "",
        now: session.updated_at,
        not_after: session.updated_at + 1,
        tools: &tools,
        away: &[],
        offered: &BTreeMap::new(),
        limits: RunLimits::default(),
        result_bytes: cairn_engine::limits::RESULT_BYTES,
        journal_permille: 0,
        compaction: Compaction::default(),
        responses: |_, _| Ok(String::new()),
        pool: cairn_engine::pool::PoolFacts::none(),
        hooks: cairn_engine::hooks::PresentHooks::none(),
        starts: true,
        starts_queued: true,
    };
    let mut taken_over = session.clone();
    let holder_dead = false;
    let events = taken_over.decide(Input::TakenOver { holder_dead }, &facts);
    let begins = |event: &Event| {
        matches!(
            event.kind,
            EventKind::StepStarted(_) | EventKind::CallIntended(_)
        )
    };
    let events = events.unwrap();
    assert!(!events.iter().any(begins), "{events:?}");
}

/// A run waits for a person only while there is a question that nobody has answered, or an answer
/// whose time has not come.
fn check_waiting(run: &Run, work: &[Work]) {
    check_asked(run, work);
    if run.no_questions().is_some() {
        let needs_tool_turn = run
            .running_attempts()
            .filter(|(_, step, attempt)| step.plan.tool.is_none() && attempt.needs_tool_turn());
        let mut asked = needs_tool_turn.map(|(name, ..)| Work::RunStep(name));
        assert!(
            !asked.any(|step| work.contains(&step)),
            "over the budget: {work:?}"
        );
    }
    match run.status {
        RunStatus::Waiting(WaitReason::Budget) => assert!(run.no_questions().is_some()),
        RunStatus::Waiting(WaitReason::Approval) => assert!(asked(run, true) > 0),
        RunStatus::Waiting(WaitReason::Question) => assert!(asked(run, false) > 0),
        RunStatus::Waiting(WaitReason::PlanReview) => {
            let review = run.revisions.review.expect("a proposal to look at");
            assert!(run.revisions.proposals.contains_key(&review), "it is there");
        }
        RunStatus::Waiting(WaitReason::Context) => {
            let mut attempts = run.running_attempts();
            assert!(attempts.any(|(_, _, attempt)| attempt.full.is_some()));
        }
        RunStatus::Waiting(WaitReason::Hook) => assert!(run.hooks.asks.is_some()),
        RunStatus::Waiting(WaitReason::Capability) => {
            let mut attempts = run.running_attempts();
            assert!(attempts.any(|(_, _, attempt)| attempt.lacks_capability()));
        }
        _ => assert!(!doubts(run).is_empty()),
    }
    let answers = doubts(run).iter().filter(|answered| **answered).count();
    let wakes = work.iter().filter(|it| matches!(it, Work::Wake { .. }));
    assert_eq!(
        wakes.count(),
        usize::from(answers > 0 || run.spent.deadline().is_some())
    );
}

/// Nobody keeps a slot for what waits for a person, and no call is sent that nobody allowed.
fn check_asked(run: &Run, work: &[Work]) {
    for (name, _, attempt) in run.running_attempts() {
        let is_asked = |call: &Call| matches!(call.status, CallStatus::Asking { .. });
        if attempt.last_calls(name).any(|(_, call)| is_asked(call)) {
            assert!(!work.contains(&Work::RunStep(name)), "{name:?} is held");
        }
        for (_, call) in attempt.last_calls(name) {
            let needs_approval = matches!(call.call.name.as_str(), "pay" | "peek");
            let was_sent = matches!(call.status, CallStatus::Intended { .. })
                || matches!(&call.status, CallStatus::Finished { reason, .. } if reason != "Denied");
            assert!(
                !(needs_approval && was_sent) || call.approval.is_some(),
                "nobody allowed {call:?}"
            );
        }
    }
}

/// Calls that wait for an approval, or for an answer.
fn asked(run: &Run, is_approval: bool) -> usize {
    let attempts = run.running_attempts();
    let calls = attempts.flat_map(|(name, _, attempt)| attempt.last_calls(name));
    let asked = calls.filter(|(_, call)| match &call.status {
        CallStatus::Asking { ask, .. } => matches!(ask, Ask::Approval { .. }) == is_approval,
        _ => false,
    });
    asked.count()
}

/// One for each call in doubt: whether it has an answer.
fn doubts(run: &Run) -> Vec<bool> {
    let attempts = run.running_attempts();
    let calls = attempts.flat_map(|(name, _, attempt)| attempt.last_calls(name));
    let doubts = calls.filter_map(|(_, call)| match &call.status {
        CallStatus::InDoubt { answer, .. } => Some(answer.is_some()),
        _ => None,
    });
    doubts.collect()
}

fn check_plan(run: &Run, plan: &PlanState) {
    let mut open = 0;
    assert!(run.revisions.own <= run.limits.max_own_revisions);
    for (number, step) in plan.current() {
        let unmet = step.plan.depends_on.iter();
        let unmet = unmet
            .filter(|slot| !plan.steps[slot.index()].is_met())
            .count();
        assert_eq!(step.unmet as usize, unmet);
        let is_pending = step.status == StepStatus::Pending;
        let is_ready = plan.ready.contains(&step.place.unwrap());
        assert_eq!(is_ready, is_pending && unmet == 0);
        let is_running = plan.running.contains(&number.slot().unwrap());
        assert_eq!(is_running, step.running().is_some());
        open += u32::from(is_pending || step.running().is_some());
        assert!(
            !(run.status.is_terminal() && step.running().is_some()),
            "it runs on: {run:#?}"
        );
    }
    assert_eq!(plan.open, open);
    if run.status == RunStatus::Completed {
        assert_eq!(open, 0);
    }
}

/// A paused run begins nothing: only calls with side effects that are on their way go on, and what
/// people answered takes effect.
fn check_paused(session: &Session, work: &[Work]) {
    for work in work {
        match work {
            Work::RunStep(name) => {
                let calls = session.attempt(*name).unwrap().last_calls(*name);
                let mut intended = calls.filter(|(_, call)| {
                    call.effect == Effect::Effectful
                        && matches!(call.status, CallStatus::Intended { .. })
                });
                assert!(intended.next().is_some(), "{work:?}");
            }
            Work::Wake { .. } | Work::HandleCommand => {}
            // What somebody wished, and nothing that it wishes itself.
            Work::Plan {
                request: Some(1..), ..
            } => {}
            other => panic!("{other:?} while paused"),
        }
    }
}

/// A step is kept exactly if its key is that of a step that can be, results first; what is not kept
/// is the next new one, in the order of the plan. Where a skipped step is, the keys of others follow
/// from who takes it: then nothing is new that can be kept.
pub(crate) fn check_reuse(old: Option<&PlanState>, draft: &PlanDraft, numbers: &[StepNo]) {
    let steps = old.map_or(&[][..], |old| &old.steps);
    let numbers = numbers_of(draft, numbers);
    let by_person = |step: &Step| {
        matches!(
            step.status,
            StepStatus::Skipped {
                by_person: true,
                ..
            }
        )
    };
    let keys = step_keys(&Plan::new(draft).unwrap().steps, |place| {
        let kept = numbers[place.index()].find_in(steps);
        kept.is_some_and(by_person)
    });
    let has_skipped = steps.iter().any(by_person);
    let mut wanted: BTreeMap<StepKey, usize> = BTreeMap::new();
    keys.iter()
        .for_each(|key| *wanted.entry(*key).or_default() += 1);
    let mut free = StepNo::all().skip(steps.len());
    let mut kept: HashMap<(StepKey, StepPhase), usize> = HashMap::new();
    for (key, &number) in keys.iter().zip(&numbers) {
        match number.find_in(steps) {
            Some(step) => {
                assert_eq!(step.key, *key);
                *kept.entry((*key, step.status.phase())).or_default() += 1;
            }
            None => assert_eq!(Some(number), free.next()),
        }
    }
    use StepPhase::{Completed, Failed, Pending, Running, Skipped};
    for (key, mut wanted) in wanted {
        let there = |phase: StepPhase| {
            let of_key = steps.iter().filter(|step| step.key == key);
            let of_phase = of_key.filter(|step| step.status.phase() == phase);
            let can_be = of_phase.filter(|step| match phase {
                Pending => step.place.is_some(),
                Skipped => by_person(step),
                _ => true,
            });
            can_be.count()
        };
        let phases = [Completed, Running, Skipped, Pending];
        if has_skipped {
            let all: usize = phases.iter().map(|phase| there(*phase)).sum();
            let found = phases.iter().filter_map(|phase| kept.get(&(key, *phase)));
            assert_eq!(found.sum::<usize>(), all.min(wanted));
        }
        for phase in phases.into_iter().filter(|_| !has_skipped) {
            let expected = there(phase).min(wanted);
            wanted -= expected;
            let found = kept.get(&(key, phase)).copied().unwrap_or(0);
            assert_eq!(found, expected, "{phase:?}");
        }
        assert!(!kept.contains_key(&(key, Failed)));
    }
}

/// What running steps were told, if the event puts another plan into force.
pub(crate) fn reported(session: &Session, event: &Event) -> Vec<(AttemptRef, Option<String>)> {
    let EventKind::PlanApplied(event::PlanApplied { run, .. }) = event.kind else {
        return Vec::new();
    };
    let running = session.run(run).into_iter().flat_map(Run::running_attempts);
    let reported = running.map(|(name, ..)| (name, step_context(session, name)));
    reported.collect()
}
