//! Compactions in the stream of a turn, and what they add to its usage.

use super::*;
use cairn_proto::event::{Budget, CompactionKind, ContextCompacted, ContextFull, SummaryAsked};

fn spent(input_tokens: u64) -> Option<wire::Usage> {
    Some(wire::Usage {
        input_tokens,
        model_calls: 1,
        ..wire::Usage::default()
    })
}

fn asked(estimate: u64, again: bool) -> Kind {
    Kind::SummaryAsked(SummaryAsked {
        attempt: attempt(),
        estimate,
        again,
        ..SummaryAsked::default()
    })
}

fn compacted(kind: CompactionKind, usage: Option<wire::Usage>) -> Kind {
    Kind::ContextCompacted(ContextCompacted {
        attempt: attempt(),
        kind: kind.into(),
        replaced: 7,
        tokens_before: 900,
        tokens_after: 300,
        usage,
        ..ContextCompacted::default()
    })
}

fn full(usage: Option<wire::Usage>) -> Kind {
    Kind::ContextFull(ContextFull {
        attempt: attempt(),
        usage,
        ..ContextFull::default()
    })
}

fn exhausted(budget: Budget) -> Kind {
    Kind::BudgetExhausted(wire::BudgetExhausted {
        run: RUN,
        budget: budget.into(),
    })
}

fn paused() -> Kind {
    Kind::RunPaused(wire::RunPaused {
        run: RUN,
        ..wire::RunPaused::default()
    })
}

/// Input tokens and model calls of a turn with these events.
fn used(kinds: Vec<Kind>) -> (u64, u32) {
    let mut events = TurnEvents::new(5, 0);
    events.take(started(5, 0));
    let mut seq = 5;
    for kind in kinds {
        seq += 1;
        events.take(event(seq, kind));
    }
    let (end, is_over) = events.take(completed(seq + 1));
    assert!(is_over);
    let end = end.expect("the end").events.remove(0).event;
    match end {
        Some(Event::Complete(complete)) => {
            let usage = complete.usage.expect("the usage");
            (usage.input_tokens, usage.model_calls)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_is_told_of_each_compaction_of_its_turn() {
    let of_another = match compacted(CompactionKind::Summary, None) {
        Kind::ContextCompacted(mut it) => {
            it.attempt = Some(AttemptRef {
                run: RUN + 1,
                ..attempt().expect("an attempt")
            });
            Kind::ContextCompacted(it)
        }
        other => other,
    };
    let messages = vec![
        started(5, 0),
        event(6, compacted(CompactionKind::History, None)),
        event(7, of_another),
        reply(8, 0, "hi", 0),
    ];
    assert_eq!(
        seen(TurnEvents::new(5, 0), messages),
        ["started 3", "compacted 7", "0@0: hi"]
    );
    let mut events = TurnEvents::new(5, 0);
    events.take(started(5, 0));
    let (told, _) = events.take(event(6, compacted(CompactionKind::Summary, spent(1))));
    let expected = pb::TurnCompacted {
        kind: CompactionKind::Summary.into(),
        replaced: 7,
        tokens_before: 900,
        tokens_after: 300,
    };
    let told = told.expect("a response").events.remove(0).event;
    assert_eq!(told, Some(Event::Compacted(expected)));
}

#[test]
fn summaries_count_in_the_usage_of_the_turn_also_if_they_are_lost() {
    use CompactionKind::{History, Summary};
    assert_eq!(used(vec![compacted(Summary, spent(10))]), (10, 1));
    assert_eq!(used(vec![asked(50, false), full(spent(10))]), (10, 1));
    // The answer to the first question was lost.
    let lost = vec![
        asked(50, false),
        asked(60, true),
        compacted(Summary, spent(10)),
    ];
    assert_eq!(used(lost), (60, 2));
    // The first question did not fit, and was not asked.
    let shorter = vec![
        asked(50, false),
        asked(40, false),
        compacted(Summary, spent(10)),
    ];
    assert_eq!(used(shorter), (10, 1));
    let step_completed = Kind::StepCompleted(wire::StepCompleted {
        attempt: attempt(),
        ..wire::StepCompleted::default()
    });
    for end in [
        paused(),
        exhausted(Budget::Time),
        compacted(History, None),
        step_completed,
    ] {
        assert_eq!(
            used(vec![asked(50, false), end.clone()]),
            (50, 1),
            "{end:?}"
        );
        assert_eq!(used(vec![end]), (0, 0));
    }
    assert_eq!(
        used(vec![asked(50, false), exhausted(Budget::Tokens)]),
        (0, 0)
    );
}
