//! How an attempt starts and ends, and what it writes beside its replies and calls.

use super::{ATTEMPT, Kinds, failure};
use cairn_engine::command::Settlement;
use cairn_engine::event::{self, Effect, EventKind, NotesFrame, ShortageKind, WaitReason};
use cairn_engine::failure::FailureKind;
use cairn_engine::pending::{PendingId, Subject};
use cairn_engine::pool::Missing;

pub(super) fn steps() -> Kinds {
    let failure = failure(FailureKind::LimitExceeded, "max_tool_turns");
    kinds! {
        "step_started.model": StepStarted {
            attempt: ATTEMPT, tool_effect: None, tool_digest: String::new(), tool_previews: false, tool_hooked: false, context: "## Requirement\nCount the files.".into()
        }
        "step_started.tool": StepStarted {
            attempt: ATTEMPT, tool_effect: Some(Effect::Effectful), tool_digest: String::new(), tool_previews: false, tool_hooked: false,
            context: String::new()
        }
        "step_started.previews": StepStarted {
            attempt: ATTEMPT, tool_effect: Some(Effect::Idempotent), tool_digest: "0a1b2c".into(), tool_previews: true, tool_hooked: false,
            context: String::new()
        }
        "attempt_continued": AttemptContinued { attempt: ATTEMPT }
        "step_completed": StepCompleted {
            attempt: ATTEMPT,
            response: "Read twelve files.".into(),
            summary: "12 files, 48 KiB".into(),
        }
        "step_failed": StepFailed { attempt: ATTEMPT, failure: failure }
        "step_skipped": StepSkipped {
            run: 2, step: ATTEMPT.step, reason: "cancelled".into(), by_person: false, hook: String::new()
        }
        "step_skipped.by_person": StepSkipped {
            run: 2, step: ATTEMPT.step, reason: "not needed".into(), by_person: true, hook: String::new()
        }
    }
}

/// Who carries an attempt out, and what the pool lacks for one.
pub(super) fn placing() -> Kinds {
    let missing = Missing {
        capability: "web_search".into(),
        level: 5,
        available: 0,
        total: 1,
        tools: vec!["web_search".into()],
    };
    let none = Missing {
        capability: "gpu".into(),
        ..Missing::default()
    };
    let subject = Subject::Shortage(ATTEMPT);
    kinds! {
        "attempt_placed": AttemptPlaced {
            attempt: ATTEMPT, resources: vec!["executor-research".into(), "gpu-1".into()], waited_ms: 1_200
        }
        "capability_short": CapabilityShort {
            attempt: ATTEMPT, missing: vec![missing.clone()], kind: ShortageKind::Busy
        }
        "capability_short.none": CapabilityShort {
            attempt: ATTEMPT, missing: vec![none, missing], kind: ShortageKind::None
        }
        "capability_found": CapabilityFound { attempt: ATTEMPT }
        "run_waiting.capability": RunWaiting { run: 2, reason: WaitReason::Capability }
        "decided.shortage": Decided {
            pending: PendingId { subject, time: 2 },
            settlement: Settlement::Fail { reason: "no GPU this week".into() },
            settle_after: 0,
            responses: String::new(),
        }
    }
}

pub(super) fn parts() -> Kinds {
    let frame = NotesFrame {
        before: "<notes>".into(),
        after: "</notes>".into(),
    };
    kinds! {
        "sub_goal_added": SubGoalAdded {
            attempt: ATTEMPT, index: 1, text: "Read the matches".into()
        }
        "sub_goal_focused": SubGoalFocused { attempt: ATTEMPT, index: 1 }
        "sub_goal_completed": SubGoalCompleted {
            attempt: ATTEMPT, index: 1, summary: "two of five matter".into()
        }
        "sub_goal_dropped": SubGoalDropped { attempt: ATTEMPT, index: 1 }
        "scratchpad_written": ScratchpadWritten {
            attempt: ATTEMPT, text: "docs/memory.md:14".into(), replaces: false, frame: None
        }
        "scratchpad_written.replaces": ScratchpadWritten {
            attempt: ATTEMPT, text: "docs/memory.md:15".into(), replaces: true, frame: Some(frame)
        }
    }
}
