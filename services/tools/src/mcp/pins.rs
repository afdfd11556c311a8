//! Whether tools are as they were when they were allowed.

use crate::allowances::Parts;
use crate::tool::ToolSpec;
use cairn_boot::Pins;

/// The operator's own declaration decides this part, and the server's hints, which are a part of their
/// own.
const NOT_PINNED: &str = "effect";

/// The tools as they are now.
pub(crate) fn of<'a>(tools: impl Iterator<Item = &'a ToolSpec>) -> Pins {
    tools.map(|tool| (tool.name.clone(), parts(tool))).collect()
}

/// A tool as it is now.
pub(crate) fn parts(tool: &ToolSpec) -> Parts {
    let parts = tool.parts().into_iter();
    let pinned = parts.filter(|(part, _)| *part != NOT_PINNED);
    pinned
        .map(|(part, digest)| (part.to_owned(), digest))
        .collect()
}

/// A part as a person knows it.
fn words(part: &str) -> &str {
    match part {
        "input_schema" => "schema of arguments",
        "output_schema" => "schema of results",
        other => other,
    }
}

/// Why a tool of the name waits for a person, if it is not as it was allowed. `current` has it as it is now.
pub(crate) fn disabled(pins: &Pins, current: &Pins, tool: &str) -> Option<String> {
    let (Some(pinned), Some(current)) = (pins.get(tool), current.get(tool)) else {
        return Some("it is new since its server was first listed".to_owned());
    };
    let changed: Vec<&str> = current
        .iter()
        .filter(|(part, digest)| pinned.get(*part) != Some(*digest))
        .map(|(part, _)| words(part))
        .collect();
    (!changed.is_empty()).then(|| format!("its {} changed", changed.join(" and its ")))
}
