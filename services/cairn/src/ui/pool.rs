//! What the pool lacks, in words, and what would help.

use cairn_engine::pool::Missing;
use cairn_proto::event::{MissingCapability, ShortageKind};
use cairn_rpc::text::clip;
use std::iter;

/// Most bytes of a name.
const NAME: usize = 128;
/// What `lacks` begins with.
pub const WAITS: &str = "waits for ";
/// A shorter wait for resources is not shown, in milliseconds.
pub const LONG_WAIT_MS: u64 = 1_000;

/// What is missing, as a plan names it: `web_search>=5`, or `tool shell_exec`.
fn name(missing: &MissingCapability) -> String {
    let missing = Missing {
        capability: missing.capability.clone(),
        level: missing.level,
        tools: missing.tools.clone(),
        ..Missing::default()
    };
    clip(&missing.to_string(), NAME)
}

/// What a step waits for, in a few words: `waits for web_search, gpu`.
pub fn lacks(missing: &[MissingCapability]) -> String {
    let names: Vec<_> = missing.iter().map(name).collect();
    format!("{WAITS}{}", names.join(", "))
}

/// What each missing capability is short of: `web_search: 0/2 busy`.
pub fn counts(missing: &[MissingCapability], kind: ShortageKind) -> String {
    let counted = missing.iter().map(|it| {
        let counts = format!("{}: {}/{}", name(it), it.available, it.total);
        match kind {
            ShortageKind::Busy => format!("{counts} busy"),
            ShortageKind::None | ShortageKind::Unspecified => counts,
        }
    });
    counted.collect::<Vec<_>>().join("; ")
}

/// The resources that would have each missing capability, a line for each.
pub fn helps(missing: &[MissingCapability]) -> Vec<String> {
    missing.iter().map(help).collect()
}

fn help(missing: &MissingCapability) -> String {
    let name = name(missing);
    let tools: Vec<_> = missing.tools.iter().map(|tool| clip(tool, NAME)).collect();
    let tools = match tools.as_slice() {
        [] => return format!("a resource that declares {name} would have it: see cairn pool"),
        [tool] => format!("the tool {tool}"),
        several => format!("the tools {}", several.join(", ")),
    };
    match (missing.capability.is_empty(), missing.level) {
        (true, _) => format!("an executor that may use {tools} would take it: see cairn pool"),
        (false, ..=1) => format!("an executor with {tools} would have it: see cairn pool"),
        (false, level) => format!(
            "an executor with {tools} that declares level {level} would have it: see cairn pool"
        ),
    }
}

/// What a person can read of a shortage: what is missing, and then what helps.
pub fn shortage(missing: &[MissingCapability]) -> Vec<String> {
    let counts = counts(missing, ShortageKind::None);
    iter::once(counts).chain(helps(missing)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(capability: &str, level: u32, tools: &[&str]) -> MissingCapability {
        MissingCapability {
            capability: capability.to_owned(),
            level,
            available: 0,
            total: 2,
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        }
    }

    #[test]
    fn a_shortage_says_what_is_missing_and_who_would_have_it() {
        let several = [
            missing("web_search", 5, &["web_search"]),
            missing("gpu", 0, &[]),
        ];
        assert_eq!(lacks(&several), "waits for web_search>=5, gpu");
        let busy = counts(&several, ShortageKind::Busy);
        assert_eq!(busy, "web_search>=5: 0/2 busy; gpu: 0/2 busy");
        let expected = [
            "web_search>=5: 0/2; gpu: 0/2",
            "an executor with the tool web_search that declares level 5 would have it: see cairn pool",
            "a resource that declares gpu would have it: see cairn pool",
        ];
        assert_eq!(shortage(&several), expected);
    }

    #[test]
    fn a_tool_and_several_tools_have_words_of_their_own() {
        let files = missing("file_ops", 0, &["read_file", "write_file"]);
        let expected =
            "an executor with the tools read_file, write_file would have it: see cairn pool";
        assert_eq!(helps(&[files]), [expected]);
        let tool = missing("", 0, &["shell_exec"]);
        assert_eq!(
            lacks(std::slice::from_ref(&tool)),
            "waits for tool shell_exec"
        );
        let expected = "an executor that may use the tool shell_exec would take it: see cairn pool";
        assert_eq!(helps(&[tool]), [expected]);
    }
}
