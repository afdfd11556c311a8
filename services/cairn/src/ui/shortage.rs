//! What the pool lacks, in words.

use cairn_proto::event::{MissingCapability, ShortageKind};
use cairn_rpc::text::clip;

/// Longest name in a line, in bytes.
const NAME: usize = 80;
/// Most names of tools in a line.
const MOST_TOOLS: usize = 8;

/// `web_search: 0/1 busy`; of what no resource has, who would have it. Escaped.
pub fn lacks(missing: &[MissingCapability], kind: ShortageKind) -> String {
    let pieces = missing.iter().map(|it| {
        let counts = format!("{}: {}/{}", name(it), it.available, it.total);
        match kind {
            ShortageKind::Busy => format!("{counts} busy"),
            ShortageKind::None => format!("{counts}; {} would have it", owner(it)),
            ShortageKind::Unspecified => counts,
        }
    });
    pieces.collect::<Vec<_>>().join(" · ")
}

/// As a plan names it, or the tool of a step of one call.
fn name(missing: &MissingCapability) -> String {
    match (missing.capability.as_str(), missing.level) {
        ("", _) => format!("the tool {}", tools(missing)),
        (capability, 0) => clip(capability, NAME),
        (capability, level) => format!("{}>={level}", clip(capability, NAME)),
    }
}

fn owner(missing: &MissingCapability) -> String {
    match (missing.capability.as_str(), missing.tools.len()) {
        ("", _) => "an executor that may use it".to_owned(),
        (capability, 0) => format!("a resource that declares {}", clip(capability, NAME)),
        (_, 1) => format!("an executor with the tool {}", tools(missing)),
        _ => format!("an executor with the tools {}", tools(missing)),
    }
}

fn tools(missing: &MissingCapability) -> String {
    let tools = missing.tools.iter().take(MOST_TOOLS);
    let mut tools: Vec<String> = tools.map(|tool| clip(tool, NAME)).collect();
    if missing.tools.len() > MOST_TOOLS {
        tools.push("…".to_owned());
    }
    tools.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(capability: &str, total: u32, tools: &[&str]) -> MissingCapability {
        MissingCapability {
            capability: capability.to_owned(),
            total,
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            ..MissingCapability::default()
        }
    }

    #[test]
    fn what_is_busy_has_its_counts() {
        let search = missing("web_search", 1, &["web_search"]);
        let gpu = MissingCapability {
            level: 2,
            ..missing("gpu", 3, &[])
        };
        let text = lacks(&[gpu, search], ShortageKind::Busy);
        assert_eq!(text, "gpu>=2: 0/3 busy · web_search: 0/1 busy");
    }

    #[test]
    fn what_no_resource_has_says_who_would_have_it() {
        let of = |it| lacks(&[it], ShortageKind::None);
        assert_eq!(
            of(missing("web_search", 0, &["web_search"])),
            "web_search: 0/0; an executor with the tool web_search would have it"
        );
        assert_eq!(
            of(missing("file_ops", 0, &["read_file", "write_file"])),
            "file_ops: 0/0; an executor with the tools read_file, write_file would have it"
        );
        assert_eq!(
            of(missing("gpu", 0, &[])),
            "gpu: 0/0; a resource that declares gpu would have it"
        );
        assert_eq!(
            of(missing("", 0, &["send"])),
            "the tool send: 0/0; an executor that may use it would have it"
        );
    }
}
