//! What calls of tools carry.

use super::{attempt, call, effect, number, text};
use cairn_engine::command::{Command, ModeSet, SetMode};
use cairn_engine::event::{
    ApprovalGranted, ApprovalRevoked, Blob, CallMedia, CallPreview, CallPreviewed, CallRejudged,
    EventKind, FileState, InputRequested, ResultHandle, ToolQuestion, ToolsFound,
};
use cairn_engine::rules::{Condition, GrantScope, ToolServer};
use cairn_engine::session::Mode;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(super) fn media() -> impl Strategy<Value = CallMedia> {
    let media = (text(), text(), vec(any::<u8>(), 0..4), any::<bool>());
    media.prop_map(|(mime_type, name, data, is_shown)| CallMedia {
        mime_type,
        name,
        data,
        is_shown,
    })
}

pub(super) fn file() -> impl Strategy<Value = FileState> {
    (text(), text()).prop_map(|(path, digest)| FileState { path, digest })
}

pub(super) fn whole() -> impl Strategy<Value = ResultHandle> {
    let blob = (text(), any::<u32>()).prop_map(|(digest, size)| Blob { digest, size });
    let sizes = (any::<u64>(), any::<u64>(), any::<u64>());
    let whole = (text(), sizes, any::<bool>(), vec(blob, 0..3));
    whole.prop_map(
        |(handle, (bytes, lines, lost_bytes), is_cut, blobs)| ResultHandle {
            handle,
            bytes,
            lines,
            lost_bytes,
            is_cut,
            blobs,
        },
    )
}

pub(super) fn condition() -> impl Strategy<Value = Condition> {
    (text(), text()).prop_map(|(name, pattern)| Condition { name, pattern })
}

fn grant_scope() -> impl Strategy<Value = GrantScope> {
    let prefix = (vec(text(), 0..3), text());
    let server = (text(), text()).prop_map(|(name, digest)| ToolServer { name, digest });
    prop_oneof![
        Just(GrantScope::Tool),
        text().prop_map(|folder| GrantScope::Folder { folder }),
        prefix.prop_map(|(words, folder)| GrantScope::Prefix { words, folder }),
        server.prop_map(GrantScope::Server),
    ]
}

fn granted() -> impl Strategy<Value = ApprovalGranted> {
    let granted = (
        number(),
        text(),
        text(),
        vec(condition(), 0..3),
        text(),
        option::of(grant_scope()),
    );
    granted.prop_map(
        |(grant, tool, tool_digest, when, agent, scope)| ApprovalGranted {
            grant,
            tool,
            tool_digest,
            when,
            agent,
            scope,
        },
    )
}

fn question() -> impl Strategy<Value = ToolQuestion> {
    (text(), vec(text(), 0..3), text(), option::of(text())).prop_map(
        |(text, choices, requests, state)| ToolQuestion {
            text,
            choices,
            requests,
            state,
        },
    )
}

fn preview() -> impl Strategy<Value = CallPreview> {
    let texts = (text(), text(), text(), text());
    (texts, number(), number(), any::<bool>()).prop_map(
        |((path, before_digest, after_digest, diff), added, removed, is_protected)| CallPreview {
            path,
            before_digest,
            after_digest,
            diff,
            added,
            removed,
            is_protected,
        },
    )
}

fn mode() -> impl Strategy<Value = Mode> {
    select(Mode::ALL.to_vec())
}

pub(super) fn set_mode() -> impl Strategy<Value = Command> {
    mode().prop_map(|mode| SetMode { mode }.into())
}

pub(super) fn kinds() -> Vec<(&'static str, BoxedStrategy<EventKind>)> {
    let rejudged = (
        call(),
        text(),
        vec(condition(), 0..3),
        effect(),
        any::<bool>(),
    );
    let rejudged =
        rejudged.prop_map(
            |(call, tool_digest, resolved, effect, previews)| CallRejudged {
                call,
                tool_digest,
                resolved,
                effect,
                previews,
            },
        );
    let previewed = (call(), preview());
    let previewed = previewed.prop_map(|(call, preview)| CallPreviewed { call, preview });
    let mode_set = mode().prop_map(|mode| ModeSet { mode });
    let asked = (call(), question()).prop_map(|(call, question)| InputRequested { call, question });
    let revoked = number().prop_map(|grant| ApprovalRevoked { grant });
    let found = (attempt(), vec(text(), 0..3));
    let found = found.prop_map(|(attempt, tools)| ToolsFound { attempt, tools });
    vec![
        ("call_rejudged", rejudged.prop_map(EventKind::from).boxed()),
        (
            "call_previewed",
            previewed.prop_map(EventKind::from).boxed(),
        ),
        ("mode_set", mode_set.prop_map(EventKind::from).boxed()),
        ("input_requested", asked.prop_map(EventKind::from).boxed()),
        (
            "approval_granted",
            granted().prop_map(EventKind::from).boxed(),
        ),
        (
            "approval_revoked",
            revoked.prop_map(EventKind::from).boxed(),
        ),
        ("tools_found", found.prop_map(EventKind::from).boxed()),
    ]
}
