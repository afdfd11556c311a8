//! Where tools come from, as text and as JSON.

use super::{ListToolsResponse, MOST_TEXT, ToolSource, ToolSourceState};
use crate::settings::LeftOut;
use crate::ui::table::{Column, Table};
use cairn_rpc::text::{clip, escape};
use cairn_tools::mcp::Unused;
use serde_json::{Value, json};

/// Reasons of tools that are left out, for each source.
const MOST_REASONS: usize = 3;
/// The file of a workspace that names servers.
const FILE: &str = ".mcp.json";

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

pub(super) fn table(listed: &ListToolsResponse, left_out: &[LeftOut]) -> Table {
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
    for it in left_out {
        table.row([&shown_name(it), left_out_state(it), "0", FILE]);
    }
    table
}

fn left_out_name(left_out: &LeftOut) -> &str {
    left_out.name.as_deref().unwrap_or(FILE)
}

/// The name for people, who do not see one of blanks.
fn shown_name(left_out: &LeftOut) -> String {
    match left_out_name(left_out) {
        name if name.trim().is_empty() => format!("'{name}'"),
        name => name.to_owned(),
    }
}

fn left_out_state(left_out: &LeftOut) -> &'static str {
    match left_out.why {
        Unused::Disabled => "disabled",
        Unused::Unusable(_) => "left out",
    }
}

/// Why a server of the workspace cannot be used; nothing if it is not to be used.
pub(super) fn left_out_note(left_out: &LeftOut) -> Option<(String, Vec<String>)> {
    let Unused::Unusable(problem) = &left_out.why else {
        return None;
    };
    let name = clip(&shown_name(left_out), MOST_TEXT);
    let note = format!("{name} is left out: {}", clip(problem, MOST_TEXT));
    Some((note, Vec::new()))
}

pub(super) fn left_out_json(left_out: &LeftOut) -> Value {
    let problem = match &left_out.why {
        Unused::Disabled => "",
        Unused::Unusable(problem) => problem,
    };
    json!({
        "kind": "source",
        "name": left_out_name(left_out),
        "state": left_out_state(left_out).replace(' ', "_"),
        "problem": problem,
        "place": FILE,
        "digest": "",
        "left_out": [],
    })
}

/// What a person should know of a source, with what to do about it.
pub(super) fn notes(source: &ToolSource) -> Vec<(String, Vec<String>)> {
    let (name, why) = (escape(&source.name), clip(&source.problem, MOST_TEXT));
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
        // Tools that cannot be used, and settings of the server that name none.
        let problems = if left_out == 1 { "problem" } else { "problems" };
        notes.push((format!("{left_out} {problems} of {name}"), reasons));
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
        ("because", source.problem.clone()),
        ("digest", source.digest.clone()),
    ]
}
