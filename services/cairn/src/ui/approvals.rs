//! A call that waits for approval: what it would do, and what an approval of it can cover.

use super::diff::{self, Shown};
use super::scopes;
use super::style::Style;
use super::tools::covered;
use cairn_proto::event::{Condition, WaitReason};
use cairn_proto::orchestrator::Pending;
use serde_json::{Value, json};

/// What a person wants an approval to cover besides the call.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// They have not said so yet.
    Open,
    /// Calls that have the values of the call, or those of these patterns.
    Like(&'a [Condition]),
    /// The calls of the scope with this id.
    Scope(&'a str),
}

/// What the call would do, by name: the path of a write, a command with its folder, or the arguments. Not escaped; an
/// empty text is none.
pub fn call(pending: &Pending) -> Vec<(&'static str, String)> {
    if let Some(preview) = &pending.preview {
        let note = match preview.is_protected {
            true => {
                "Cairn, git or agents read this file on their own, so each write of it is asked about"
            }
            false => "",
        };
        return vec![
            ("writes", diff::size(preview)),
            ("protected", note.to_owned()),
        ];
    }
    match command(pending) {
        None => vec![("arguments", pending.arguments_json.clone())],
        Some((command, folder)) => {
            let folder = match folder.as_str() {
                "" | "." => "the workspace".to_owned(),
                _ => folder,
            };
            vec![
                ("command", command),
                ("folder", folder),
                ("opens", pending.opens.clone()),
            ]
        }
    }
}

/// The tool that runs commands.
const SHELL: &str = "shell_exec";

/// The command of a call and its folder, if the call runs one. Only a question for approval names them; in others they
/// are among the arguments.
fn command(pending: &Pending) -> Option<(String, String)> {
    if !pending.command.is_empty() {
        return Some((pending.command.clone(), pending.folder.clone()));
    }
    shell_command(&pending.tool, &pending.arguments_json)
}

/// Whether the call runs a command.
pub fn is_command(pending: &Pending) -> bool {
    command(pending).is_some()
}

/// The command and the folder that the arguments of a call name, if its tool runs commands.
pub fn shell_command(tool: &str, arguments_json: &str) -> Option<(String, String)> {
    if tool != SHELL {
        return None;
    }
    let arguments: Value = serde_json::from_str(arguments_json).ok()?;
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let folder = text("cwd").unwrap_or_default();
    Some((text("command")?.to_owned(), folder.to_owned()))
}

/// The call in a few words, not escaped: its tool with the write, the command or the arguments.
pub fn gist(pending: &Pending) -> String {
    let what = match (&pending.preview, command(pending)) {
        (Some(preview), _) => diff::size(preview),
        (None, None) => pending.arguments_json.clone(),
        (None, Some((command, _))) => command,
    };
    format!("{} {what}", pending.tool)
}

/// The change that a write would make, if the call is one: at most so many lines of so many columns.
pub fn change(style: Style, pending: &Pending, most: usize, columns: usize) -> Option<Shown> {
    let preview = pending.preview.as_ref()?;
    Some(diff::lines(style, preview, most, columns))
}

/// The further calls that an approval would cover. Not escaped, but for scopes.
pub fn covers(pending: &Pending, wanted: Wanted<'_>) -> String {
    if pending.reason() != WaitReason::Approval {
        return String::new();
    }
    match wanted {
        // They are shown with the answers.
        Wanted::Open if !pending.scopes.is_empty() => String::new(),
        Wanted::Open => alike(pending, &[]),
        Wanted::Like(when) => alike(pending, when),
        Wanted::Scope(id) => {
            let mut further = scopes::further(pending).into_iter();
            let covers = further.find(|it| it.id == id).map(|it| it.covers);
            let covers = covers.unwrap_or_else(|| "this call alone".to_owned());
            format!("would cover {covers}")
        }
    }
}

/// Those with the values of the call, or with those of `when`.
fn alike(pending: &Pending, when: &[Condition]) -> String {
    let covers = pending.always_covers.as_ref();
    match covers {
        _ if !when.is_empty() => {
            let mut parts = vec![covered(when)];
            let others = covers.into_iter().flat_map(|it| &it.when);
            let others = others.filter(|it| !when.iter().any(|named| named.name == it.name));
            parts.extend(others.map(|it| match it.pattern.is_empty() {
                true => format!("no {}", it.name),
                false => format!("any {}", it.name),
            }));
            format!("would cover calls with {}", parts.join(", "))
        }
        None => "not known: no process runs the tools, or values of this call cannot be compared"
            .to_owned(),
        Some(covers) if covers.when.is_empty() => "would cover calls without arguments".to_owned(),
        Some(covers) => format!("would cover calls with {}", covered(&covers.when)),
    }
}

/// The change of a write as JSON; null for other calls.
pub fn preview_json(pending: &Pending) -> Value {
    let Some(preview) = &pending.preview else {
        return Value::Null;
    };
    json!({
        "path": preview.path,
        "diff": preview.diff,
        "added": preview.added,
        "removed": preview.removed,
        "is_protected": preview.is_protected,
    })
}

/// The scopes of further calls as JSON.
pub fn scopes_json(pending: &Pending) -> Value {
    let further = scopes::further(pending).into_iter();
    let further = further.map(|it| json!({"id": it.id, "covers": it.covers}));
    Value::Array(further.collect())
}

#[cfg(test)]
mod tests;
