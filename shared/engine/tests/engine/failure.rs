//! Which failures may pass when the same thing is tried again.

use FailureKind::{Config, HookBlocked, LimitExceeded, Llm, Memory, Other, PlanParse, Tool};
use cairn_engine::failure::{Failure, FailureKind};

const KINDS: [FailureKind; 8] = [
    Llm,
    Tool,
    Memory,
    PlanParse,
    HookBlocked,
    LimitExceeded,
    Config,
    Other,
];

const CONFIG: [(&str, bool); 6] = [
    ("missing", false),
    ("invalid", false),
    ("unreadable", false),
    ("unknown_model", false),
    ("no_price", false),
    ("http_client", false),
];

/// The reasons that failures of a kind have, each with whether it is recoverable. A new kind has
/// no line here, and this no longer compiles.
#[allow(clippy::too_many_lines, reason = "one table")]
fn reasons(kind: FailureKind) -> &'static [(&'static str, bool)] {
    match kind {
        Llm => &[
            ("RateLimit", true),
            ("Timeout", true),
            ("Stream", true),
            ("Server", true),
            ("ConnectionRefused", true),
            ("Auth", false),
            ("ContextLength", false),
            ("BadRequest", false),
            ("BadAnswer", false),
            ("EmptyReply", false),
            ("refused", false),
            ("reply_cut", false),
        ],
        Tool => &[
            ("ExecutionFailed", true),
            ("NotFound", false),
            ("InvalidArguments", false),
            ("Denied", false),
            ("NotSent", false),
            ("Timeout", false),
            ("TooLarge", false),
            ("Decided", false),
        ],
        Memory => &[("NotFound", true), ("Storage", false)],
        PlanParse => &[
            ("BadJson", false),
            ("MissingSteps", false),
            ("WrongType", false),
            ("EmptyField", false),
            ("UnknownField", false),
            ("UnknownOrder", false),
            ("MissingArguments", false),
            ("ArgumentsWithoutTool", false),
            ("NoSteps", false),
            ("TooManySteps", false),
            ("MissingDescription", false),
            ("DuplicateId", false),
            ("UnknownDependency", false),
            ("CircularDependency", false),
            ("DependsOnInChain", false),
            ("BadArguments", false),
            ("InvalidPlan", false),
            ("BadPlan", false),
        ],
        HookBlocked => &[("Blocked", false)],
        LimitExceeded => &[
            ("max_tool_turns", false),
            ("max_turns", false),
            ("reply_too_large", false),
        ],
        Config => &CONFIG,
        Other => &[("ExecutorLost", false), ("BadAnswer", false)],
    }
}

#[test]
fn the_table_of_recoverable_failures_holds_for_every_kind_with_every_reason() {
    let every = KINDS.iter().flat_map(|kind| reasons(*kind));
    let every: Vec<&str> = every
        .map(|(reason, _)| *reason)
        .chain(["", "new"])
        .collect();
    let mut recoverable = Vec::new();
    for kind in KINDS {
        for reason in &every {
            let expected = reasons(kind).contains(&(*reason, true));
            let failure = Failure::new(kind, *reason, "what happened");
            assert_eq!(failure.is_recoverable(), expected, "{kind:?} {reason}");
            if expected && !recoverable.contains(&(kind, *reason)) {
                recoverable.push((kind, *reason));
            }
        }
    }
    let table = [
        (Llm, "RateLimit"),
        (Llm, "Timeout"),
        (Llm, "Stream"),
        (Llm, "Server"),
        (Llm, "ConnectionRefused"),
        (Tool, "ExecutionFailed"),
        (Memory, "NotFound"),
    ];
    assert_eq!(recoverable, table);
}

#[test]
fn what_is_missing_is_named_and_trying_again_does_not_bring_it() {
    for field in ["provider", "tool_registry", "hook_executor"] {
        let failure = Failure::missing(field);
        assert_eq!((failure.kind, failure.reason.as_str()), (Config, "missing"));
        assert_eq!(failure.message, format!("missing {field}"));
        assert_eq!(failure.to_string(), failure.message);
        assert!(!failure.is_recoverable());
    }
}
