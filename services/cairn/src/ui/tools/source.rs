//! Where tools come from, as text and as JSON.

use super::{ListToolsResponse, MOST_TEXT, ToolSource, ToolSourceState};
use crate::ui::table::{Column, Table};
use cairn_rpc::text::{clip, escape};
use serde_json::{Value, json};

/// Reasons of tools that are left out, for each source.
const MOST_REASONS: usize = 3;

/// The state of a source, in a word or two.
pub(super) fn state(state: ToolSourceState) -> &'static str {
    match state {
        ToolSourceState::Ready => "ready",
        ToolSourceState::Starting => "starting",
        ToolSourceState::NotAllowed => "not allowed",
        ToolSourceState::Unreachable => "unreachable",
        ToolSourceState::Unspecified => "unknown",
    }
}

pub(super) fn table(listed: &ListToolsResponse) -> Table {
    let mut table = Table::new([
        Column::Left("SOURCE"),
        Column::Left("STATE"),
        Column::Right("TOOLS"),
        Column::Left("PLACE"),
    ]);
    for source in &listed.sources {
        let tools = listed
            .tools
            .iter()
            .filter(|tool| tool.source == source.name);
        let count = tools.count().to_string();
        table.row([&source.name, state(source.state()), &count, &source.place]);
    }
    table
}

/// The reason without the command that helps, which the lines below it name.
pub(super) fn reason(text: &str) -> String {
    let reason = text.split_once("; allow it with: ");
    clip(reason.map_or(text, |(reason, _)| reason), MOST_TEXT)
}

/// What a person should know of a source, with what to do about it.
pub(super) fn notes(source: &ToolSource) -> Vec<(String, Vec<String>)> {
    let (name, why) = (escape(&source.name), reason(&source.problem));
    let after = |text: &str| match why.is_empty() {
        true => text.to_owned(),
        false => format!("{text}: {why}"),
    };
    let mut notes = Vec::new();
    match source.state() {
        ToolSourceState::NotAllowed => {
            let hint = format!("if you trust it, start it with: cairn tools allow {name}");
            notes.push((after(&format!("{name} is not allowed")), vec![hint]));
        }
        ToolSourceState::Unreachable => {
            notes.push((after(&format!("{name} cannot be reached")), Vec::new()));
        }
        ToolSourceState::Starting => {
            notes.push((format!("{name} is still being started"), Vec::new()));
        }
        ToolSourceState::Ready | ToolSourceState::Unspecified => {}
    }
    let left_out = source.left_out.len();
    if left_out > 0 {
        let mut reasons: Vec<String> = source.left_out.iter().map(|it| clip(it, 200)).collect();
        reasons.truncate(MOST_REASONS);
        if left_out > MOST_REASONS {
            reasons.push(format!("and {} more", left_out - MOST_REASONS));
        }
        let tools = if left_out == 1 { "tool" } else { "tools" };
        notes.push((format!("{left_out} {tools} of {name} left out"), reasons));
    }
    notes
}

pub(super) fn json(source: &ToolSource) -> Value {
    json!({
        "kind": "source",
        "name": source.name,
        "state": state(source.state()).replace(' ', "_"),
        "problem": source.problem,
        "place": source.place,
        "digest": source.digest,
        "left_out": source.left_out,
    })
}

/// What a person is asked to allow.
pub(super) fn facts(source: &ToolSource) -> Vec<(&'static str, String)> {
    vec![
        ("server", source.name.clone()),
        ("place", source.place.clone()),
        ("state", state(source.state()).to_owned()),
        ("because", reason(&source.problem)),
        ("digest", source.digest.clone()),
    ]
}
