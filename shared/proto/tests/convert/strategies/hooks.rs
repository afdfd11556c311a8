//! Hooks: their questions and answers.

use super::messages::{op, usage};
use super::{attempt, failure, number, plan, seq, text};
use cairn_engine::event::{
    EventKind, HeldPlan, HooksAnswered, HooksAsked, HooksChanged, HooksDropped, HooksPinned,
    RunEnding,
};
use cairn_engine::hooks::{
    Answered, Gate, HookFailure, Mutation, Outcome, PinnedHook, Point, VerdictKind,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

pub(super) fn pinned() -> impl Strategy<Value = PinnedHook> {
    let points = subsequence(Point::ALL.to_vec(), 0..=Point::ALL.len());
    (text(), text(), points, vec(text(), 0..3)).prop_map(|(name, digest, points, tools)| {
        PinnedHook {
            name,
            digest,
            points: points.into_iter().collect(),
            tools,
        }
    })
}

fn gate() -> impl Strategy<Value = Gate> {
    (select(Point::ALL), attempt(), number(), number()).prop_map(|(point, attempt, turn, index)| {
        Gate {
            point,
            attempt,
            turn,
            index,
        }
    })
}

fn verdict() -> impl Strategy<Value = VerdictKind> {
    prop_oneof![
        Just(VerdictKind::Proceed),
        Just(VerdictKind::Mutate),
        Just(VerdictKind::Skip),
        Just(VerdictKind::RequireApproval),
        Just(VerdictKind::Block),
    ]
}

fn hook_failure() -> impl Strategy<Value = HookFailure> {
    prop_oneof![
        Just(HookFailure::Late),
        Just(HookFailure::Wrong),
        Just(HookFailure::Unreachable),
        Just(HookFailure::Missing),
    ]
}

pub(crate) fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        text().prop_map(Mutation::Arguments),
        text().prop_map(Mutation::Output),
        text().prop_map(Mutation::Text),
        vec(op(), 0..3).prop_map(Mutation::Ops),
        plan().prop_map(Mutation::Plan),
        text().prop_map(Mutation::Prompt),
    ]
}

fn answered() -> impl Strategy<Value = Answered> {
    let answer = (verdict(), text(), option::of(hook_failure()), seq());
    (text(), answer).prop_map(|(hook, (verdict, reason, failure, duration_ms))| Answered {
        hook,
        verdict,
        reason,
        failure,
        duration_ms,
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let texts = (text(), text());
    let answers = vec(answered(), 0..3);
    (number(), verdict(), texts, option::of(mutation()), answers).prop_map(
        |(index, verdict, (hook, text), mutation, answers)| Outcome {
            index,
            verdict,
            hook,
            text,
            mutation,
            answers,
        },
    )
}

fn held_plan() -> impl Strategy<Value = HeldPlan> {
    (plan(), option::of(seq()), usage(), seq()).prop_map(|(plan, request, usage, duration_ms)| {
        HeldPlan {
            plan,
            request,
            usage,
            duration_ms,
        }
    })
}

pub(super) fn kinds() -> Vec<(&'static str, BoxedStrategy<EventKind>)> {
    let asked = (gate(), option::of(failure()), option::of(held_plan()));
    let asked = asked.prop_map(|(gate, failure, plan)| HooksAsked {
        gate,
        failure,
        plan: plan.map(Box::new),
    });
    let answered = (gate(), vec(outcome(), 0..3));
    let answered = answered.prop_map(|(gate, outcomes)| HooksAnswered { gate, outcomes });
    let names = || vec(text(), 0..3);
    let changed = (number(), names(), names());
    let changed = changed.prop_map(|(run, missing, changed)| HooksChanged {
        run,
        missing,
        changed,
    });
    let pinned = (number(), vec(pinned(), 0..3));
    let pinned = pinned.prop_map(|(run, hooks)| HooksPinned { run, hooks });
    let ending = (number(), failure(), option::of(usage()));
    let ending = ending.prop_map(|(run, failure, usage)| RunEnding {
        run,
        failure,
        usage,
    });
    vec![
        ("hooks_asked", asked.prop_map(EventKind::from).boxed()),
        ("hooks_answered", answered.prop_map(EventKind::from).boxed()),
        ("hooks_changed", changed.prop_map(EventKind::from).boxed()),
        ("hooks_pinned", pinned.prop_map(EventKind::from).boxed()),
        (
            "hooks_dropped",
            Just(EventKind::from(HooksDropped {})).boxed(),
        ),
        ("run_ending", ending.prop_map(EventKind::from).boxed()),
    ]
}
