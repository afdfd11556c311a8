//! Compactions, requests that do not fit, and the commands about both.

use super::turns::received;
use super::{ATTEMPT, Kinds, USAGE, failure};
use cairn_engine::command::{
    ChangeContext, CompactContext, ContextOp, CreateContext, Settlement, SubmitTurn, TurnOptions,
    WhenFull,
};
use cairn_engine::conversation::{CompactedMessages, CompactionKind};
use cairn_engine::event::{self, EventKind, WaitReason};
use cairn_engine::failure::FailureKind;
use cairn_engine::message::Usage;
use cairn_engine::pending::{PendingId, Subject};
use cairn_engine::session::FullCause;

const BEFORE_MARK: CompactedMessages = CompactedMessages {
    behind_mark: false,
    after: 0,
    through: 14,
    with_compressed: true,
};
const BEHIND_MARK: CompactedMessages = CompactedMessages {
    behind_mark: true,
    after: 15,
    through: 21,
    with_compressed: false,
};

pub(super) fn events() -> Kinds {
    kinds! {
        "compaction_requested": CompactionRequested {
            attempt: ATTEMPT, keep_in_mind: "the names of the files".into()
        }
        "summary_asked": SummaryAsked {
            attempt: ATTEMPT,
            messages: BEFORE_MARK,
            prompt: "Sum up what was said.".into(),
            estimate: 5_200,
            max_output_tokens: 1_000,
            again: false,
        }
        "summary_asked.again": SummaryAsked {
            attempt: ATTEMPT,
            messages: BEHIND_MARK,
            prompt: "Sum up what was said.".into(),
            estimate: 5_200,
            max_output_tokens: 1_000,
            again: true,
        }
        "context_compacted": ContextCompacted {
            attempt: ATTEMPT,
            context: "draft".into(),
            messages: BEFORE_MARK,
            kind: CompactionKind::Summary,
            text: "Summary of earlier messages:\n5 of 12 files mention Redis.".into(),
            usage: USAGE,
            provider: "anthropic".into(),
            model: "offline-1".into(),
            duration_ms: 812,
            version: 8,
            replaced: 12,
            tokens_before: 5_900,
            tokens_after: 1_400,
        }
        "context_compacted.history": ContextCompacted {
            attempt: ATTEMPT,
            context: String::new(),
            messages: BEHIND_MARK,
            kind: CompactionKind::History,
            text: "- read_file: ok".into(),
            usage: Usage::default(),
            provider: String::new(),
            model: String::new(),
            duration_ms: 0,
            version: 0,
            replaced: 6,
            tokens_before: 5_900,
            tokens_after: 3_100,
        }
    }
}

pub(super) fn questions() -> Kinds {
    kinds! {
        "context_full": ContextFull {
            attempt: ATTEMPT,
            cause: FullCause::NothingToCompact,
            tokens: 9_000,
            window: 8_000,
            failure: None,
            usage: Usage::default(),
            provider: String::new(),
            model: String::new(),
            duration_ms: 0,
        }
        "context_full.no_summary": ContextFull {
            attempt: ATTEMPT,
            cause: FullCause::NoSummary,
            tokens: 9_000,
            window: 8_000,
            failure: Some(failure(FailureKind::Llm, "RateLimit")),
            usage: USAGE,
            provider: "anthropic".into(),
            model: "offline-1".into(),
            duration_ms: 812,
        }
        "run_waiting.context": RunWaiting { run: 2, reason: WaitReason::Context }
        "decided.context": Decided {
            pending: PendingId { subject: Subject::Context(ATTEMPT), time: 2 },
            settlement: Settlement::Answer { text: "Keep the names of the files.".into() },
            settle_after: 0,
            responses: String::new(),
        }
    }
}

pub(super) fn commands() -> Kinds {
    let compact = CompactContext {
        context: "draft".into(),
        expected_version: Some(6),
        keep: 4,
        prompt: Some("Sum up what was said.".into()),
        keep_in_mind: "the names of the files".into(),
        model: "offline".into(),
        trace_parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
    };
    let settings = [Some(WhenFull::Refuse), Some(WhenFull::Compact), None];
    let change = ChangeContext {
        ops: settings.map(ContextOp::SetWhenFull).into(),
        ..ChangeContext::default()
    };
    let create = CreateContext {
        name: "draft".into(),
        when_full: Some(WhenFull::Compact),
        ..CreateContext::default()
    };
    let submit = SubmitTurn {
        options: TurnOptions {
            when_full: Some(WhenFull::Compact),
            ..TurnOptions::default()
        },
        ..SubmitTurn::default()
    };
    let default = SubmitTurn::default();
    vec![
        (
            "command_received.compact_context",
            received("q-41", compact),
        ),
        (
            "command_received.change_context.when_full",
            received("q-42", change),
        ),
        (
            "command_received.create_context.when_full",
            received("q-43", create),
        ),
        (
            "command_received.submit_turn.when_full",
            received("q-44", submit),
        ),
        (
            "command_received.submit_turn.default",
            received("q-45", default),
        ),
    ]
}
