//! The counts, for people.

use super::load::Driven;
use super::verdict::Verdict;
use super::world::Done;
use std::collections::BTreeMap;
use std::time::Duration;

/// Prints what was done, what clients saw, and what there is in the journals.
pub(crate) fn print(
    done: &Done,
    driven: &[Driven],
    verdict: &Verdict,
    disturbed: Duration,
    took: Duration,
) {
    println!(
        "{} kills and {} freezes in {disturbed:.1?}, all over after {took:.1?}",
        done.kills, done.freezes
    );
    for (what, times) in &done.counts {
        println!("{times:>8} {what}");
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (what, times) in driven.iter().flat_map(|it| &it.counts) {
        *counts.entry(what).or_default() += times;
    }
    for (what, times) in counts {
        println!("{times:>8} {what}");
    }
    let kinds = |kind: &str| verdict.kinds.get(kind).copied().unwrap_or(0);
    let all: usize = verdict.kinds.values().sum();
    println!("{all:>8} events in the journals");
    for (kind, what) in [
        ("run_completed", "runs completed"),
        ("run_cancelled", "runs cancelled"),
        ("run_failed", "runs failed because a call was denied"),
        ("run_paused", "pauses"),
        ("plan_applied", "plans in force, the first ones among them"),
        ("approval_requested", "calls that needed approval"),
        ("call_intended", "calls with side effects intended"),
        ("call_in_doubt", "times a call was in doubt"),
        ("attempt_continued", "takeovers of an attempt"),
    ] {
        println!("{:>8} {what}", kinds(kind));
    }
    let overlapping = verdict.overlapping;
    println!(
        "{overlapping:>8} calls, intended before, that began after a pause or an end was told"
    );
    for (longest, when) in verdict.longest.iter().zip(["", " with a call in doubt"]) {
        let (session, seq) = (&longest.session, longest.seq);
        let time = Duration::from_millis(longest.ms);
        println!("{time:.1?} is the longest without an event{when}: {session} before {seq}");
    }
    let count = done.gave_up.len();
    println!("{count} starts given up by the process itself");
    if let Some(last) = done.gave_up.last() {
        println!("  the last one: {last}");
    }
    println!("{} findings", verdict.findings.len());
}
