//! Compactions, and requests that do not fit.

use super::messages::usage;
use super::{attempt, failure, number, seq, text};
use cairn_engine::conversation::{CompactedMessages, CompactionKind};
use cairn_engine::decide::FullRequest;
use cairn_engine::event::{
    CompactionRequested, ContextCompacted, ContextFull, EventKind, SummaryAsked,
};
use cairn_engine::message::Usage;
use cairn_engine::session::FullCause;
use proptest::option;
use proptest::prelude::*;

pub(super) fn kind() -> impl Strategy<Value = CompactionKind> {
    prop_oneof![Just(CompactionKind::History), Just(CompactionKind::Summary)]
}

fn cause() -> impl Strategy<Value = FullCause> {
    prop_oneof![
        Just(FullCause::NothingToCompact),
        Just(FullCause::DoesNotShrink),
        Just(FullCause::NoSummary),
    ]
}

fn messages() -> impl Strategy<Value = CompactedMessages> {
    any::<(bool, u32, u32, bool)>().prop_map(|(behind_mark, after, through, with_compressed)| {
        CompactedMessages {
            behind_mark,
            after,
            through,
            with_compressed,
        }
    })
}

/// The usage of a summary, its provider and model, and how long it took.
fn answered() -> impl Strategy<Value = (Usage, String, String, u64)> {
    (usage(), text(), text(), seq())
}

/// A report without tokens is refused.
pub(crate) fn full_request() -> impl Strategy<Value = FullRequest> {
    (1..=u64::MAX, seq(), seq(), number(), any::<bool>()).prop_map(
        |(tokens, estimated_tokens, window, max_output_tokens, is_refused)| FullRequest {
            tokens,
            estimated_tokens,
            window,
            max_output_tokens,
            is_refused,
        },
    )
}

fn asked() -> impl Strategy<Value = SummaryAsked> {
    let figures = (seq(), number(), any::<bool>());
    (attempt(), messages(), text(), figures).prop_map(
        |(attempt, messages, prompt, (estimate, max_output_tokens, again))| SummaryAsked {
            attempt,
            messages,
            prompt,
            estimate,
            max_output_tokens,
            again,
        },
    )
}

fn compacted() -> impl Strategy<Value = ContextCompacted> {
    let new = (kind(), text());
    let figures = any::<(u64, u32, u64, u64)>();
    (attempt(), text(), messages(), new, answered(), figures).prop_map(
        |(attempt, context, messages, (kind, text), answered, figures)| {
            let (usage, provider, model, duration_ms) = answered;
            let (version, replaced, tokens_before, tokens_after) = figures;
            ContextCompacted {
                attempt,
                context,
                messages,
                kind,
                text,
                usage,
                provider,
                model,
                duration_ms,
                version,
                replaced,
                tokens_before,
                tokens_after,
            }
        },
    )
}

fn full() -> impl Strategy<Value = ContextFull> {
    let of_request = (cause(), seq(), seq(), option::of(failure()));
    (attempt(), of_request, answered()).prop_map(
        |(attempt, (cause, tokens, window, failure), answered)| {
            let (usage, provider, model, duration_ms) = answered;
            ContextFull {
                attempt,
                cause,
                tokens,
                window,
                failure,
                usage,
                provider,
                model,
                duration_ms,
            }
        },
    )
}

pub(super) fn kinds() -> Vec<(&'static str, BoxedStrategy<EventKind>)> {
    let requested = (attempt(), text()).prop_map(|(attempt, keep_in_mind)| CompactionRequested {
        attempt,
        keep_in_mind,
    });
    vec![
        (
            "compaction_requested",
            requested.prop_map(EventKind::from).boxed(),
        ),
        ("summary_asked", asked().prop_map(EventKind::from).boxed()),
        (
            "context_compacted",
            compacted().prop_map(EventKind::from).boxed(),
        ),
        ("context_full", full().prop_map(EventKind::from).boxed()),
    ]
}
