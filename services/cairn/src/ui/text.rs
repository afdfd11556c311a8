//! Text of others, made harmless for a terminal, and commands to be typed.

use crate::context::Context;
use cairn_boot::Origin;
use cairn_rpc::text::{escape, is_hidden};
use serde_json::Value;
use std::fmt::Write as _;

/// Several lines of somebody else's text: line ends and tabs stay, everything else that could
/// drive a terminal is written out.
pub fn block(text: &str) -> String {
    let lines: Vec<String> = text.trim_end().lines().map(harmless).collect();
    lines.join("\n")
}

fn harmless(line: &str) -> String {
    let cells: Vec<_> = line.split('\t').map(escape).collect();
    cells.join("\t")
}

/// A JSON document on one line, in which every character that could drive a terminal is an
/// escape of JSON.
pub fn json(value: &Value) -> String {
    json_escaped(&value.to_string())
}

/// JSON text as it is, but for characters that could drive a terminal: outside of strings there
/// are line ends only, and within them they are escaped as JSON does it.
pub fn json_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || !is_hidden(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing into a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// A command as a person types it here: names the store, or the workspace that has it, if this command was told
/// which one.
pub fn command(context: &Context, rest: &str) -> String {
    let settings = &context.settings;
    let is_told = matches!(settings.origin("workspace.path"), Origin::Flag(_));
    let has_store = context.config().store.is_of_workspace
        && !context.config().store.is_redis()
        && context.config().client.server.is_none();
    match is_told && has_store {
        true => command_in(
            context,
            rest,
            &context.config().workspace.path.to_string_lossy(),
        ),
        false => placed(context, rest),
    }
}

/// The same for a command that works in a folder.
pub fn command_in(context: &Context, rest: &str, folder: &str) -> String {
    placed(context, &format!("{rest} --in {}", quoted(folder)))
}

/// The command with the options that decide what it works on: the settings' file, and the services or the store.
fn placed(context: &Context, rest: &str) -> String {
    let rest = match &context.given_file {
        Some(file) => format!("{rest} --config {}", quoted(&file.to_string_lossy())),
        None => rest.to_owned(),
    };
    let server = context.config().client.server.as_ref();
    if let (Some(server), Origin::Flag(_)) = (server, context.settings.origin("client.server")) {
        return format!("cairn {rest} --server {server}");
    }
    match (
        &context.config().store.path,
        context.settings.origin("store.path"),
    ) {
        (Some(store), Origin::Flag(_)) => {
            format!("cairn {rest} --store {}", quoted(&store.to_string_lossy()))
        }
        _ => format!("cairn {rest}"),
    }
}

/// A word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", escape(&word.replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_lines_and_tabs_and_nothing_that_drives_a_terminal() {
        let text = "a\tb\r\nc\u{1b}[2Jd\u{202e}\n\n";
        assert_eq!(block(text), "a\tb\nc\\u{1b}[2Jd\\u{202e}");
    }

    #[test]
    fn json_stays_the_same_document_without_hidden_characters() {
        let value = serde_json::json!({"a\u{9b}": "x\u{202e}y\u{1b}\n\u{e0041}ü"});
        let text = json(&value);
        assert!(!text.contains(is_hidden), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let cases = [
            ("a/b.db", "a/b.db"),
            ("", "''"),
            ("my store", "'my store'"),
            ("it's", "'it'\\''s'"),
            ("$(x)", "'$(x)'"),
        ];
        for (word, want) in cases {
            assert_eq!(quoted(word), want);
        }
    }
}
