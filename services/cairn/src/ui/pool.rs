//! What the pool lacks, in words, and what would help.

use super::text::quoted;
use cairn_engine::pool::Missing;
use cairn_proto::event::{MissingCapability, ShortageKind};
use cairn_rpc::text::clip;
use std::iter;

/// Most bytes of a name.
const NAME: usize = 128;
/// Most missing capabilities, and most lines about what helps.
const MOST: usize = 4;
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
    let names = first(missing.iter().map(name).collect());
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
    first(counted.collect()).join("; ")
}

/// The resources that would have the missing capabilities, a line for each help.
pub fn helps(missing: &[MissingCapability]) -> Vec<String> {
    let mut helps: Vec<String> = Vec::new();
    for help in missing.iter().map(help) {
        if !helps.contains(&help) {
            helps.push(help);
        }
    }
    first(helps)
}

/// The first of these texts, and how many more there are.
fn first(mut texts: Vec<String>) -> Vec<String> {
    let more = texts.len().saturating_sub(MOST);
    if more > 0 {
        texts.truncate(MOST);
        texts.push(format!("and {more} more"));
    }
    texts
}

fn help(missing: &MissingCapability) -> String {
    let name = name(missing);
    let tools: Vec<_> = missing.tools.iter().map(|tool| clip(tool, NAME)).collect();
    let tools = match tools.as_slice() {
        [] => {
            let put = format!(
                "cairn pool put ID --kind KIND --capability {}",
                quoted(&name)
            );
            return format!("a resource that declares {name} would have it: {put}");
        }
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
            "a resource that declares gpu would have it: cairn pool put ID --kind KIND --capability gpu",
        ];
        assert_eq!(shortage(&several), expected);
    }

    #[test]
    fn of_many_missing_capabilities_the_first_are_named_and_each_help_once() {
        let many = ["a", "b", "c", "d", "e", "f"].map(|it| missing(it, 0, &["web_search"]));
        assert_eq!(lacks(&many), "waits for a, b, c, d, and 2 more");
        let expected = [
            "a: 0/2; b: 0/2; c: 0/2; d: 0/2; and 2 more",
            "an executor with the tool web_search would have it: see cairn pool",
        ];
        assert_eq!(shortage(&many), expected);
        let declared = ["a", "b", "c", "d", "e"].map(|it| missing(it, 5, &[]));
        let helps = helps(&declared);
        assert!(helps[3].ends_with("--capability 'd>=5'"), "{helps:?}");
        assert_eq!((helps.len(), &*helps[4]), (5, "and 1 more"));
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
