use super::*;
use cairn_proto::event::grant_scope::{Folder, Kind};
use cairn_proto::event::{CallPreview, GrantScope};
use cairn_proto::orchestrator::{ApprovalScope, Coverage};

fn asks() -> Pending {
    Pending {
        reason: WaitReason::Approval.into(),
        tool: "edit_file".to_owned(),
        arguments_json: r#"{"path":"src/a.rs"}"#.to_owned(),
        ..Pending::default()
    }
}

fn condition(name: &str, pattern: &str) -> Condition {
    Condition {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
    }
}

fn below_src() -> ApprovalScope {
    let folder = "src".to_owned();
    ApprovalScope {
        id: "folder:src".to_owned(),
        scope: Some(GrantScope {
            kind: Some(Kind::Folder(Folder { folder })),
        }),
    }
}

/// `path` holds for all paths of a call, also for those that are named here as open.
#[test]
fn patterns_of_a_person_are_shown_in_place_of_the_values() {
    let values = [("message", "hi"), ("path", "docs/a"), ("note", "")];
    let when = values
        .map(|(name, pattern)| condition(name, pattern))
        .to_vec();
    let pending = Pending {
        always_covers: Some(Coverage { when }),
        ..asks()
    };
    for (when, shown) in [
        (vec![], "message = hi, path = docs/a, no note"),
        (
            vec![condition("message", "**")],
            "message = **, any path, no note",
        ),
        (
            vec![condition("path", "docs/**"), condition("note", "x*")],
            "path = docs/**, note = x*, any message",
        ),
    ] {
        let shown = format!("would cover calls with {shown}");
        assert_eq!(covers(&pending, Wanted::Like(&when)), shown);
    }
    let shown = covers(&asks(), Wanted::Like(&[condition("message", "**")]));
    assert_eq!(shown, "would cover calls with message = **");
}

#[test]
fn a_scope_is_shown_by_what_it_covers_and_the_values_only_where_no_scope_is_known() {
    let pending = Pending {
        always_covers: Some(Coverage::default()),
        scopes: vec![below_src()],
        ..asks()
    };
    assert_eq!(covers(&pending, Wanted::Open), "");
    let scope = covers(&pending, Wanted::Scope("folder:src"));
    assert_eq!(scope, "would cover every call of edit_file below src/");
    let alone = covers(&pending, Wanted::Scope("call"));
    assert_eq!(alone, "would cover this call alone");
    let like = covers(&pending, Wanted::Like(&[]));
    assert_eq!(like, "would cover calls without arguments");
    let plan = Pending {
        reason: WaitReason::PlanReview.into(),
        ..asks()
    };
    assert_eq!(covers(&plan, Wanted::Open), "");
}

#[test]
fn a_call_is_its_write_its_command_or_its_arguments() {
    let plain = asks();
    assert_eq!(gist(&plain), r#"edit_file {"path":"src/a.rs"}"#);
    assert_eq!(call(&plain)[0].0, "arguments");
    let write = Pending {
        preview: Some(CallPreview {
            path: "src/a.rs".to_owned(),
            before_digest: "a".to_owned(),
            after_digest: "b".to_owned(),
            diff: "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-a\n+b\n".to_owned(),
            added: 1,
            removed: 1,
            is_protected: true,
        }),
        ..asks()
    };
    assert_eq!(gist(&write), "edit_file src/a.rs  (+1 -1)");
    let facts = call(&write);
    let names: Vec<&str> = facts.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["writes", "protected"]);
    assert!(facts.iter().all(|(_, text)| !text.is_empty()), "{facts:?}");
    let command = Pending {
        command: "cargo test".to_owned(),
        folder: "crates/a".to_owned(),
        opens: "confined".to_owned(),
        ..asks()
    };
    let in_doubt = Pending {
        tool: "shell_exec".to_owned(),
        arguments_json: r#"{"command":"cargo test"}"#.to_owned(),
        ..asks()
    };
    assert_eq!(gist(&in_doubt), "shell_exec cargo test");
    assert_eq!(call(&in_doubt)[1], ("folder", "the workspace".to_owned()));
    let expected = [
        ("command", "cargo test".to_owned()),
        ("folder", "crates/a".to_owned()),
        ("opens", "confined".to_owned()),
    ];
    assert_eq!(call(&command), expected);
    assert_eq!(preview_json(&command), Value::Null);
    assert_eq!(preview_json(&write)["path"], "src/a.rs");
}
